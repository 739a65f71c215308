package raftstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

func TestFullDiskHandsOver(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 400)
	c.kill("a")
	var free atomic.Uint64
	free.Store(1000)
	cfg := c.cfgs["a"]
	cfg.ReserveBytes, cfg.spacePause = 100, 5*time.Millisecond
	cfg.free = func(string) (uint64, error) { return free.Load(), nil }
	c.cfgs["a"] = cfg
	a := c.start("a")
	c.leadWith("a")
	if err := a.store.Writable(); err != nil {
		t.Fatal(err)
	}
	free.Store(99)
	c.leader("b", "c")
	if err := a.store.Writable(); !errors.Is(err, ErrReserve) {
		t.Errorf("writable: %v", err)
	}
	c.put("elsewhere", "b", "c")
	free.Store(124)
	a.store.lookAtSpace()
	if err := a.store.Writable(); !errors.Is(err, ErrReserve) {
		t.Errorf("writable too early: %v", err)
	}
	free.Store(125)
	c.poll("space", func() bool { return a.store.Writable() == nil })
	c.settle()
}

func TestFreeBytes(t *testing.T) {
	if free, err := freeBytes(t.TempDir()); err != nil && !errors.Is(err, errors.ErrUnsupported) || err == nil && free == 0 {
		t.Errorf("%d bytes, %v", free, err)
	}
	if _, err := freeBytes(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("free space of nothing")
	}
}

// A leader whose disk does not answer hands over.
func TestSlowDiskHandsOver(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 410)
	c.kill("a")
	var slow atomic.Bool
	resume := make(chan struct{})
	cfg := c.cfgs["a"]
	cfg.before = func(step, path string) error {
		if slow.Load() && filepath.Ext(path) == segmentSuffix {
			<-resume
		}
		return nil
	}
	c.cfgs["a"] = cfg
	a := c.start("a")
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
	c.onLeader("add b", func(ctx context.Context, s *Store) error { _, err := s.AddLearner(ctx, "b", "b:1"); return err })
	cfg := c.config("b")
	cfg.Cluster.Initial, cfg.Cluster.Join, cfg.Cluster.Version = nil, []string{"a:1"}, 0
	if s, err := OpenContext(testContext(t), cfg); err == nil {
		s.Stop()
		t.Error("a member that cannot read the commands joined")
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, identityFile)); err == nil {
		t.Error("the refused member has data")
	}
}

func TestTransferGivesUpTheLease(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 430)
	stopWatch := c.watchLeases()
	for range 4 {
		m := c.leader()
		c.poll("a lease", m.store.MaySpeak)
		if until := m.store.LeaseUntil(); until.IsZero() {
			t.Error("no end of the lease")
		}
		if err := m.store.TransferLeader(testContext(t), 0); err != nil && !errors.Is(err, ErrNotLeader) {
			t.Fatal(err)
		}
		if m.store.MaySpeak() {
			t.Error("a lease after the transfer")
		}
	}
	stopWatch()
}
