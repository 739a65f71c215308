package raftstore

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/wal"
)

// fromOne makes a cluster of one server, which others can join.
func fromOne(t *testing.T, seed uint64) *testCluster {
	c := preparedTestCluster(t, 1, seed)
	c.configure("a", func(cfg *Config) { cfg.Cluster.Initial = nil })
	c.startAll()
	return c
}

// replaceTwo replaces a and b of three servers by d and e.
func replaceTwo(t *testing.T, seed uint64) *testCluster {
	c := newTestCluster(t, 3, seed)
	c.leadWith("c")
	c.promoted("d")
	c.expel("a")
	c.promoted("e")
	c.expel("b")
	c.settle()
	return c
}

func (c *testCluster) killAll() {
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		c.kill(name)
	}
}

// Members that are restarted after changes of the membership count votes by the last one: a minority of the present
// members elects nobody, and a majority does.
func TestRestartedMembersKnowTheirCluster(t *testing.T) {
	for _, test := range []struct {
		name     string
		cluster  func(t *testing.T) *testCluster
		restart  string // first, and then more
		more     string
		members  int
		majority bool // of those that are started first
	}{
		{"grown from one", func(t *testing.T) *testCluster {
			c := fromOne(t, 361)
			c.promoted("b")
			c.promoted("c")
			return c
		}, "a", "b", 3, false},
		{"grown from three to five", func(t *testing.T) *testCluster {
			c := newTestCluster(t, 3, 362)
			c.promoted("d")
			c.promoted("e")
			return c
		}, "a b", "c", 5, false},
		{"two of three replaced", func(t *testing.T) *testCluster { return replaceTwo(t, 363) }, "c d e", "", 3, true},
		{"shrunk to one", func(t *testing.T) *testCluster {
			c := fromOne(t, 364)
			c.promoted("b")
			c.expel("b")
			return c
		}, "a", "", 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := test.cluster(t)
			c.settle()
			c.killAll()
			for _, name := range strings.Fields(test.restart) {
				c.start(name)
			}
			if !test.majority {
				c.poll("the members to be known", func() bool {
					for _, m := range c.nodes {
						if len(m.store.Members()) != test.members {
							return false
						}
					}
					return true
				})
				for name, m := range c.nodes {
					m.note(func() {
						if m.term != 0 {
							t.Errorf("%s leads with the votes of %s", name, test.restart)
						}
					})
				}
			}
			for _, name := range strings.Fields(test.more) {
				c.start(name)
			}
			c.settle()
		})
	}
}

// Check and PlanForceSingle go by the log, as the store does: after two of three were replaced they name the present
// members and the removed ones. ForceSingle removes the present ones.
func TestRosterOfADirectory(t *testing.T) {
	testmode.Long(t)
	t.Parallel()
	c := replaceTwo(t, 365)
	c.killAll()
	dir := c.cfgs["c"].Dir
	names := func(list Members) string {
		var names []string
		for _, m := range list {
			names = append(names, m.Name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	report, err := datadir.Check(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(report.Members) + ", removed " + names(report.Removed); got != "c d e, removed a b" {
		t.Errorf("check: %s", got)
	}
	if text := report.String(); !strings.Contains(text, " d d:1\n") || !strings.Contains(text, "removed ") {
		t.Errorf("check says\n%s", text)
	}
	plan, err := datadir.PlanForceSingle(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(plan.Others) + ", removed " + names(plan.Removed); got != "d e, removed a b" {
		t.Errorf("plan: %s", got)
	}
	if plan.LastIndex != report.LastIndex || plan.LastTerm != report.LastTerm {
		t.Errorf("the plan is as of %d of term %d, check says %d of term %d", plan.LastIndex, plan.LastTerm,
			report.LastIndex, report.LastTerm)
	}
	if err := datadir.ForceSingle(dir); err != nil {
		t.Fatal(err)
	}
	c.start("c")
	c.settle()
	d := c.start("d")
	c.wait("d to end", func() bool { return d.failure != nil })
}

// The roster includes members that the directory knows only from other servers' answers.
func TestRosterHasWhatWasLearnt(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 366)
	c.settle()
	c.killAll()
	dir := c.cfgs["a"].Dir
	img, err := datadir.Examine(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	conf := img.Members()
	conf.Index += 100
	conf.Voters = append(slices.Clone(conf.Voters), 99)
	conf.Members = append(slices.Clone(conf.Members), membership.Record{ID: 99, Name: "z", Peer: "z:1"})
	opened, err := datadir.Open(datadir.Options{Dir: dir, Disk: new(datadir.Disk), Logger: noLog})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(opened.SaveLearnt(datadir.Learnt{Conf: conf}), opened.Close()); err != nil {
		t.Fatal(err)
	}
	plan, err := datadir.PlanForceSingle(dir)
	if z, found := plan.Others.Find(99); err != nil || !found || z.Name != "z" {
		t.Errorf("the plan is %+v, %v", plan, err)
	}
	if err := os.WriteFile(filepath.Join(dir, datadir.AdmissionFile), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Check(dir); err == nil {
		t.Error("check takes a damaged list of members")
	}
}

// forgetLog makes a log with the same entries whose commit index is that of the checkpoint.
func forgetLog(t *testing.T, dir string, img *datadir.Image) {
	log := filepath.Join(dir, datadir.LogDir)
	if err := errors.Join(os.RemoveAll(log), os.Mkdir(log, 0o700)); err != nil {
		t.Fatal(err)
	}
	o := wal.Options{Cluster: img.Identity.Cluster, Member: img.Identity.Member, SegmentBytes: 1 << 20,
		Checkpoint: img.Meta.Index, CheckpointTerm: img.Meta.Term, New: true}
	l, err := wal.Open(log, o)
	if err != nil {
		t.Fatal(err)
	}
	var entries []wal.Entry
	for _, e := range img.Entries {
		entries = append(entries, wal.Entry{Index: e.GetIndex(), Term: e.GetTerm(), Type: byte(e.GetType()),
			Data: e.GetData()})
	}
	h := wal.HardState{Term: img.Hard.Term, Vote: img.Hard.Vote, Commit: img.Meta.Index}
	if err := errors.Join(l.Append(&h, entries), l.Close()); err != nil {
		t.Fatal(err)
	}
}

// A log proves that all its membership entries but the last are committed: a start, and a roster, go by that, whatever
// commit index is stored.
func TestLogProvesItsMemberships(t *testing.T) {
	t.Parallel()
	c := fromOne(t, 367)
	c.promoted("b")
	c.settle()
	c.killAll()
	dir := c.cfgs["a"].Dir
	img, err := datadir.Examine(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	var changes []uint64
	for _, e := range img.Entries {
		if confEntry([]*pb.Entry{e}) > 0 {
			changes = append(changes, e.GetIndex())
		}
	}
	forgetLog(t, dir, img)
	s, err := Open(t.Context(), c.cfgs["a"])
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	state, _, err := s.log.InitialState()
	if want := changes[len(changes)-2]; err != nil || state.GetCommit() != want {
		t.Errorf("the start begins with entry %d of the membership entries %d committed, %v", state.GetCommit(),
			changes, err)
	}
}
