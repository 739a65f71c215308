package raftstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/membership"
)

// leadWith hands the leadership to a member.
func (c *testCluster) leadWith(name string) {
	c.t.Helper()
	ctx := testContext(c.t)
	for {
		m := c.leader()
		if m.name == name {
			return
		}
		id := c.nodes[name].store.Member()
		err := m.store.Changes.TransferLeader(ctx, id)
		if err != nil && !errors.Is(err, ErrNotLeader) {
			c.t.Fatalf("seed %d: transfer to %s: %v", c.seed, name, err)
		}
		c.wait("a leader", func() bool {
			for _, m := range c.nodes {
				if m.term != 0 {
					return true
				}
			}
			return false
		})
	}
}

// A leader that was started a moment ago votes for the member to which it hands over: that one leads in the next term,
// although the clocks stand still and nobody would stand for election again.
func TestLeaderJustStartedHandsOver(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 2, 301)
	clocks := c.freezable()
	leader := c.leader()
	heir := others(c.names, leader.name)[0]
	c.awaitVoters(heir)
	c.settle()
	for _, clock := range clocks {
		clock.freeze(true)
	}
	leader.ask(func(l *loop) { l.ticks = 0 })
	if err := leader.store.Changes.TransferLeader(testContext(t), c.nodes[heir].store.Member()); err != nil {
		t.Fatal(err)
	}
	c.put("served by the heir", heir)
}

// A leader that is to hand over to a member that is down leads on until that is back.
func TestLeaderWaitsForItsHeir(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 302)
	c.startAll()
	leader := c.leader()
	heir := others(c.names, leader.name)[0]
	id := c.nodes[heir].store.Member()
	c.awaitVoters(heir)
	c.kill(heir)
	asked := func(is func(l *loop) bool) func() bool {
		return func() (yes bool) {
			leader.ask(func(l *loop) { yes = is(l) })
			return yes
		}
	}
	c.poll("the silence of the heir", asked(func(l *loop) bool { return !l.active(id) }))
	moved := make(chan error, 1)
	go func() { moved <- leader.store.Changes.TransferLeader(testContext(t), id) }()
	c.poll("an attempt", asked(func(l *loop) bool { return len(l.pursuits) == 1 && l.pursuits[0].begun }))
	if leader.store.moving.Load() {
		t.Errorf("seed %d: the leader hands over to a member that is down", c.seed)
	}
	c.put("served meanwhile")
	c.start(heir)
	if err := <-moved; err != nil {
		t.Errorf("seed %d: %v", c.seed, err)
	}
	c.put("served afterwards")
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// onLeader repeats a change until a leader has made it.
func (c *testCluster) onLeader(what string, change func(ctx context.Context, s *Store) error) {
	c.t.Helper()
	ctx := testContext(c.t)
	for {
		err := change(ctx, c.leader().store)
		if err == nil {
			return
		}
		if ctx.Err() != nil || !errors.Is(err, ErrNotLeader) && !errors.Is(err, ErrBehind) &&
			!errors.Is(err, ErrQuorum) {
			c.t.Fatalf("seed %d: %s: %v%s", c.seed, what, err, c.describe())
		}
	}
}

// join adds a member and starts it.
func (c *testCluster) join(name string) uint64 {
	c.t.Helper()
	var id uint64
	c.onLeader("add "+name, func(ctx context.Context, s *Store) (err error) {
		id, err = s.Changes.AddLearner(ctx, name, name+":1")
		return err
	})
	cfg := c.config(name)
	cfg.Cluster.Initial, cfg.Cluster.Join = nil, nil
	for _, n := range c.names {
		cfg.Cluster.Join = append(cfg.Cluster.Join, n+":1")
	}
	c.names = append(c.names, name)
	c.cfgs[name] = cfg
	c.start(name)
	if got := c.nodes[name].store.Member(); got != id {
		c.t.Fatalf("%s was added as %016x and started as %016x", name, id, got)
	}
	return id
}

