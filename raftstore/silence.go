package raftstore

import (
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/roster"
)

// A leader that hears nobody and is still heard keeps the others from electing another: they hear it, and
// raft takes up to two election timeouts to notice on this side and one more on theirs. Raft has no call to step down.
// So such a leader behaves like a killed one: it ends its urgent streams and sends nothing any more. Then the others
// forget it and ask each other, see loop.lost.

// deafness tracks how long a leader has received nothing.
type deafness struct {
	ticks    int // in a row without the lease that it had
	tickedAt time.Time
	hushed   bool // it says nothing to voters
}

// listen looks once a tick whether a majority still answers. Time in which this goroutine did not run does
// not count: the answers may be waiting to be read.
func (l *loop) listen() {
	now := l.s.cfg.Cluster.clock.now()
	paused := now.Sub(l.deaf.tickedAt) > pauseTicks*tickInterval
	l.deaf.tickedAt = now
	if l.deaf.steppedAside() {
		return // until the leadership is over
	}
	if !l.leading || l.s.moving.Load() || paused || !l.s.lease.Lapsed() ||
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

// confirmLease asks the others once more whether they follow this leader. A majority of answers extends the
// lease, which is counted from the moment before the question was sent.
func (l *loop) confirmLease() {
	if !l.leading || !l.caughtUp || l.s.moving.Load() || l.deaf.steppedAside() {
		return
	}
	alone := l.conf.Alone(l.s.identity.Member)
	l.s.lease.Alone(alone)
	if !alone {
		l.node.ReadIndex(l.s.lease.Ask())
	}
}

func (l *loop) makeWay() {
	l.s.cfg.Logger.Warn("making way for another leader", "why", "no majority answers")
	l.s.lease.Revoke() // an answer that comes late must not renew it
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

// doubts are the reasons of the loop to have other members asked for the members of the cluster.
type doubts struct {
	heardAt int    // the last tick with a leader that was heard
	sender  uint64 // the sender that doubt is about; 0: no sender
	asked   uint64 // how often others had been asked by then
}

// watch makes a member without a leader that it hears ask for the members of the cluster: it may have missed a removal.
// From the moment at which it has been without one for long it hears nobody until it has been answered.
// Asking begins earlier, so that where members answer nothing is lost.
func (d *doubts) watch(led bool, now int, r *roster.Roster) {
	if led {
		d.heardAt = now
		return
	}
	switch silent := now - d.heardAt; {
	case silent%leaderlessTicks == leaderlessTicks/2:
		r.Ask()
	case silent == leaderlessTicks:
		r.Shut()
	}
}

// forgetOutsiders forgets what former members have sent.
func (l *loop) forgetOutsiders() {
	list := l.s.Peers.roster.List()
	maps.DeleteFunc(l.heard, func(id uint64, _ int) bool { return !list.Admits(id) })
	maps.DeleteFunc(l.headers, func(id uint64, _ *peerpb.Header) bool { return !list.Admits(id) })
}

// emptied deals with a leader that counts on more than this member has: either this member's directory was
// emptied, or the sender was removed and lies. So members are asked first; if the sender is one nevertheless,
// it reports true.
func (d *doubts) emptied(from uint64, r *roster.Roster) bool {
	asked := r.Concluded()
	if d.sender != from {
		d.sender, d.asked = from, asked
	}
	if asked > d.asked {
		return true
	}
	r.Ask()
	return false
}

// binds reports whether a member must not forget that it has sent a message of this type. Pre-votes promise nothing.
func binds(t pb.MessageType) bool { return t != pb.MsgPreVote && t != pb.MsgPreVoteResp }
