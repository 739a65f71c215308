package raftstore

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// gate is a Config.before that stops checkpoints before a piece is written, until the test lets some pass.
type gate struct {
	pass    chan bool
	waiting chan bool
}

func newGate() *gate { return &gate{pass: make(chan bool), waiting: make(chan bool, 1)} }

func (g *gate) before(step, path string) error {
	if step == "write rows" && strings.HasSuffix(path, ".rows") {
		g.waiting <- true
		<-g.pass
		<-g.waiting
	}
	return nil
}

// gatedCheckpoint has a store write a checkpoint of many pieces, and returns before the first of them.
func gatedCheckpoint(t *testing.T) (*recorder, *gate, uint64) {
	t.Helper()
	g := newGate()
	cfg := smallConfig(filepath.Join(t.TempDir(), "data"))
	cfg.before = g.before
	s := open(t, cfg)
	r := start(t, s)
	term := r.lead(t)
	propose(t, r, term, "one")
	var rows []Row
	for _, k := range numbered("k", 0, 100) {
		rows = append(rows, row(k, "v"))
	}
	w := s.Checkpoints.Begin(r.last())
	w.Put(rows)
	w.Finish()
	for len(g.waiting) == 0 {
		time.Sleep(time.Millisecond)
	}
	return r, g, term
}

// The log is full once it has twice what makes a checkpoint due, and not any more when the checkpoint that it
// waits for is durable.
func TestLogIsFullBehindASlowCheckpoint(t *testing.T) {
	r, g, term := gatedCheckpoint(t)
	for n := range int(r.store.cfg.CheckpointCommands) {
		if r.store.Checkpoints.LogFull() {
			t.Fatalf("full after %d entries", n)
		}
		propose(t, r, term, fmt.Sprint("c", n))
	}
	if !r.store.Checkpoints.LogFull() || r.store.Checkpoints.Due() {
		t.Errorf("full %v, due %v", r.store.Checkpoints.LogFull(), r.store.Checkpoints.Due())
	}
	close(g.pass)
	r.waitIdle(t)
	if r.store.Checkpoints.LogFull() || !r.store.Checkpoints.Due() {
		t.Errorf("full %v, due %v", r.store.Checkpoints.LogFull(), r.store.Checkpoints.Due())
	}
	stop(t, r.store)
}

// Stop waits for the piece that is being written and for none of those that are left.
func TestStopDoesNotWaitForACheckpoint(t *testing.T) {
	r, g, _ := gatedCheckpoint(t)
	stopped := make(chan error)
	go func() { stopped <- r.store.Stop() }()
	<-r.store.keeper.stop
	g.pass <- true
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if n := len(r.checkpoints); n > 0 {
		t.Errorf("%d checkpoints", n)
	}
}
