package raftstore

import (
	"fmt"
	"path/filepath"
	"testing"
)

func TestCondemnInMemory(t *testing.T) {
	s := open(t, Config{InMemory: true, Logger: noLog})
	if err := s.Condemn("x"); err != nil {
		t.Error(err)
	}
	stop(t, s)
}

// A checkpoint that is due waits for a place that all members share until a quarter more was applied. One
// that somebody waits for does not.
func TestCheckpointBecomesOverdue(t *testing.T) {
	s := open(t, smallConfig(filepath.Join(t.TempDir(), "data")))
	r := start(t, s)
	term := r.lead(t)
	due := s.cfg.CheckpointCommands
	count := func() { // proposes a command and waits until it counts
		before := s.Checkpoints.due.commands.Load()
		propose(t, r, term, fmt.Sprint("a", before))
		r.wait(t, "the command to count", func() bool { return s.Checkpoints.due.commands.Load() > before })
	}
	for s.Checkpoints.due.commands.Load() < due {
		if s.Checkpoints.Due() {
			t.Fatalf("due after %d commands", s.Checkpoints.due.commands.Load())
		}
		count()
	}
	for s.Checkpoints.due.commands.Load() < due/4*5 {
		if !s.Checkpoints.Due() || s.Checkpoints.Overdue() {
			t.Fatalf("after %d commands: due %v, overdue %v", s.Checkpoints.due.commands.Load(), s.Checkpoints.Due(),
				s.Checkpoints.Overdue())
		}
		count()
	}
	if !s.Checkpoints.Overdue() || s.Checkpoints.Open() {
		t.Errorf("overdue %v, open %v", s.Checkpoints.Overdue(), s.Checkpoints.Open())
	}
	w := s.Checkpoints.Begin(r.last())
	if s.Checkpoints.Overdue() || !s.Checkpoints.Open() {
		t.Errorf("begun: overdue %v, open %v", s.Checkpoints.Overdue(), s.Checkpoints.Open())
	}
	w.Finish()
	r.waitIdle(t)
	if s.Checkpoints.Overdue() || s.Checkpoints.Open() {
		t.Errorf("stored: overdue %v, open %v", s.Checkpoints.Overdue(), s.Checkpoints.Open())
	}
	propose(t, r, term, "b")
	s.Checkpoints.Want(r.last())
	if !s.Checkpoints.Overdue() {
		t.Error("somebody waits for a checkpoint, and it waits for others")
	}
	stop(t, s)
}
