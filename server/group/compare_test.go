package group

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/group/compare"
	"github.com/coordd/coordd/server/group/relaypb"
)

// manualMarks is a policy by which no mark is due in the time of a test, unless the test says so.
var manualMarks = coordination.MarkPolicy{PeriodMillis: 3_600_000}

// comparedCluster is servers whose states the test has compared, and lets diverge.
type comparedCluster struct {
	*testCluster
	wrong []atomic.Bool // has a server execute what makes a poisoned path otherwise than the log says

	mutex sync.Mutex
	ended map[int][]error // why servers ended by themselves
}

// poison makes a directory that a server with another mind makes otherwise.
func poison(n int) scheme.Path { return scheme.Path{"local", fmt.Sprint("poison-", n)} }

func openCompared(t *testing.T, n int, change func(i int, config *Config)) *comparedCluster {
	t.Helper()
	c := &comparedCluster{wrong: make([]atomic.Bool, n), ended: make(map[int][]error)}
	c.testCluster = openClusterWith(t, n, func(i int, config *Config) {
		config.Marks = manualMarks
		config.compare.Pause = 50 * time.Millisecond
		config.Executing = func(_ *coordination.Machine, e *coordination.Entry) {
			for _, command := range e.Commands {
				made, is := command.(*coordination.MakeDirectory)
				if is && c.wrong[i].Load() && len(made.Path[1]) > 6 && made.Path[1][:6] == "poison" {
					made.Owner = fmt.Sprint("nobody-", i)
				}
			}
		}
		config.Failed = func(err error) {
			c.mutex.Lock()
			defer c.mutex.Unlock()
			c.ended[i] = append(c.ended[i], err)
		}
		if change != nil {
			change(i, config)
		}
	})
	return c
}

// endOf is why a server has ended by itself, nil if it goes on.
func (c *comparedCluster) endOf(i int) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return errors.Join(c.ended[i]...)
}

// makeDirectory has a directory made by whoever leads; what the caller is told does not matter.
func (c *comparedCluster) makeDirectory(path scheme.Path, on int) {
	c.t.Helper()
	answer, err := c.groups[on].Execute(context.Background(),
		func(call coordination.CallID) coordination.Command {
			return &coordination.MakeDirectory{CallID: call, Path: path, Owner: scheme.RootOwner}
		})
	if err != nil || !answer.OK() {
		c.t.Fatal(answer, err)
	}
}

// upgraded waits until all servers know that all of them read marks.
func (c *comparedCluster) upgraded() {
	c.t.Helper()
	for _, g := range c.groups {
		eventually(c.t, "the format version",
			func() bool { return g.FormatVersion() >= codec.VersionEntries })
	}
}

// mark has the leader put a mark into the log, and returns its index once the leader has its own digest of
// it.
func (c *comparedCluster) mark() uint64 { return c.markUnless(nil) }

// markUnless is mark, but it returns 0 if a group leads whose turn the test has.
func (c *comparedCluster) markUnless(held *Group) uint64 {
	c.t.Helper()
	c.upgraded()
	for {
		var leader *Group
		var before uint64
		eventually(c.t, "a leader that marks", func() bool {
			at, _ := c.leader()
			if leader = c.groups[at]; leader == held {
				return true
			}
			leader.hold(leader.turn.Lock())
			defer leader.turn.Unlock()
			before = uint64(leader.core.replica.Machine().Index())
			if leader.core.replica.Reign() == 0 || leader.core.checkpoint != nil || leader.store.Checkpoints.Open() {
				return false
			}
			leader.core.replica.Mark()
			leader.core.work()
			return true
		})
		if leader == held {
			return 0
		}
		var now uint64
		eventually(c.t, "the leader's digest, or another leader", func() bool {
			now, _ = leader.comparer.Newest()
			return now > before || !leader.Leads()
		})
		if now > before {
			return now
		}
		// A leader whose disk is slow hands over, and its mark may be lost.
	}
}

// idle waits until a server has no checkpoint under way, so that it takes part in the next mark.
func (c *comparedCluster) idle(i int, index uint64) {
	c.t.Helper()
	eventually(c.t, "checkpoints to end", func() bool {
		g := c.groups[i]
		g.hold(g.turn.Lock())
		defer g.turn.Unlock()
		return uint64(g.core.replica.Machine().Index()) >= index && g.core.checkpoint == nil &&
			!g.store.Checkpoints.Open()
	})
}

