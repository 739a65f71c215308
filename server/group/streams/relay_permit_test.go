package streams

import (
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/server/group/relaypb"
)

// TestPermitIsTiedToItsRelay shows when a permit is given apart from the relay: while the leader holds the
// very relay that is named, something came over it within relayLease, and the leader may speak itself.
func TestPermitIsTiedToItsRelay(t *testing.T) {
	r := newSilenceRunOf(&choices{numbers: make([]float64, 10_000)}, true, 5000, [3]float64{1, 1, 1})
	r.run(time.Second)
	leader, c := r.a, r.first
	g := leader
	givesTo := func(from uint64, hello *relaypb.Hello) bool {
		p := g.peers.find(from, hello)
		return p != nil && p.answer(&relaypb.PermitRequest{Renew: 1}) != nil
	}
	gives := func(hello *relaypb.Hello) bool { return givesTo(c.peer.from, hello) }
	mine := &relaypb.Hello{Process: c.peer.process, Number: c.peer.number}
	c.peer.heard = leader.Now()
	if !gives(mine) {
		t.Fatal("no permit for the relay that is there")
	}
	if givesTo(c.peer.from+1, mine) {
		t.Error("a permit for another server")
	}
	for _, other := range []*relaypb.Hello{
		{Process: mine.Process + 1, Number: mine.Number},
		{Process: mine.Process, Number: mine.Number + 1}} {
		if gives(other) {
			t.Errorf("a permit for %v", other)
		}
	}
	c.peer.heard = leader.Now() - coordination.Instant(relayLease)
	if !gives(mine) {
		t.Error("no permit although the relay has just moved")
	}
	c.peer.heard--
	if gives(mine) {
		t.Error("a permit for a relay that does not move")
	}
	c.peer.heard = leader.Now()
	until := leader.leaseUntil
	leader.leaseUntil = 0
	if gives(mine) {
		t.Error("a permit from a leader that may not speak")
	}
	leader.leaseUntil = until
	if !gives(mine) {
		t.Fatal("no permit any more")
	}
	c.peer.abandon()
	if gives(mine) {
		t.Error("a permit for a relay that is lost, whose sessions are being counted")
	}
	g.peers.remove(c.peer)
	if gives(mine) {
		t.Error("a permit for a relay that is over")
	}
}

// TestPermitCountsFromTheAsking: a permit may come over either connection, late and out of turn, and is never
// longer than from the moment at which it was asked for.
func TestPermitCountsFromTheAsking(t *testing.T) {
	hands := &turnedClock{}
	r := &Relay{streams: New(Config{}), shell: clock.New(hands), asked: make(map[uint64]moment),
		bell: turn.NewBell()}
	first := r.permitRequest().GetRenew()
	hands.now += coordination.Instant(time.Second)
	r.renew() // over the relay
	second := r.take().GetRenew()
	hands.now += coordination.Instant(100 * time.Millisecond)
	third := r.permitRequest().GetRenew()
	if first == second || second == third {
		t.Fatalf("the requests have the numbers %d, %d and %d", first, second, third)
	}
	r.granted(first)
	if r.MaySpeak() {
		t.Error("a permit that was asked for long ago counts")
	}
	r.granted(third)
	until := r.permit.Load()
	if until != int64(hands.now)+int64(relayPermit) {
		t.Errorf("a permit until %d", until)
	}
	r.granted(second)
	r.granted(99)
	if r.permit.Load() != until || len(r.asked) > 0 {
		t.Errorf("a permit until %d, and %d requests are remembered", r.permit.Load(), len(r.asked))
	}
	if !r.MaySpeak() {
		t.Error("the permit does not count")
	}
	r.day.Add(-int64(relayPermit)) // as if the machine had slept for as long
	if r.MaySpeak() {
		t.Error("a permit that ran out while the machine slept counts")
	}
}

// TestPermitsAreDropped has a leader hand over: it gives no permit any more, wants those dropped that it has given, and
// knows from when on the other server is silent.
func TestPermitsAreDropped(t *testing.T) {
	r := newSilenceRunOf(&choices{numbers: make([]float64, 10_000)}, true, 5000, [3]float64{1, 1, 1})
	leader, p, follower := r.a, r.first.peer, r.first.relay
	r.run(time.Second)
	p.heard = leader.Now()
	p.answer(&relaypb.PermitRequest{Renew: 500})
	given := leader.Now()
	r.run(r.now + 10*time.Millisecond)
	leader.quiet = true
	if at := leader.peers.SilentFrom(); at != given+coordination.Instant(relayLease) {
		t.Errorf("silent from %d on", at)
	}
	p.renew = 501
	if out := p.take(); out.GetRenewed() != 0 {
		t.Error("a permit over the relay")
	}
	if grant := p.answer(&relaypb.PermitRequest{Renew: 502}); !grant.GetDrop() || grant.GetRenewed() != 0 {
		t.Errorf("the answer is %v", grant)
	}
	if p.answer(&relaypb.PermitRequest{Dropped: 499}); leader.peers.SilentFrom() == 0 {
		t.Error("permits that were dropped before these were given count")
	}
	late := follower.ask()
	follower.drop()
	if follower.granted(late); follower.MaySpeak() {
		t.Error("a permit that was on its way counts")
	}
	p.answer(&relaypb.PermitRequest{Dropped: 502})
	if at := leader.peers.SilentFrom(); at != 0 {
		t.Errorf("all permits are dropped, and the other server is silent from %d on", at)
	}
	if grant := p.answer(&relaypb.PermitRequest{Renew: 503}); grant != nil {
		t.Errorf("the answer is %v", grant)
	}
	leader.quiet = false
	if grant := p.answer(&relaypb.PermitRequest{Renew: 504}); grant.GetRenewed() != 504 || grant.GetDrop() {
		t.Errorf("the answer is %v", grant)
	}
	given = leader.Now()
	leader.peers.remove(p)
	if at := leader.peers.SilentFrom(); at != given+coordination.Instant(relayLease) {
		t.Errorf("a relay that is over leaves the other server silent from %d on", at)
	}
}
