package raftstore

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/coordd/coordd/raftstore/datadir"
)

// A checkpoint that is wanted is due, although nothing else calls for it, until one as new has begun.
func TestWantedCheckpoint(t *testing.T) {
	s := open(t, smallConfig(filepath.Join(t.TempDir(), "data")))
	defer stop(t, s)
	r := start(t, s)
	propose(t, r, r.lead(t), "one")
	r.waitIdle(t) // with what the store does first, beside which nothing is due
	if s.Checkpoints.Due() {
		t.Fatal("a checkpoint is due at once")
	}
	if err := s.Checkpoints.Await(t.Context(), 0); err != nil {
		t.Errorf("what is stored already: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Checkpoints.Await(ended, r.last()); err == nil {
		t.Error("a checkpoint that nobody wrote")
	}
	s.Checkpoints.Want(r.last())
	s.Checkpoints.Want(1)
	if !s.Checkpoints.Due() {
		t.Error("the wanted checkpoint is not due")
	}
	takeCheckpoint(t, r, row("key", "value"))
	if err := s.Checkpoints.Await(t.Context(), r.last()); err != nil {
		t.Error(err)
	}
	if s.Checkpoints.Due() {
		t.Error("the wanted checkpoint is due again")
	}
}

func TestStatusOfOne(t *testing.T) {
	s := open(t, smallConfig(filepath.Join(t.TempDir(), "data")))
	defer stop(t, s)
	r := start(t, s)
	propose(t, r, r.lead(t), "one")
	got, err := s.Status(t.Context())
	if err != nil || got.Term == 0 || got.Leader != s.Member() || got.Commit != r.last() ||
		got.Applied != r.last() || got.FreeBytes == 0 {
		t.Errorf("the status is %+v, %v", got, err)
	}
	if m, found := got.Members.Find(s.Member()); !found || !m.Leader || m.Match != r.last() || !m.Active {
		t.Errorf("this member is %+v, %v", m, found)
	}
	if _, found := got.Members.Find(1); found {
		t.Error("a member that is not there")
	}
}

// TestNamesOfMembers: a member is called by its name, and by its id where that is not known. Servers that are
// no members have an id only, and none where it is about members.
func TestNamesOfMembers(t *testing.T) {
	l := Members{{ID: 1, Name: "a"}, {ID: 0x2b}}
	for id, want := range map[uint64]string{1: "a", 0x2b: "000000000000002b", 7: "0000000000000007"} {
		if got := l.NameOf(id); got != want {
			t.Errorf("%d is called %s, want %s", id, got, want)
		}
	}
	if got, want := l.NamesOf([]uint64{7, 0x2b, 1}),
		[]string{"a", "000000000000002b"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestQuorumWithout(t *testing.T) {
	a, b, c := Member{ID: 1, Active: true}, Member{ID: 2, Active: true}, Member{ID: 3}
	learner := Member{ID: 4, Active: true, Learner: true}
	for _, test := range []struct {
		members Members
		without uint64
		want    bool
	}{
		{Members{a}, 1, false},
		{Members{a, b}, 1, true},
		{Members{a, b, c}, 3, true},
		{Members{a, b, c}, 1, false},
		{Members{a, b, c, learner}, 1, false},
		{Members{a, learner}, 4, true},
	} {
		if got := (Status{Members: test.members}).QuorumWithout(test.without); got != test.want {
			t.Errorf("%v without %d: %v", test.members, test.without, got)
		}
	}
}

// A member that was made the only one elects itself although its log has committed membership entries that
// are not applied when it starts.
func TestForcedWithPendingMembership(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 320)
	id := c.join("d")
	c.onLeader("remove d", func(ctx context.Context, s *Store) error { return s.Changes.Remove(ctx, id) })
	c.kill("d")
	c.put("one")
	for range 3 { // each new term stores the commit index
		c.onLeader("transfer", func(ctx context.Context, s *Store) error { return s.Changes.TransferLeader(ctx, 0) })
		c.settle()
	}
	// a last: the others alone could commit what it does not have
	for _, name := range []string{"b", "c", "a"} {
		c.kill(name)
	}
	if err := datadir.ForceSingle(c.cfgs["a"].Dir); err != nil {
		t.Fatal(err)
	}
	c.names = []string{"a"}
	c.start("a")
	c.put("two")
}