// compared waits until a server has its own digest of an index and those of so many others.
func (c *comparedCluster) compared(i int, index uint64, others int) {
	c.t.Helper()
	g := c.groups[i]
	eventually(c.t, fmt.Sprintf("the comparison of entry %d at server %d", index, i), func() bool {
		heard := 0
		for _, list := range g.comparer.Heard() {
			if slices.Contains(list, index) {
				heard++
			}
		}
		return g.comparer.Has(index) && heard >= others
	})
}

// wantEnd waits for a server to end because it has diverged, and shows that it does not start on its data
// again.
func (c *comparedCluster) wantEnd(i int, index uint64) {
	c.t.Helper()
	eventually(c.t, "a server with a wrong state to end", func() bool { return c.endOf(i) != nil })
	var diverged *compare.DivergedError
	if err := c.endOf(i); !errors.As(err, &diverged) || index != 0 && diverged.Index != index {
		c.t.Fatalf("server %d ended with %v", i, err)
	}
	if diverged.Condemnation != nil || diverged.Own == diverged.Shared {
		c.t.Errorf("server %d ended with %+v", i, diverged)
	}
	stopTest(c.t, c.groups[i])
	c.wantCondemned(i)
}

func (c *comparedCluster) wantCondemned(i int) {
	c.t.Helper()
	var condemned *datadir.CondemnedError
	if g, err := Open(c.t.Context(), c.configs[i]); !errors.As(err, &condemned) {
		if err == nil {
			stopTest(c.t, g)
		}
		c.t.Fatalf("server %d starts again: %v", i, err)
	}
}

// wantNoDivergence shows that a server goes on and knows of nothing wrong.
func (c *comparedCluster) wantNoDivergence(which ...int) {
	c.t.Helper()
	for _, i := range which {
		if d, found := c.groups[i].Divergence(); found || c.endOf(i) != nil {
			c.t.Errorf("server %d: %+v, %v", i, d, c.endOf(i))
		}
	}
}

// TestDigestsAgree: servers that have executed the same have the same digest at each mark, also one that was
// started again between two marks, and none of them ends.
func TestDigestsAgree(t *testing.T) {
	c := openCompared(t, 3, nil)
	for round := range 3 {
		_, follower := c.leader()
		c.makeDirectory(poison(round), follower)
		index := c.mark()
		for i := range c.groups {
			c.compared(i, index, 2)
			c.idle(i, index)
		}
		stopTest(t, c.groups[follower])
		c.open(follower)
		eventually(t, "a leader", c.groups[follower].Led)
		c.wantNoDivergence(0, 1, 2)
	}
}

// TestDivergedFollowerEnds: the others go on, and say who it is.
func TestDivergedFollowerEnds(t *testing.T) {
	c := openCompared(t, 3, nil)
	leader, follower := c.leader()
	id := c.groups[follower].store.Member()
	c.wrong[follower].Store(true)
	c.makeDirectory(poison(0), leader)
	index := c.mark()
	c.wantEnd(follower, index)
	for i, g := range c.groups {
		if i == follower {
			continue
		}
		eventually(t, "the others to know who it is", func() bool {
			d, found := g.Divergence()
			return found && d.Right && d.Index == index && len(d.Others) == 1 && d.Others[0] == id
		})
		if err := c.endOf(i); err != nil {
			t.Errorf("server %d ended: %v", i, err)
		}
		c.makeDirectory(scheme.Path{"local", fmt.Sprint("later-", i)}, i)
	}
	leads, _ := c.leader()
	if err := c.groups[leads].store.Changes.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for i := range c.groups {
		if i != follower {
			eventually(t, "the one that was removed to be forgotten",
				func() bool { _, found := c.groups[i].Divergence(); return !found })
		}
	}
}

// TestDivergedLeaderEnds: another server leads at once, with the state that the majority has.
func TestDivergedLeaderEnds(t *testing.T) {
	c := openCompared(t, 3, nil)
	leader, _ := c.leader()
	c.wrong[leader].Store(true)
	c.makeDirectory(poison(0), leader)
	c.mark()
	c.wantEnd(leader, 0)
	next := -1
	eventually(t, "another leader", func() bool {
		for i, g := range c.groups {
			if i != leader && g.Leads() {
				next = i
			}
		}
		return next >= 0
	})
	c.makeDirectory(scheme.Path{"local", "later"}, next)
	if err := c.endOf(next); err != nil {
		t.Error(err)
	}
}

