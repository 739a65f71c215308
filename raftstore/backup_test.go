package raftstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/datadir"
)

// backedUp returns a backup of a store with rows, and the rows.
func backedUp(t *testing.T) ([]byte, map[string]string) {
	t.Helper()
	s := open(t, smallConfig(filepath.Join(t.TempDir(), "data")))
	r := start(t, s)
	term := r.lead(t)
	var b bytes.Buffer
	if _, err := s.Checkpoints.Backup(context.Background(), &b); err == nil {
		t.Error("a backup without a checkpoint")
	}
	want := map[string]string{}
	for _, name := range numbered("key", 0, 50) {
		want[name] = "value of " + name
	}
	propose(t, r, term, "one")
	rows := []Row{row("gone/1", "x")}
	for k, v := range want {
		rows = append(rows, row(k, v))
	}
	takeCheckpoint(t, r, rows...)
	propose(t, r, term, "two")
	w := s.Checkpoints.Begin(r.last())
	w.DeletePrefix([]byte("gone/"))
	w.Finish()
	r.waitCheckpoint(t, r.last())
	b.Reset()
	index, err := s.Checkpoints.Backup(context.Background(), &b)
	if err != nil || index != r.last() {
		t.Fatalf("backup as of %d, %v; want %d", index, err, r.last())
	}
	stop(t, s)
	return b.Bytes(), want
}

func TestBackupAndRestore(t *testing.T) {
	b, want := backedUp(t)
	dir := filepath.Join(t.TempDir(), "data")
	if report, err := datadir.VerifyBackup(bytes.NewReader(b)); err != nil || report.Index != 3 ||
		report.Rows != uint64(len(want)) || report.Cluster == 0 {
		t.Errorf("the backup is %+v, %v", report, err)
	}
	if err := datadir.RestoreBackup(dir, bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	if err := datadir.RestoreBackup(dir, bytes.NewReader(b)); err == nil {
		t.Error("restored over data")
	}
	var shown []string
	checking := datadir.Disk{Progress: func(what, unit string, done, of uint64) {
		shown = append(shown, fmt.Sprint(what, " ", done, " ", unit, " of ", of))
	}}
	if _, err := checking.Check(dir); err != nil {
		t.Fatal(err)
	}
	if text := "reading the log 1 files of 1"; !slices.Contains(shown, text) {
		t.Errorf("%q is shown, want %q", shown, text)
	}
	s := open(t, smallConfig(dir))
	if got := rowsOf(t, s); !maps.Equal(got, want) {
		t.Errorf("rows %v", got)
	}
	lineage := s.Lineage()
	if lineage == 0 || s.loaded != 3 {
		t.Errorf("lineage %x, as of %d", lineage, s.loaded)
	}
	r := start(t, s)
	term := r.lead(t)
	propose(t, r, term, "after")
	takeCheckpoint(t, r, row("new", "row"))
	stop(t, s)
	s = open(t, smallConfig(dir))
	defer stop(t, s)
	if s.Lineage() != lineage {
		t.Errorf("lineage %x after a checkpoint, %x before", s.Lineage(), lineage)
	}
	if got := rowsOf(t, s); got["new"] != "row" || len(got) != len(want)+1 {
		t.Errorf("rows %v", got)
	}
}

func TestDamagedBackupIsRefused(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	b, _ := backedUp(t)
	for at := 0; at < len(b); at += 7 {
		damaged := bytes.Clone(b)
		damaged[at] ^= 0x10
		if _, err := datadir.VerifyBackup(bytes.NewReader(damaged)); err == nil {
			t.Errorf("byte %d of %d changed, and it was found sound", at, len(b))
		}
		if err := datadir.RestoreBackup(filepath.Join(t.TempDir(), "data"), bytes.NewReader(damaged)); err == nil {
			t.Errorf("byte %d of %d changed, and it was restored", at, len(b))
		}
	}
	dir := filepath.Join(t.TempDir(), "data")
	for _, short := range []int{0, 5, 12, len(b) / 2, len(b) - 1} {
		if err := datadir.RestoreBackup(dir, bytes.NewReader(b[:short])); err == nil {
			t.Errorf("%d of %d bytes were restored", short, len(b))
		}
	}
	if err := datadir.RestoreBackup(dir, bytes.NewReader(b)); err != nil {
		t.Errorf("after failed tries: %v", err)
	}
}

// A restore that is killed before any of its steps on the disk leaves nothing on which a server would start without the
// backup, and can be run again.
func TestCrashWhileRestoring(t *testing.T) {
	t.Parallel()
	b, want := backedUp(t)
	base := t.TempDir()
	dir := filepath.Join(base, "data")
	var steps []string
	d := &datadir.Disk{Before: func(step, path string) error {
		steps = append(steps, step+" "+filepath.Base(path))
		if _, err := os.Stat(dir); err == nil {
			copyDir(t, dir, fmt.Sprintf("%s-%d", dir, len(steps)))
		}
		return nil
	}}
	if err := d.RestoreBackup(dir, bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	marked := slices.Index(steps, "rename "+datadir.RestoringFile) + 1 // the first step behind the mark's own
	for i, step := range steps {
		crashed := fmt.Sprintf("%s-%d", dir, i+1)
		if _, err := os.Stat(crashed); err != nil {
			continue
		}
		done := i == len(steps)-1 // the last one only makes it durable that the mark is gone
		if _, err := os.Stat(filepath.Join(crashed, datadir.CheckpointDir)); i < marked && err == nil {
			t.Errorf("killed before %q: there are rows already", step)
		}
		if i >= marked && !done {
			_, opened := Open(t.Context(), smallConfig(crashed))
			_, checked := datadir.Check(crashed)
			_, planned := datadir.PlanForceSingle(crashed)
			for _, err := range []error{opened, checked, planned, datadir.ForceSingle(crashed)} {
				if !errors.Is(err, datadir.ErrHalfRestored) {
					t.Errorf("killed before %q: %v", step, err)
				}
			}
		}
		if !done {
			if err := datadir.RestoreBackup(crashed, bytes.NewReader(b)); err != nil {
				t.Fatalf("killed before %q, and restored again: %v", step, err)
			}
		}
		s := open(t, smallConfig(crashed))
		if got := rowsOf(t, s); !maps.Equal(got, want) {
			t.Errorf("killed before %q: rows %v", step, got)
		}
		stop(t, s)
	}
	if marked < 2 || len(steps) < marked+10 {
		t.Errorf("the steps are %v", steps)
	}
}

// A backup of a cluster, restored, is a cluster of one that others can join.
func TestRestoredBackupGrows(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 300)
	for n := range 150 {
		c.put(fmt.Sprintf("c%06d", n))
	}
	c.settle()
	m := c.leader()
	var b bytes.Buffer
	index, err := m.store.Checkpoints.Backup(context.Background(), &b)
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]uint64{}
	for command, at := range m.state {
		if at <= index {
			before[command] = at
		}
	}
	old := m.store.Cluster()
	for _, name := range c.names {
		c.kill(name)
	}
	c.h.entries, c.h.acked = map[uint64]Entry{}, nil
	cfg := c.cfgs["a"]
	cfg.Cluster.Initial = nil
	cfg.Dir = filepath.Join(c.dir, "restored")
	c.cfgs["a"], c.names = cfg, []string{"a"}
	if err := datadir.RestoreBackup(cfg.Dir, &b); err != nil {
		t.Fatal(err)
	}
	a := c.start("a")
	if a.store.Cluster() == old || !maps.Equal(a.state, before) {
		t.Errorf("cluster %016x, %d commands, want %d", a.store.Cluster(), len(a.state), len(before))
	}
	c.dir = t.TempDir()
	id := c.join("b")
	c.onLeader("promote b", func(ctx context.Context, s *Store) error { return s.Changes.Promote(ctx, id) })
	c.settle()
	if b := c.nodes["b"]; b.restores != 1 || b.store.Lineage() != a.store.Lineage() ||
		a.store.Lineage() == 0 {
		t.Errorf("%d checkpoints, lineage %x, want %x", b.restores, b.store.Lineage(), a.store.Lineage())
	}
}

