package raftstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/wal"
)

func TestFullDiskHandsOver(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 400)
	free := c.withFreeSpace("a")["a"]
	a := c.nodes["a"]
	c.leadWith("a")
	if err := a.store.Space.Writable(); err != nil {
		t.Fatal(err)
	}
	free.Store(99)
	c.leader("b", "c")
	if err := a.store.Space.Writable(); !errors.Is(err, ErrReserve) {
		t.Errorf("writable: %v", err)
	}
	c.put("elsewhere", "b", "c")
	free.Store(124)
	a.store.Space.look()
	if err := a.store.Space.Writable(); !errors.Is(err, ErrReserve) {
		t.Errorf("writable too early: %v", err)
	}
	free.Store(125)
	c.poll("space", func() bool { return a.store.Space.Writable() == nil })
	c.settle()
}

func TestFreeBytes(t *testing.T) {
	if free, err := datadir.FreeBytes(t.TempDir()); err != nil && !errors.Is(err, errors.ErrUnsupported) ||
		err == nil && free == 0 {
		t.Errorf("%d bytes, %v", free, err)
	}
	if _, err := datadir.FreeBytes(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("free space of nothing")
	}
}

// A leader whose disk does not answer hands over.
func TestSlowDiskHandsOver(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 410)
	var slow atomic.Bool
	resume := make(chan struct{})
	c.configure("a", func(cfg *Config) {
		cfg.before = func(step, path string) error {
			if slow.Load() && filepath.Ext(path) == wal.Suffix {
				<-resume
			}
			return nil
		}
	})
	c.startAll()
	a := c.nodes["a"]
	c.leadWith("a")
	c.put("before")
	slow.Store(true)
	var term uint64
	a.note(func() { term = a.term })
	a.store.Propose(term, [][]byte{[]byte("stuck")})
	c.leader("b", "c")
	c.put("elsewhere", "b", "c")
	slow.Store(false)
	close(resume)
	c.settle()
}

func TestJoinNeedsTheClusterVersion(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 1, 420)
	c.poll("the version", func() bool { return c.leader().store.ClusterVersion() == 1 })
	c.onLeader("add b", func(ctx context.Context, s *Store) error {
		_, err := s.Changes.AddLearner(ctx, "b", "b:1")
		return err
	})
	cfg := c.config("b")
	cfg.Cluster.Initial, cfg.Cluster.Join, cfg.Cluster.Version = nil, []string{"a:1"}, 0
	if s, err := Open(testContext(t), cfg); err == nil {
		s.Stop()
		t.Error("a member that cannot read the commands joined")
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, datadir.IdentityFile)); err == nil {
		t.Error("the refused member has data")
	}
}

func TestTransferGivesUpTheLease(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 430)
	stopWatch := c.watchLeases()
	for range 4 {
		var m *machine
		c.poll("a leader with a lease that ends", func() bool { // which on a busy machine it may lose again
			m = c.leader()
			return m.store.MaySpeak()
		})
		if err := m.store.Changes.TransferLeader(testContext(t), 0); err != nil && !errors.Is(err, ErrNotLeader) {
			t.Fatal(err)
		}
		if m.store.MaySpeak() {
			t.Error("a lease after the transfer")
		}
	}
	stopWatch()
}

// withFreeSpace starts the members, the named ones with a reserve of 100 bytes and a disk that the test fills.
func (c *testCluster) withFreeSpace(names ...string) map[string]*atomic.Uint64 {
	c.t.Helper()
	free := map[string]*atomic.Uint64{}
	for _, name := range names {
		disk := &atomic.Uint64{}
		disk.Store(1000)
		free[name] = disk
		c.configure(name, func(cfg *Config) {
			cfg.ReserveBytes, cfg.spacePause = 100, 5*time.Millisecond
			cfg.FreeSpace = func(string) (uint64, error) { return disk.Load(), nil }
		})
	}
	c.startAll()
	return free
}

func (c *testCluster) waitFull(name string, full bool) {
	c.t.Helper()
	c.poll("the disk of "+name, func() bool {
		for _, m := range c.nodes {
			members := m.store.Members()
			at := slices.IndexFunc(members, func(m Member) bool { return m.Name == name })
			if m.store.Space.Writable() != nil != full && m.name == name || at < 0 || members[at].Full != full {
				return false
			}
		}
		return true
	})
}

// A member with a full disk leaves elections to the others.
func TestFullDiskIsNotElected(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 440)
	free := c.withFreeSpace("a")
	free["a"].Store(1)
	c.waitFull("a", true)
	for range 4 {
		old := c.leader("b", "c")
		c.put("with "+old.name, "b", "c")
		c.kill(old.name)
		c.leader(others([]string{"b", "c"}, old.name)...)
		c.start(old.name)
		c.waitPublished(old)
	}
	free["a"].Store(1000)
	c.waitFull("a", false)
	c.leadWith("a")
	c.settle()
}

// The one member with a full disk that has all of the log is elected when nobody else can be.
func TestFullDiskIsElectedAtLast(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 450)
	free := c.withFreeSpace("a")
	free["a"].Store(1)
	c.waitFull("a", true)
	leader := c.leader("b", "c").name
	behind := others([]string{"b", "c"}, leader)[0]
	c.isolate(behind, true)
	c.put("that one does not have", leader)
	c.kill(leader)
	c.isolate(behind, false)
	c.put("after the full one was elected", "a", behind) // which hands over as soon as the other has its log
	c.start(leader)
	c.leader("b", "c")
	c.settle()
}

// When all disks are full the leadership stays where it is: it would only go round.
func TestAllDisksFull(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 460)
	free := c.withFreeSpace("a", "b", "c")
	for _, name := range c.names {
		free[name].Store(1)
	}
	for _, name := range c.names {
		c.waitFull(name, true)
	}
	m := c.leader()
	var term uint64
	m.note(func() { term = m.term })
	for range 20 { // looks at the space
		m.store.Space.look()
	}
	if m.store.HandingOver() {
		t.Error("it hands over to a full disk")
	}
	c.put("what is left of the reserve")
	m.note(func() {
		if m.term != term {
			t.Errorf("term %d became %d", term, m.term)
		}
	})
	// One of them gets space, and with it the leadership.
	other := others(c.names, m.name)[0]
	free[other].Store(1000)
	c.leader(other)
	c.settle()
}
