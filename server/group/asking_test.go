package group

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/group/relaypb"
	"github.com/coordd/coordd/server/group/streams"
)

// TestUnasked: the end of what no leader had says whether an earlier one may have had it, and is that of ctx
// too.
func TestUnasked(t *testing.T) {
	for last, want := range map[Asked]error{NotLed: ErrNoLeader, LeaderGone: ErrUnknown} {
		ctx, cancel := context.WithCancel(t.Context())
		err := newGroup(Config{}).AskLeader(ctx, func(bool) Asked { cancel(); return last })
		if !errors.Is(err, want) || errors.Is(err, ErrNoLeader) == errors.Is(err, ErrUnknown) ||
			!errors.Is(err, context.Canceled) || err.Error() != "context canceled" {
			t.Errorf("asked %v: got %v", last, err)
		}
	}
}

// TestAskAgain: a leader is asked until one answers, and told whether one before may have done it already.
func TestAskAgain(t *testing.T) {
	g := newGroup(Config{})
	script := []Asked{NotLed, LeaderGone, NotLed, Answered}
	var told []bool
	if err := g.AskLeader(t.Context(), func(repeated bool) Asked {
		told = append(told, repeated)
		return script[len(told)-1]
	}); err != nil || !slices.Equal(told, []bool{false, false, true, true}) {
		t.Errorf("got %v, attempts %v", err, told)
	}
	if err := g.AskLeader(t.Context(), func(bool) Asked { g.core.close(); return LeaderGone }); !errors.Is(err,
		streams.ErrStopped) {
		t.Errorf("stopped: got %v", err)
	}
}

// TestNewsOfALeaderHere: whoever is told of a new leader finds that this server leads, and does not wait on
// in vain.
func TestNewsOfALeaderHere(t *testing.T) {
	g := openTest(t, nil)
	g.hold(g.turn.Lock())
	defer g.turn.Unlock()
	term, index := g.core.replica.Term(), g.core.replica.Machine().Index()
	g.core.replica.Following()
	g.core.setLeader()
	news := g.uplink.AwaitNews()
	mutexOf(g.streams).Lock() // so that it is not seen yet that this server leads
	done := make(chan struct{})
	g.core.replica.Leading(term, g.store.Lineage())
	g.core.replica.Committed(g.clock.Now(), &coordination.Entry{Index: index + 1, Term: term})
	go func() { defer close(done); g.core.setLeader() }()
	select {
	case <-news:
		t.Error("calls were told of a leader before there was one to ask")
	case <-time.After(50 * time.Millisecond):
	}
	mutexOf(g.streams).Unlock()
	<-done
	<-news
}

// TestCallsPassAFollower: a call on a server that does not lead needs no turn there to get to the leader.
func TestCallsPassAFollower(t *testing.T) {
	c := openCluster(t, 3)
	leads, follows := c.leader()
	follower := c.groups[follows]
	eventually(t, "the relay", func() bool { return follower.uplink.Conn() != nil })
	done := make(chan struct{})
	follower.hold(follower.turn.Lock())
	go func() {
		defer close(done)
		createNode(t, follower, testNode)
	}()
	eventually(t, "the node on the leader", func() bool {
		found, err := capture(t.Context(), c.groups[leads], 1, func(m *coordination.Machine) bool {
			_, found := m.Tree().EntryToDescribe(testNode)
			return found.OK()
		})
		return err == nil && found
	})
	follower.turn.Unlock()
	<-done
}

// TestCallsAreEncodedOnce: what another server has encoded goes into the log as it came.
func TestCallsAreEncodedOnce(t *testing.T) {
	g := openTest(t, nil)
	createNode(t, g, scheme.Path{"local", "before"}) // from here on the group knows what its members can read
	command := &coordination.CreateNode{CallID: coordination.CallID{Nonce: 1}, Path: testNode,
		Owner: scheme.RootOwner}
	passedOn := codec.AppendCommand(nil, command)
	g.hold(g.turn.Lock())
	waiting := &call{attempt: &attempt{command: command, encoded: passedOn}, done: make(chan callAnswer, 1)}
	g.core.replica.Call(g.clock.Now(), waiting, command, 0, false)
	if got := g.core.passedOn(command); got == nil || &got[0] != &passedOn[0] {
		t.Error("a command that was passed on is encoded anew")
	}
	same := *command
	if got := g.core.passedOn(&same); got != nil {
		t.Error("a command is taken for another one of its name")
	}
	var got, want [][]byte
	for stamp := uint64(0); stamp != g.clock.WallMillis(); { // which entries begin with
		stamp = g.clock.WallMillis()
		got, want = g.core.entries([]coordination.Command{command}), g.core.entries([]coordination.Command{&same})
	}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("what was passed on becomes %x, not %x", got, want)
	}
	g.core.carryOut()
	g.turn.Unlock()
	if answer := <-waiting.done; answer.err != nil || !answer.outcome.OK() {
		t.Fatal(answer)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	answer, err := g.executeForPeer(ctx, &relaypb.ExecuteRequest{Command: passedOn})
	if err != nil || !relaypb.DecodeOutcome(answer).OK() {
		t.Fatal(answer, err)
	}
	if _, err := g.executeForPeer(ctx, &relaypb.ExecuteRequest{Command: append(slices.Clone(passedOn),
		0)}); err == nil {
		t.Error("what is not the encoding of a command would go into the log")
	}
}
