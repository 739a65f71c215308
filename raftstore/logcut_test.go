package raftstore

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/wal"
)

// fallBehind runs three members of which one is there and does not write: its disk does not answer while the
// others agree on many commands. It returns that member, caught up again, and whether the leader took it for one
// that is not there when it cut its log, or lost the leadership to another one, who had kept no log for it, as may
// happen on a busy machine.
func fallBehind(t *testing.T, seed uint64, change func(*Config)) (a *machine, gone bool) {
	t.Helper()
	c := preparedTestCluster(t, 3, seed)
	var slow atomic.Bool
	resume := make(chan struct{})
	wake := sync.OnceFunc(func() { close(resume) })
	t.Cleanup(wake)
	for _, name := range c.names {
		c.configure(name, change)
	}
	c.configure("a", func(cfg *Config) {
		cfg.before = func(step, path string) error {
			if slow.Load() && filepath.Ext(path) == wal.Suffix {
				<-resume
			}
			return nil
		}
	})
	c.startAll()
	c.leadWith("b")
	c.put("before")
	c.waitPublished(c.nodes["b"])
	c.settle()
	a, b := c.nodes["a"], c.nodes["b"]
	var term uint64
	b.note(func() {
		term = b.term
		b.checkpointed = func(l *loop) { gone = gone || !l.active(a.store.Member()) }
	})
	restores := a.restores
	slow.Store(true)
	for n := range 3000 {
		m := c.leader("b", "c")
		var term uint64
		m.note(func() { term = m.term })
		m.store.Propose(term, [][]byte{fmt.Appendf(nil, "command %04d", n)})
		if n%50 == 49 { // so that checkpoints come between
			c.put(fmt.Sprint("pause ", n), "b", "c")
		}
	}
	slow.Store(false)
	wake()
	c.settle()
	b.note(func() {
		gone = gone || b.term != term
		b.checkpointed = nil
	})
	a.restores -= restores
	return a, gone
}

// A member that lags and is there catches up from the log, however many checkpoints there were meanwhile.
func TestLaggingMemberCatchesUpFromTheLog(t *testing.T) {
	t.Parallel()
	for seed := uint64(550); ; seed++ {
		a, gone := fallBehind(t, seed, func(c *Config) { c.LagEntriesKept = DefaultLagEntriesKept })
		if a.restores == 0 {
			return
		}
		if !gone || seed == 560 {
			t.Fatalf("%d checkpoints were taken over", a.restores)
		}
	}
}

// Beyond the bounds the log is not kept for it.
func TestLagIsBounded(t *testing.T) {
	testmode.WithoutRace(t)
	for name, change := range map[string]func(*Config){
		"entries": func(c *Config) { c.LagEntriesKept = 300 },
		"bytes":   func(c *Config) { c.LagEntriesKept, c.LagBytesKept = DefaultLagEntriesKept, 10_000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if a, _ := fallBehind(t, 560, change); a.restores == 0 {
				t.Error("it caught up from the log")
			}
		})
	}
}

// The tail behind a checkpoint is bounded in bytes, too: its entries may be large.
func TestTailIsBoundedInBytes(t *testing.T) {
	cfg := smallConfig(filepath.Join(t.TempDir(), "data"))
	cfg.TailEntriesKept, cfg.LagBytesKept = 1000, 20_000
	s := open(t, cfg)
	r := start(t, s)
	term := r.lead(t)
	var marks []uint64
	for n := range 5 {
		for i := range 30 {
			propose(t, r, term, fmt.Sprint(n, " ", i, strings.Repeat("x", 500)))
		}
		marks = append(marks, takeCheckpoint(t, r, row(fmt.Sprint("row ", n), "")))
		r.waitIdle(t)
	}
	stop(t, s)
	img, err := datadir.Examine(cfg.Dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if img.First <= marks[2] || img.First > marks[4] {
		t.Errorf("the log begins at entry %d, checkpoints are as of %v", img.First, marks)
	}
}
