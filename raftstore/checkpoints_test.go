package raftstore

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// A checkpoint is due after so many commands, however many of them share an entry, or after so many bytes, in a replay
// of the same log as well.
func TestCheckpointIsDue(t *testing.T) {
	for name, c := range map[string]struct {
		per, size int // commands and bytes of an entry
		entries   int // after which a checkpoint is due; the first one of the term counts as well
	}{
		"one command in each":  {1, 10, 99},
		"many commands":        {30, 10, 3},
		"none, as if it's one": {0, 10, 99},
		"bytes":                {1, 1 << 10, 9},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := smallConfig(filepath.Join(t.TempDir(), "data"))
			cfg.CheckpointBytes = 9 << 10
			s := open(t, cfg)
			r := newRecorder(s)
			r.per = c.per
			if err := s.Start(r); err != nil {
				t.Fatal(err)
			}
			term := r.lead(t)
			for n := range c.entries {
				if s.Checkpoints.Due() {
					t.Fatalf("due after %d of %d entries", n, c.entries)
				}
				propose(t, r, term, fmt.Sprint(n, " ", strings.Repeat("x", c.size)))
			}
			r.waitIdle(t)
			if !s.Checkpoints.Due() {
				t.Errorf("not due after %d entries", c.entries)
			}
			stop(t, s)
			s = open(t, cfg)
			r = newRecorder(s)
			r.per = c.per
			if err := s.Start(r); err != nil {
				t.Fatal(err)
			}
			r.lead(t)
			r.waitIdle(t)
			if !s.Checkpoints.Due() {
				t.Error("not due after the replay")
			}
			takeCheckpoint(t, r, row("a", "b"))
			r.waitIdle(t)
			if s.Checkpoints.Due() {
				t.Error("due behind a checkpoint")
			}
			stop(t, s)
		})
	}
}

// What was handed over and is applied only when a checkpoint has begun counts for the next one.
func TestWhatACheckpointLeavesCounts(t *testing.T) {
	var d due
	d.restore(10)
	d.handOver(12, 100)
	d.handOver(20, 1000)
	d.apply(12, 50)
	if d.bytes.Load() != 100 || d.commands.Load() != 50 {
		t.Errorf("%d bytes, %d commands", d.bytes.Load(), d.commands.Load())
	}
	d.begin()
	d.apply(12, 7) // said twice
	d.apply(20, 3) // fewer commands than entries
	if d.bytes.Load() != 1000 || d.commands.Load() != 8 {
		t.Errorf("%d bytes, %d commands", d.bytes.Load(), d.commands.Load())
	}
	d.handOver(30, 1)
	d.restore(40)
	d.apply(41, 1)
	if d.bytes.Load() != 0 || d.commands.Load() != 1 || len(d.handed) > 0 {
		t.Errorf("behind a restored checkpoint %d bytes, %d commands", d.bytes.Load(), d.commands.Load())
	}
}