func TestLaggingFollowerGetsACheckpoint(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 70)
	// No log is kept for a member that is absent. For one that is back there is, lest the log behind the checkpoint
	// that it is sent be cut off, too, by one that was under way.
	for _, name := range c.names {
		c.configure(name, func(cfg *Config) { cfg.LagEntriesKept = DefaultLagEntriesKept })
	}
	c.startAll()
	c.put("before")
	lagging := others(c.names, c.leader().name)[0]
	for round := range 2 {
		c.isolate(lagging, true)
		c.poll(lagging+" to be taken for absent", func() (absent bool) {
			leader := c.leader(others(c.names, lagging)...)
			leader.ask(func(l *loop) { absent = l.leading && !l.active(c.nodes[lagging].store.Member()) })
			return absent
		})
		for n := range 400 {
			c.put(fmt.Sprintf("r%d.%06d", round, n), others(c.names, lagging)...)
		}
		c.isolate(lagging, false)
		c.settle()
		if m := c.nodes[lagging]; m.restores != round+1 {
			t.Errorf("%d checkpoints were taken over, want %d", m.restores, round+1)
		}
	}
	c.kill(lagging)
	c.start(lagging)
	c.settle()
	if m := c.nodes[lagging]; m.restores != 0 {
		t.Errorf("%d checkpoints were taken over after a restart", m.restores)
	}
}

func TestMembersComeAndGoUnderLoad(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 80)
	stopLoad := c.load("load")
	d := c.join("d")
	c.onLeader("promote d", func(ctx context.Context, s *Store) error { return s.Changes.Promote(ctx, d) })
	c.leadWith("d")
	a := c.nodes["a"]
	c.onLeader("remove a", func(ctx context.Context, s *Store) error {
		return s.Changes.Remove(ctx, a.store.Member())
	})
	c.wait("a to stop", func() bool { return a.failure != nil })
	if !errors.Is(a.failure, ErrRemoved) {
		t.Errorf("the removed member failed with %v", a.failure)
	}
	stopLoad()
	c.kill("a")
	c.names = others(c.names, "a")
	c.settle()
	for _, m := range c.nodes {
		if got := len(m.store.Members()); got != 3 {
			t.Errorf("%s knows %d members", m.name, got)
		}
	}
	// It does not come back with its data, nor without.
	if err := c.tryStart("a"); err == nil {
		a := c.nodes["a"]
		c.wait("a to stop again", func() bool { return a.failure != nil })
		if !errors.Is(a.failure, ErrRemoved) {
			t.Errorf("the removed member came back and failed with %v", a.failure)
		}
		c.kill("a")
	}
	if err := os.RemoveAll(filepath.Join(c.dir, "a")); err != nil {
		t.Fatal(err)
	}
	if err := c.tryStart("a"); !errors.Is(err, ErrRemoved) {
		t.Errorf("the removed member started without data: %v", err)
	}
}

// A cluster of one with a log from entry 1 can be joined with and without a checkpoint in between.
func TestOneBecomesThree(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{5, 500} {
		t.Run(fmt.Sprint(entries), func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, 1, 90)
			c.kill("a")
			if err := os.RemoveAll(filepath.Join(c.dir, "a")); err != nil {
				t.Fatal(err)
			}
			c.configure("a", func(cfg *Config) { cfg.Cluster.Initial = nil })
			c.h.entries = map[uint64]Entry{}
			c.start("a")
			for n := range entries {
				c.put(fmt.Sprintf("c%06d", n))
			}
			if !c.nodes["a"].store.MaySpeak() {
				t.Error("a member alone may not speak")
			}
			for _, name := range []string{"b", "c"} {
				id := c.join(name)
				c.onLeader("promote "+name, func(ctx context.Context, s *Store) error {
					return s.Changes.Promote(ctx, id)
				})
			}
			c.settle()
			c.kill("a")
			c.put("without the first")
			c.settle()
		})
	}
}

func TestEmptiedMemberIsRefused(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 100)
	m := c.leader()
	c.waitPublished(m)
	victim := others(c.names, m.name)[0]
	c.kill(victim)
	if err := os.RemoveAll(filepath.Join(c.dir, victim)); err != nil {
		t.Fatal(err)
	}
	if err := c.tryStart(victim); !errors.Is(err, ErrEmptied) {
		t.Fatalf("started with %v", err)
	}
	// Cut off while it starts, it cannot ask; it is refused when it speaks.
	c.isolate(victim, true)
	if err := c.tryStart(victim); err != nil {
		t.Fatal(err)
	}
	c.isolate(victim, false)
	v := c.nodes[victim]
	c.wait("the emptied member to stop", func() bool { return v.failure != nil })
	if !errors.Is(v.failure, ErrEmptied) {
		t.Errorf("failed with %v", v.failure)
	}
	c.kill(victim)
	// It comes back as a new member.
	old := v.store.Member()
	c.onLeader("remove", func(ctx context.Context, s *Store) error { return s.Changes.Remove(ctx, old) })
	if err := os.RemoveAll(filepath.Join(c.dir, victim)); err != nil {
		t.Fatal(err)
	}
	c.names = others(c.names, victim)
	if id := c.join(victim); id == old {
		t.Error("the id came back")
	}
	c.settle()
}

