package group

import (
	"context"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group/relaypb"
	"github.com/coordd/coordd/server/internal/hooks"
)

// TestLeaveIsTiedToItsRelay shows when leave is given apart from the relay: while the leader holds the very relay that is
// named, something came over it within relayLease, and the leader may speak itself.
func TestLeaveIsTiedToItsRelay(t *testing.T) {
	r := newSilenceRunOf(&choices{numbers: make([]float64, 10_000)}, true, 5000, [3]float64{1, 1, 1})
	r.run(time.Second)
	leader, c := r.a, r.first
	g := leader.group
	if !g.relays.add(c.peer) {
		t.Fatal("the relay is not taken up")
	}
	gives := func(hello *relaypb.Hello) bool {
		p := g.relays.find(hello)
		return p != nil && p.givesLeave()
	}
	mine := &relaypb.Hello{Server: c.peer.from, Process: c.peer.process, Number: c.peer.number}
	c.peer.heard = leader.Now()
	if !gives(mine) {
		t.Fatal("no leave for the relay that is there")
	}
	for _, other := range []*relaypb.Hello{{}, {Server: mine.Server + 1, Process: mine.Process, Number: mine.Number},
		{Server: mine.Server, Process: mine.Process + 1, Number: mine.Number}, {Server: mine.Server, Process: mine.Process, Number: mine.Number + 1}} {
		if gives(other) {
			t.Errorf("leave for %v", other)
		}
	}
	c.peer.heard = leader.Now() - coordination.Instant(relayLease)
	if !gives(mine) {
		t.Error("no leave although the relay has just moved")
	}
	c.peer.heard--
	if gives(mine) {
		t.Error("leave for a relay that does not move")
	}
	c.peer.heard = leader.Now()
	until := leader.leaseUntil
	leader.leaseUntil = 0
	if gives(mine) {
		t.Error("leave from a leader that may not speak")
	}
	leader.leaseUntil = until
	if !gives(mine) {
		t.Fatal("no leave any more")
	}
	c.peer.abandon()
	if gives(mine) {
		t.Error("leave for a relay that is lost, whose sessions are being counted")
	}
	g.relays.remove(c.peer)
	if gives(mine) {
		t.Error("leave for a relay that is over")
	}
}

// TestLeaveCountsFromTheAsking: leave may come over either connection, late and out of turn, and is never longer than from
// the moment at which it was asked for.
func TestLeaveCountsFromTheAsking(t *testing.T) {
	clock := &stoodClock{}
	r := &relay{streams: newStreamSet(1), clock: NewClock(clock), asked: make(map[uint64]moment), bell: newBell()}
	first := r.leaveRequest().GetRenew()
	clock.now += coordination.Instant(time.Second)
	r.renew() // over the relay
	second := r.take().GetRenew()
	clock.now += coordination.Instant(100 * time.Millisecond)
	third := r.leaveRequest().GetRenew()
	if first == second || second == third {
		t.Fatalf("the requests have the numbers %d, %d and %d", first, second, third)
	}
	r.granted(first)
	if r.maySpeak() {
		t.Error("leave that was asked for long ago counts")
	}
	r.granted(third)
	until := r.leave.Load()
	if until != int64(clock.now)+int64(relayLeave) {
		t.Errorf("leave until %d", until)
	}
	r.granted(second)
	r.granted(99)
	if r.leave.Load() != until || len(r.asked) > 0 {
		t.Errorf("leave until %d, and %d requests are remembered", r.leave.Load(), len(r.asked))
	}
	if !r.maySpeak() {
		t.Error("the leave does not count")
	}
	r.day.Add(-int64(relayLeave)) // as if the machine had slept for as long
	if r.maySpeak() {
		t.Error("leave that ran out while the machine slept counts")
	}
}

// stoodClock stands still.
type stoodClock struct{ now coordination.Instant }

// Now implements hooks.Clock.
func (c *stoodClock) Now() coordination.Instant { return c.now }

// AfterFunc implements hooks.Clock.
func (*stoodClock) AfterFunc(time.Duration, func()) hooks.Timer { return nil }

// TestLeaveOverTheHeartbeats asks for leave over the connection of the heartbeats of a cluster, and gets it there.
func TestLeaveOverTheHeartbeats(t *testing.T) {
	c := openCluster(t, 3)
	leader, follower := c.leader()
	createNode(t, c.groups[leader], testNode)
	f := c.groups[follower]
	openSession(t, f, 60_000)
	eventually(t, "leave over the connection of the heartbeats", func() bool {
		f.streams.mutex.Lock()
		r, _ := f.streams.link.(*relay)
		f.streams.mutex.Unlock()
		if r == nil || r.urgent() == nil {
			return false
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		leave, err := relaypb.NewRelayClient(r.urgent()).Leave(ctx)
		if err != nil {
			return false
		}
		_ = leave.Send(&relaypb.LeaveRequest{Relay: r.hello(), Renew: 1 << 40})
		grant, err := leave.Recv()
		return err == nil && grant.GetRenewed() == 1<<40
	})
}