// TestDivergedPairGoesOn: of two servers nobody knows who is right. Both go on and say so, also once they
// were started again, until one of them is no member any more.
func TestDivergedPairGoesOn(t *testing.T) {
	c := openCompared(t, 2, nil)
	leader, follower := c.leader()
	c.wrong[follower].Store(true)
	c.makeDirectory(poison(0), leader)
	index := c.mark()
	split := func(i int) {
		t.Helper()
		eventually(t, "both to say that they differ", func() bool {
			d, found := c.groups[i].Divergence()
			return found && !d.Right && d.Index == index && len(d.Others) == 1
		})
	}
	for i := range c.groups {
		split(i)
		c.idle(i, index)
	}
	stopTest(t, c.groups[follower])
	c.open(follower)
	for i, g := range c.groups {
		eventually(t, "a leader", g.Led)
		split(i)
		if err := c.endOf(i); err != nil {
			t.Errorf("server %d has ended: %v", i, err)
		}
	}
	leader, follower = c.leader()
	c.makeDirectory(scheme.Path{"local", "later"}, follower)
	if err := c.groups[leader].store.Changes.Remove(t.Context(), c.groups[follower].store.Member()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the one that is left to be right",
		func() bool { _, found := c.groups[leader].Divergence(); return !found })
}

// TestSilentVoterIsWaitedFor: as long as the third server may show who is right, nobody is called wrong; but
// that has an end. Once it speaks, the one that is wrong ends.
func TestSilentVoterIsWaitedFor(t *testing.T) {
	c := openCompared(t, 3, nil)
	leader, follower := c.leader()
	third := 3 - leader - follower
	c.wrong[follower].Store(true)
	g := c.groups[third]
	g.hold(g.turn.Lock())
	held := true
	defer func() {
		if held {
			g.turn.Unlock()
		}
	}()
	c.makeDirectory(poison(0), leader)
	index := c.mark()
	for _, i := range []int{leader, follower} {
		eventually(t, "the wait for the third to end",
			func() bool { d, found := c.groups[i].Divergence(); return found && !d.Right })
	}
	if err := errors.Join(c.endOf(leader), c.endOf(follower)); err != nil {
		t.Fatal(err)
	}
	g.turn.Unlock()
	held = false
	g.queue.bell.Ring()
	c.wantEnd(follower, index)
	eventually(t, "the others to be right", func() bool {
		d, found := c.groups[leader].Divergence()
		return found && d.Right
	})
}

// TestLaggingServerIsComparedLater: a server that is further behind than reports are kept passes marks over,
// and is compared at one that comes when it has caught up. What the others keep for it does not grow
// meanwhile.
func TestLaggingServerIsComparedLater(t *testing.T) {
	c := openCompared(t, 3, nil)
	leader, follower := c.leader()
	c.wrong[follower].Store(true)
	g := c.groups[follower]
	var index uint64
	func() {
		g.hold(g.turn.Lock())
		defer g.turn.Unlock()
		for n := range compare.ReportsKept + 2 {
			c.makeDirectory(poison(n), leader)
			index = c.mark()
			for i := range c.groups {
				if i != follower {
					c.compared(i, index, 1)
					c.idle(i, index)
				}
			}
		}
		for id, list := range g.comparer.Heard() {
			if len(list) > compare.ReportsKept {
				t.Errorf("%d reports of %x", len(list), id)
			}
		}
	}()
	g.queue.bell.Ring()
	c.idle(follower, index)
	c.makeDirectory(poison(99), leader)
	c.mark()
	c.wantEnd(follower, 0)
}