// A member that has voted and is emptied at once is refused, by the member that has had its vote.
func TestEmptiedRightAfterItsVote(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 101)
	c.start("a")
	c.start("b") // which need each other's votes
	lead := c.leader()
	victim := others([]string{"a", "b"}, lead.name)[0]
	c.kill(victim)
	if err := os.RemoveAll(filepath.Join(c.dir, victim)); err != nil {
		t.Fatal(err)
	}
	c.start("c")
	c.kill(lead.name)
	c.start(lead.name)
	if err := c.tryStart(victim); !errors.Is(err, ErrEmptied) {
		t.Errorf("started with %v", err)
	}
	c.names = others(c.names, victim)
	c.settle()
}

// waitPublished waits until the directories of all members are known to all.
func (c *testCluster) waitPublished(m *machine) {
	c.t.Helper()
	c.poll("the members to be known", func() bool {
		for _, n := range c.nodes {
			conf := n.store.view.Load().conf
			if len(conf.Members) == 0 || slices.ContainsFunc(conf.Members,
				func(r membership.Record) bool { return r.Incarnation == 0 }) {
				return false
			}
		}
		return true
	})
}

// poll waits for a state that nobody announces.
func (c *testCluster) poll(what string, ok func() bool) {
	c.t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-look.C {
		if time.Now().After(deadline) {
			c.t.Fatalf("seed %d: waited in vain for %s:%s", c.seed, what, c.describe())
		}
	}
}

// A leader that has just been elected has yet to hear the others. It does not refuse a change for that.
func TestNewLeaderHearsBeforeItRefuses(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 111)
	m := c.leader()
	c.waitPublished(m)
	w := removal(c.nodes[others(c.names, m.name)[0]].store.Member())
	w.result = make(chan error, 1)
	m.ask(func(l *loop) {
		clear(l.heard)
		l.pursuits = append(l.pursuits, w)
	})
	if err := <-w.result; err != nil {
		t.Error(err)
	}
}

func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, 110)
	m := c.leader()
	c.put("x")
	c.waitPublished(m)
	c.leadWith("a")
	m = c.nodes["a"]
	ctx := testContext(t)
	follower := c.nodes["b"].store
	check := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err := follower.Changes.AddLearner(ctx, "x", "x:1")
	check("add on a follower", err, ErrNotLeader)
	check("transfer on a follower", follower.Changes.TransferLeader(ctx, 0), ErrNotLeader)
	_, err = m.store.Changes.AddLearner(ctx, "b", "x:1")
	check("add a name twice", err, ErrTaken)
	check("promote nobody", m.store.Changes.Promote(ctx, 7), ErrNotMember)
	check("remove nobody", m.store.Changes.Remove(ctx, 7), ErrNotMember)
	check("transfer to nobody", m.store.Changes.TransferLeader(ctx, 7), ErrNotMember)
	if err := m.store.Changes.Remove(ctx, m.store.Member()); err == nil {
		t.Error("the leader removed itself")
	}
	if _, err := m.store.Changes.AddLearner(ctx, "", "x:1"); err == nil {
		t.Error("a member without a name was added")
	}
	id, err := m.store.Changes.AddLearner(ctx, "x", "x:1")
	if err != nil {
		t.Fatal(err)
	}
	check("promote a server that was never seen", m.store.Changes.Promote(ctx, id), ErrBehind)
	if got := m.store.ClusterVersion(); got != 1 {
		t.Errorf("cluster version %d", got)
	}
	// With one of three gone, the other two must stay.
	c.kill("b")
	c.poll("the loss to be noticed", func() bool {
		i := slices.IndexFunc(m.store.Members(), func(m Member) bool { return m.Name == "b" })
		return !m.store.Members()[i].Active
	})
	check("remove one of the last two", m.store.Changes.Remove(ctx, c.nodes["c"].store.Member()), ErrQuorum)
}

