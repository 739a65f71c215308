package raftstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/roster"
)

// TestCondemnedAtEveryStep looks at a directory as a crash before each step of its condemnation leaves it,
// and behind the last one: it is condemned as a whole or not at all, and starts only if not.
func TestCondemnedAtEveryStep(t *testing.T) {
	const reason = "its state is not that of the others"
	dir := filepath.Join(t.TempDir(), "data")
	cfg := smallConfig(dir)
	var pictures []string
	var steps []string
	watching := false
	cfg.before = func(step, path string) error {
		if watching && strings.Contains(path, datadir.CondemnedFile) || watching && step == "sync directory" {
			picture := filepath.Join(t.TempDir(), "data")
			copyDir(t, dir, picture)
			pictures, steps = append(pictures, picture), append(steps, step)
		}
		return nil
	}
	s := open(t, cfg)
	r := start(t, s)
	propose(t, r, r.lead(t), "one")
	watching = true
	if err := s.Condemn(reason); err != nil {
		t.Fatal(err)
	}
	watching = false
	propose(t, r, r.lead(t), "two") // the process that runs is not concerned
	stop(t, s)
	if !slices.Equal(steps, []string{"remove", "create", "write", "sync", "rename", "sync directory"}) {
		t.Errorf("steps %v", steps)
	}
	for i, picture := range append(pictures, dir) {
		cfg := smallConfig(picture)
		s, err := Open(t.Context(), cfg)
		var condemnation *datadir.CondemnedError
		switch is := errors.As(err, &condemnation); {
		case i < 5 && err != nil:
			t.Errorf("before %s: %v", steps[i], err)
		case i < 5:
			stop(t, s)
			continue
		case !is || condemnation.Reason != reason || !strings.Contains(err.Error(), datadir.CondemnedFile):
			t.Errorf("behind the rename: got %v", err)
		}
		if err == nil {
			stop(t, s)
		}
		if _, err := datadir.PlanForceSingle(picture); !errors.As(err, &condemnation) {
			t.Errorf("plan to recover: got %v", err)
		}
		if err := datadir.ForceSingle(picture); !errors.As(err, &condemnation) {
			t.Errorf("recover: got %v", err)
		}
		if report, err := datadir.Check(picture); err != nil || report.Condemned != reason ||
			!strings.Contains(report.String(), "CONDEMNED") {
			t.Errorf("check: %q, %v", report.Condemned, err)
		}
	}
	if report, err := datadir.Check(pictures[0]); err != nil || report.Condemned != "" ||
		strings.Contains(report.String(), "CONDEMNED") {
		t.Errorf("check of one that is not: %q, %v", report.Condemned, err)
	}
}

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
		before := s.due.commands.Load()
		propose(t, r, term, fmt.Sprint("a", before))
		r.wait(t, "the command to count", func() bool { return s.due.commands.Load() > before })
	}
	for s.due.commands.Load() < due {
		if s.CheckpointDue() {
			t.Fatalf("due after %d commands", s.due.commands.Load())
		}
		count()
	}
	for s.due.commands.Load() < due/4*5 {
		if !s.CheckpointDue() || s.CheckpointOverdue() {
			t.Fatalf("after %d commands: due %v, overdue %v", s.due.commands.Load(), s.CheckpointDue(),
				s.CheckpointOverdue())
		}
		count()
	}
	if !s.CheckpointOverdue() || s.CheckpointOpen() {
		t.Errorf("overdue %v, open %v", s.CheckpointOverdue(), s.CheckpointOpen())
	}
	w := s.BeginCheckpoint(r.last())
	if s.CheckpointOverdue() || !s.CheckpointOpen() {
		t.Errorf("begun: overdue %v, open %v", s.CheckpointOverdue(), s.CheckpointOpen())
	}
	w.Finish()
	r.waitIdle(t)
	if s.CheckpointOverdue() || s.CheckpointOpen() {
		t.Errorf("stored: overdue %v, open %v", s.CheckpointOverdue(), s.CheckpointOpen())
	}
	propose(t, r, term, "b")
	s.WantCheckpoint(r.last())
	if !s.CheckpointOverdue() {
		t.Error("somebody waits for a checkpoint, and it waits for others")
	}
	stop(t, s)
}

// A caller is the member that it says it is only if it is one, and has the certificate for it.
func TestIdentify(t *testing.T) {
	t.Parallel()
	c := newGRPCCluster(t, 3, newPeerTLS(t))
	m := c.leader()
	c.waitPublished(m)
	other := c.nodes[others(c.names, m.name)[0]].store
	if err := m.store.Identify(t.Context(), other.Member()); !errors.Is(err, roster.ErrCertificate) {
		t.Errorf("without a certificate: %v", err)
	}
	if err := m.store.Identify(t.Context(), other.Member()+1); !errors.Is(err, roster.ErrUnknownHere) {
		t.Errorf("a stranger: %v", err)
	}
	plain := newTestCluster(t, 3, 531)
	m = plain.leader()
	plain.waitPublished(m)
	other = plain.nodes[others(plain.names, m.name)[0]].store
	if err := m.store.Identify(t.Context(), other.Member()); err != nil {
		t.Errorf("where nobody has certificates: %v", err)
	}
	if err := m.store.Identify(t.Context(), other.Member()+1); !errors.Is(err, roster.ErrUnknownHere) {
		t.Errorf("a stranger where nobody has certificates: %v", err)
	}
	alone := open(t, Config{InMemory: true, Logger: noLog})
	defer stop(t, alone)
	if err := alone.Identify(t.Context(), 1); err == nil {
		t.Error("a server alone knows another member")
	}
}
