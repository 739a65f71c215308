package raftstore

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// fallBehind runs three members of which one is there and does not write: its disk does not answer while the others
// agree on many commands. It returns that member, caught up again.
func fallBehind(t *testing.T, seed uint64, change func(*Config)) *machine {
	t.Helper()
	c := newTestCluster(t, 3, seed)
	var slow atomic.Bool
	resume := make(chan struct{})
	wake := sync.OnceFunc(func() { close(resume) })
	t.Cleanup(wake)
	for _, name := range c.names {
		c.kill(name)
		cfg := c.cfgs[name]
		change(&cfg)
		if name == "a" {
			cfg.before = func(step, path string) error {
				if slow.Load() && filepath.Ext(path) == segmentSuffix {
					<-resume
				}
				return nil
			}
		}
		c.cfgs[name] = cfg
		c.start(name)
	}
	c.leadWith("b")
	c.put("before")
	c.waitPublished(c.nodes["b"])
	c.settle()
	restores := c.nodes["a"].restores
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
	a := c.nodes["a"]
	a.restores -= restores
	return a
}

// A member that lags and is there catches up from the log, however many checkpoints there were meanwhile. On a busy
// machine it may not be heard for so long that it counts as not there; then it is tried again.
func TestLaggingMemberCatchesUpFromTheLog(t *testing.T) {
	t.Parallel()
	restores := 0
	for seed := range uint64(4) {
		a := fallBehind(t, 550+seed, func(c *Config) { c.LagEntriesKept = DefaultLagEntriesKept })
		if restores = a.restores; restores == 0 {
			return
		}
	}
	t.Errorf("checkpoints were taken over four times out of four, at last %d", restores)
}

// Beyond the bounds the log is not kept for it.
func TestLagIsBounded(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"entries": func(c *Config) { c.LagEntriesKept = 300 },
		"bytes":   func(c *Config) { c.LagEntriesKept, c.LagBytesKept = DefaultLagEntriesKept, 10_000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if a := fallBehind(t, 560, change); a.restores == 0 {
				t.Error("it caught up from the log")
			}
		})
	}
}