// lineageOf reads the lineage from a directory that no server uses.
func lineageOf(t *testing.T, dir string) uint64 {
	t.Helper()
	img, err := datadir.Examine(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return img.Meta.Lineage
}

func TestForceSingle(t *testing.T) {
	for _, entries := range []int{10, 300} {
		t.Run(fmt.Sprint(entries), func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, 3, 310)
			for n := range entries {
				c.put(fmt.Sprintf("c%06d", n))
			}
			c.join("d")
			c.settle()
			if err := datadir.ForceSingle(c.cfgs["a"].Dir); !errors.Is(err, datadir.ErrLocked) {
				t.Errorf("forced while it runs: %v", err)
			}
			for _, name := range slices.Backward(c.names) { // a last: the others agree on nothing without it
				c.kill(name)
			}
			plan, err := datadir.PlanForceSingle(c.cfgs["a"].Dir)
			if err != nil || len(plan.Others) != 3 || plan.Name != "a" || plan.LastIndex == 0 {
				t.Errorf("the plan is %+v, %v", plan, err)
			}
			if err := datadir.ForceSingle(c.cfgs["a"].Dir); err != nil {
				t.Fatal(err)
			}
			first := lineageOf(t, c.cfgs["a"].Dir)
			if err := datadir.ForceSingle(c.cfgs["a"].Dir); err != nil {
				t.Fatal(err)
			}
			if second := lineageOf(t, c.cfgs["a"].Dir); first == 0 || second == 0 || first == second {
				t.Errorf("lineages %x and %x", first, second)
			}
			if report, err := datadir.Check(c.cfgs["a"].Dir); err != nil || report.LastTerm != plan.LastTerm {
				t.Errorf("the last term is %d, the plan says %d", report.LastTerm, plan.LastTerm)
			}
			if _, err := datadir.Check(c.cfgs["a"].Dir); err != nil {
				t.Fatal(err)
			}
			c.start("a")
			c.settle()
			if got := c.nodes["a"].store.Members(); len(got) != 1 {
				t.Errorf("members %v", got)
			}
			// The others are refused, and a new one can join.
			b := c.start("b")
			c.wait("b to stop", func() bool { return b.failure != nil })
			c.kill("b")
			c.names = []string{"a"}
			id := c.join("e")
			c.onLeader("promote e", func(ctx context.Context, s *Store) error { return s.Changes.Promote(ctx, id) })
			c.settle()
			if got := c.nodes["e"].store.Members(); len(got) != 2 {
				t.Errorf("members %v", got)
			}
			if got, want := c.nodes["e"].store.Lineage(), c.nodes["a"].store.Lineage(); got != want {
				t.Errorf("lineage %x, the first member has %x", got, want)
			}
		})
	}
}