// A server that was started alone has no record, and may have been given a learner before it wrote one.
func TestFirstRecordIsAnUpdate(t *testing.T) {
	alone := membership.Conf{Voters: []uint64{1}}
	for _, c := range []membership.Conf{alone,
		{Voters: []uint64{1}, Learners: []uint64{2}, Members: []membership.Record{{ID: 2, Name: "b", Peer: "b:1"}}}} {
		change := &pb.ConfChange{Type: pb.ConfChangeUpdateNode.Enum(), NodeId: new(uint64(1))}
		record := &membership.Record{ID: 1, Name: "a", Peer: "a:1"}
		if !c.Allows(change, record) {
			t.Errorf("%+v gets no record of a", c)
		} else if next := c.After(c.ConfState(), record); next.Member(1) == nil || *next.Member(1) != *record {
			t.Errorf("%+v follows %+v", next, c)
		}
	}
	if change := (&pb.ConfChange{Type: pb.ConfChangeUpdateNode.Enum(), NodeId: new(uint64(2))}); alone.Allows(change,
		&membership.Record{ID: 2, Name: "b", Peer: "b:1"}) {
		t.Error("a server that is no member gets a record")
	}
}

// A new server gets a checkpoint in which it is a member before its time. It judges the entries up to its own
// as all others do: here its name and address were another's for a while.
func TestIncludedMemberJudgesAlike(t *testing.T) {
	base := membership.Conf{Voters: []uint64{1, 2},
		Members: []membership.Record{{ID: 1, Name: "a", Peer: "a:1"}, {ID: 2, Name: "b", Peer: "b:1"}}}
	const first, second = 77, 88
	record := func(id uint64) *membership.Record { return &membership.Record{ID: id, Name: "c", Peer: "c:1"} }
	log := []struct {
		typ    pb.ConfChangeType
		id     uint64
		record *membership.Record
	}{
		{pb.ConfChangeAddLearnerNode, first, record(first)},
		{pb.ConfChangeRemoveNode, first, nil},
		{pb.ConfChangeAddNode, second, nil},
		{pb.ConfChangeAddLearnerNode, second, record(second)},
		{pb.ConfChangeAddLearnerNode, second, record(second)},
	}
	run := func(c membership.Conf) membership.Conf {
		for _, e := range log {
			change := &pb.ConfChange{Type: e.typ.Enum(), NodeId: new(e.id)}
			state, changed := c.ConfState(), e.record
			switch {
			case !c.Allows(change, changed):
				changed = nil
			case e.typ == pb.ConfChangeRemoveNode:
				state.Learners = slices.DeleteFunc(state.Learners, func(id uint64) bool { return id == e.id })
			case e.typ == pb.ConfChangeAddNode:
				t.Errorf("%d was given a vote before it was added", e.id)
			case !slices.Contains(state.Learners, e.id):
				state.Learners = append(state.Learners, e.id)
			}
			c = c.After(state, changed)
		}
		return c
	}
	others := run(base)
	newest := run(base.Including(second, others))
	if !bytes.Equal(newest.Encode(), others.Encode()) {
		t.Errorf("the new server has %s, the others have %s", newest.Encode(), others.Encode())
	}
	if !slices.Equal(newest.Removed, []uint64{first}) {
		t.Errorf("the new server lets back in whom the others have removed: %v", newest.Removed)
	}
}

// A question that the leader has put to the others is answered also when the last of them is removed before
// it could say anything.
func TestReadsOutliveTheLastOther(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 2, 120)
	c.put("x")
	c.waitPublished(c.leader())
	c.leadWith("a")
	a, b := c.nodes["a"], c.nodes["b"].store.Member()
	removed, asked := make(chan error, 1), uint64(0)
	ctx := testContext(t)
	go func() { removed <- a.store.Changes.Remove(ctx, b) }()
	for going := true; going; {
		select {
		case err := <-removed:
			if err != nil {
				t.Fatal(err)
			}
			going = false
		case <-time.After(50 * time.Microsecond):
			asked++
			a.store.ReadIndex(asked)
		}
	}
	c.wait("all questions to be answered", func() bool { return uint64(len(a.reads)) == asked })
}
