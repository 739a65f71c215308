package raftstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// hook lets a test do something in the middle of a member's work with its disk.
type hook struct {
	mu    sync.Mutex
	armed bool
	seen  map[string]bool // steps since it was armed
	then  func()          // called once, when at is reached after behind
	at    string
	after string
}

// before is a Config.before.
func (h *hook) before(step, path string) error {
	h.mu.Lock()
	now := step + " " + filepath.Base(path)
	call := h.armed && now == h.at && h.seen[h.after]
	if h.armed {
		h.seen[now] = true
	}
	if call {
		h.armed = false
	}
	h.mu.Unlock()
	if call {
		h.then()
	}
	return nil
}

func (h *hook) arm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.armed, h.seen = true, map[string]bool{}
}

// A checkpoint that is begun after a received one was put in its place, and before a turn has heard of that,
// is void. It must not count as being written for ever: the member makes checkpoints again and cuts its log,
// and a caller that waits for one gets it.
func TestCheckpointBegunDuringAnInstallation(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 200)
	lagging := others(c.names, c.leader().name)[0]
	c.kill(lagging)
	begun := make(chan uint64, 1)
	// the rows are there, the log is about to be emptied
	h := &hook{after: "rename manifest", at: "sync directory wal"}
	h.then = func() {
		s := c.nodes[lagging].store
		index := s.AppliedIndex()
		w := s.Checkpoints.Begin(index)
		w.Put([]Row{row("of the old state", "1")})
		w.DeletePrefix([]byte("s."))
		w.Finish()
		begun <- index
	}
	c.configure(lagging, func(cfg *Config) { cfg.before = h.before })
	m := c.start(lagging)
	c.put("before")
	c.settle()
	c.isolate(lagging, true)
	for n := range 150 {
		c.put(fmt.Sprintf("s.%06d", n), others(c.names, lagging)...)
	}
	h.arm()
	c.isolate(lagging, false)
	var index uint64
	select {
	case index = <-begun:
	case <-time.After(patience):
		t.Fatal("the member was never given a checkpoint")
	}
	c.settle()
	var state int
	m.note(func() { state = len(m.state) })
	rows := rowsOf(t, m.store)
	if _, mixed := rows["of the old state"]; mixed || len(rows) > state {
		t.Errorf("the void checkpoint as of %d left its rows: %d rows, %d commands", index, len(rows), state)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	wanted := m.store.AppliedIndex() + 1
	m.store.Checkpoints.Want(wanted)
	c.put("one more")
	for n := range 200 {
		c.put(fmt.Sprintf("t.%06d", n))
	}
	if err := m.store.Checkpoints.Await(ctx, wanted); err != nil {
		t.Errorf("no checkpoint after the void one, CheckpointDue %v: %v", m.store.Checkpoints.Due(), err)
	}
}

// A member that cannot write a checkpoint that it is sent, because its disk is full, ends. It would not write another
// one either, and where it gets nothing else, no write of the log would end it.
func TestReceivingOnAFullDisk(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 200)
	lagging := others(c.names, c.leader().name)[0]
	c.kill(lagging)
	var armed atomic.Bool
	c.configure(lagging, func(cfg *Config) {
		cfg.before = func(step, _ string) error {
			if armed.Load() && step == "create rows" {
				return syscall.ENOSPC
			}
			return nil
		}
	})
	m := c.start(lagging)
	c.put("before")
	c.settle()
	c.isolate(lagging, true)
	for n := range 150 {
		c.put(fmt.Sprintf("s.%06d", n), others(c.names, lagging)...)
	}
	armed.Store(true)
	c.isolate(lagging, false)
	c.poll("the end of "+lagging, func() bool {
		var failure error
		m.note(func() { failure = m.failure })
		return errors.Is(failure, syscall.ENOSPC)
	})
	armed.Store(false)
	c.kill(lagging)
	c.start(lagging)
	c.settle()
}

// A checkpoint that was finished just before another member's took its place is not reported: the durable index does
// not go back.
func TestOvertakenCheckpointIsNotTold(t *testing.T) {
	s := open(t, smallConfig(t.TempDir()))
	m := startByHand(t, s)
	defer m.stop()
	s.Checkpoints.stored.Store(1000)
	m.loop.checkpointDone(checkpointMark{index: 900})
	if s.Checkpoints.stored.Load() != 1000 || len(m.checkpoints) != 0 {
		t.Errorf("durable as of %d, told %v", s.Checkpoints.stored.Load(), m.checkpoints)
	}
}