// TestOpenCheckpointPassesMarkOver: a server that has a checkpoint under way at a mark is not compared there,
// and ends neither because of that nor for ever gets away with a wrong state.
func TestOpenCheckpointPassesMarkOver(t *testing.T) {
	c := openCompared(t, 3, nil)
	leader, follower := c.leader()
	g := c.groups[follower]
	var index uint64
	func() {
		g.hold(g.turn.Lock())
		defer g.turn.Unlock()
		g.core.beginCheckpoint() // as of before
		private := g.core.checkpoint
		c.makeDirectory(poison(0), leader)
		index = c.mark()
		for machine := g.core.replica.Machine(); uint64(machine.Index()) < index; {
			news := g.queue.takeStore(nil)
			for _, e := range news {
				if err := g.core.handleStore(e); err != nil {
					t.Error(err)
					return
				}
			}
			if len(news) == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		if g.core.checkpoint != private || g.core.checkpoint.marked {
			t.Error("another checkpoint was begun")
		}
	}()
	g.queue.bell.Ring()
	for i := range c.groups {
		c.idle(i, index)
		if i != follower {
			c.compared(i, index, 1)
		}
	}
	if g.comparer.Has(index) {
		t.Error("it has a digest of a mark that it passed over")
	}
	c.wantNoDivergence(0, 1, 2)
	c.wrong[follower].Store(true)
	c.makeDirectory(poison(1), leader)
	c.wantEnd(follower, c.mark())
}

// TestKilledBeforeItIsCondemned: a server that was killed when it had noticed, and had not written it down
// yet, starts again, notices again by its checkpoint and ends then.
func TestKilledBeforeItIsCondemned(t *testing.T) {
	noticed := make(chan bool, 1)
	var spare atomic.Bool
	c := openCompared(t, 3, func(i int, config *Config) {
		config.compare.Noticed = func() {
			if !spare.Load() {
				noticed <- true
				runtime.Goexit() // whatever comes behind it never happens
			}
		}
	})
	leader, follower := c.leader()
	c.wrong[follower].Store(true)
	c.makeDirectory(poison(0), leader)
	index := c.mark()
	<-noticed
	c.idle(follower, index)
	stopTest(t, c.groups[follower])
	spare.Store(true)
	c.open(follower) // it is not condemned yet
	c.wantEnd(follower, index)
}

// TestReplayHealsWhatWasNotStored: where the checkpoint of the mark was not stored, a server that is started
// again executes the log anew. If the state is right then, there is nothing to end for.
func TestReplayHealsWhatWasNotStored(t *testing.T) {
	c := openCompared(t, 3, func(i int, config *Config) {
		config.compare.Noticed = func() { runtime.Goexit() }
	})
	leader, follower := c.leader()
	g := c.groups[follower]
	c.wrong[follower].Store(true)
	c.makeDirectory(poison(0), leader)
	index := uint64(0)
	func() {
		g.hold(g.turn.Lock()) // it does not come to the mark
		defer g.turn.Unlock()
		index = c.mark()
	}()
	// Killed: what the group has in memory is of no account.
	g.hold(g.turn.Lock())
	g.core.close()
	g.turn.Unlock()
	stopTest(t, g)
	c.wrong[follower].Store(false)
	c.open(follower)
	c.compared(follower, index, 2)
	c.wantNoDivergence(0, 1, 2)
}

// TestOtherHashesAreNotCompared: servers whose programs compute digests in another way are not compared, in
// either direction, and those of one version are.
func TestOtherHashesAreNotCompared(t *testing.T) {
	c := openCompared(t, 3, func(i int, config *Config) {
		if i == 2 {
			config.compare.Version = coordination.DigestVersion + 1
		}
	})
	c.wrong[2].Store(true)
	c.makeDirectory(poison(0), 0)
	index := c.mark()
	for i := range c.groups {
		c.compared(i, index, 2)
		c.idle(i, index)
	}
	c.wantNoDivergence(0, 1, 2)
	c.wrong[1].Store(true)
	c.makeDirectory(poison(1), 0)
	index = c.mark()
	for i := range 2 {
		eventually(t, "the two of one version to differ", func() bool {
			d, found := c.groups[i].Divergence()
			return found && !d.Right && d.Index == index && len(d.Others) == 1 &&
				d.Others[0] == c.groups[1-i].store.Member()
		})
	}
	c.compared(2, index, 2)
	c.wantNoDivergence(2)
	if err := errors.Join(c.endOf(0), c.endOf(1)); err != nil {
		t.Error(err)
	}
}

// TestOnlyMembersReport: a report is kept as that of the member that sends it.
func TestOnlyMembersReport(t *testing.T) {
	c := openCompared(t, 3, nil)
	g := c.groups[0]
	self, other := g.store.Member(), c.groups[1].store.Member()
	eventually(t, "all members to be known", func() bool { return len(g.store.Members()) == 3 })
	report := func(from, index uint64) (*relaypb.DigestReport, error) {
		return g.comparer.Compare(peers.WithCaller(t.Context(), &peerpb.Header{From: from}),
			&relaypb.DigestReport{Index: index, HashVersion: 1})
	}
	if answer, err := report(other, 1<<60); err != nil || answer.GetIndex() != 0 {
		t.Errorf("got %v, %v", answer, err)
	}
	if outsider := self + 1; outsider != other && outsider != c.groups[2].store.Member() {
		if _, err := report(outsider, 5); err != nil {
			t.Error(err)
		}
	}
	if heard := g.comparer.Heard(); len(heard) != 1 || len(heard[other]) != 1 {
		t.Errorf("heard %v", heard)
	}
}
