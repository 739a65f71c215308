package raftstore

import (
	"slices"
	"time"

	"github.com/coordd/coordd/raftstore/membership"
)

// A leader that hears nobody and is still heard keeps the others from electing another: they hear it, and
// raft takes up to two election timeouts to notice on this side and one more on theirs. Raft cannot be told
// to give up the leadership. So such a leader does what a killed one does: it ends its urgent streams, and
// says nothing any more. Then the others forget it and ask each other, see loop.lost.

// deafness is how long a leader has heard nobody.
type deafness struct {
	ticks    int // in a row without the lease that it had
	tickedAt time.Time
	hushed   bool // it says nothing to voters
}

// listen looks once a tick whether a majority still answers. Time in which this goroutine did not run does
// not count: the answers may be waiting to be read.
func (l *loop) listen() {
	now := l.s.lease.clock.now()
	paused := now.Sub(l.deaf.tickedAt) > pauseTicks*tickInterval
	l.deaf.tickedAt = now
	if l.deaf.steppedAside() {
		return // until the leadership is over
	}
	if !l.leading || l.s.moving.Load() || paused || !l.s.lease.lapsed() ||
		!othersCouldElect(l.conf, l.s.identity.Member) {
		l.deaf.ticks, l.deaf.hushed = 0, false
		return
	}
	l.deaf.ticks++
	// What is still under way would make the others take the leader back, so it falls silent a little before.
	l.deaf.hushed = l.deaf.ticks >= deafTicks-hushTicks
	if l.deaf.steppedAside() {
		l.makeWay()
	}
}

func (l *loop) makeWay() {
	l.s.cfg.Logger.Warn("making way for another leader", "why", "no majority answers")
	l.s.lease.revoke() // an answer that comes late must not renew it
	if l.s.Peers.out != nil {
		l.s.Peers.out.Shut(l.conf.Voters)
	}
}

// steppedAside reports whether this leader has ended its streams so that another can be elected.
func (d *deafness) steppedAside() bool { return d.ticks >= deafTicks }

// othersCouldElect reports whether the voters other than self are a majority. If they are not, they would only miss the
// leader.
func othersCouldElect(conf membership.Conf, self uint64) bool {
	others := len(conf.Voters) - 1
	return slices.Contains(conf.Voters, self) && others > len(conf.Voters)/2
}

// hearAgain forgets that this member was a deaf leader: it leads no more, and has to answer those who stand
// for election.
func (l *loop) hearAgain() {
	if l.deaf.steppedAside() && l.s.Peers.out != nil {
		l.s.Peers.out.Reopen()
	}
	l.deaf.ticks, l.deaf.hushed = 0, false
}

// hushes reports whether nothing may be sent to a member at the moment.
func (d *deafness) hushes(id uint64, conf membership.Conf) bool {
	return d.hushed && slices.Contains(conf.Voters, id)
}
