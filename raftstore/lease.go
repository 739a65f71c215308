package raftstore

import (
	"encoding/binary"
	"sync/atomic"
	"time"
)

// lease is until when this member may act as the leader. Others read it while the holder of the turn writes
// it.
type lease struct {
	clock clock
	base  time.Time    // what until counts from
	until atomic.Int64 // nanoseconds after base; 0 is none
	// wall is the time of day, in nanoseconds since 1970, at which the lease ends besides. The monotonic
	// clock stands still while a machine sleeps, and while it is moved; the time of day is put right then.
	wall atomic.Int64

	// Of the holder of the turn: rounds of questions that a majority has not answered yet, and the number of the last.
	rounds    []leaseRound
	lastRound uint64
}

// holds reports whether a lease that ends at until is good. One that the time of day has passed by a jump is
// not, however little time seems to have passed; a jump backwards does not lengthen it.
func (l *lease) holds(until int64) bool {
	now := l.clock.now()
	return now.Sub(l.base) < time.Duration(until) && now.UnixNano() < l.wall.Load()
}

// extend has the lease end then. A reader that sees one of the two values only sees the shorter lease.
func (l *lease) extend(until time.Time) {
	l.wall.Store(until.UnixNano())
	l.until.Store(int64(until.Sub(l.base)))
}

// leaseAlone is a lease without end: there is nobody else who could lead.
const leaseAlone = -1

// MaySpeak reports whether this member leads and a majority has confirmed that lately. Without it a leader
// must say nothing that implies that a session lives. It is cheap.
func (s *Store) MaySpeak() bool {
	switch until := s.lease.until.Load(); until {
	case 0:
		return false
	case leaseAlone:
		return true
	default:
		return s.lease.holds(until)
	}
}

// lapsed reports whether this member had a lease in this term and has let it run out.
func (l *lease) lapsed() bool {
	until := l.until.Load()
	return until > 0 && !l.holds(until)
}

// leaseRound is one question to the others whether this member still leads.
type leaseRound struct {
	id    uint64
	begun time.Time
}

// leaseQuestion marks our own read questions; those of the handler have 8 bytes.
const leaseQuestion = 'L'

// confirmLease asks the others once more whether they follow this leader. A majority of answers extends the
// lease, which is counted from the moment before the question was sent.
func (l *loop) confirmLease() {
	if !l.leading || !l.caughtUp || l.s.moving.Load() || l.deaf.steppedAside() {
		return
	}
	if l.conf.Alone(l.s.identity.Member) {
		l.s.lease.until.Store(leaseAlone)
		return
	}
	if l.s.lease.until.Load() == leaseAlone {
		l.s.lease.until.Store(0)
	}
	l.node.ReadIndex(l.s.lease.ask())
}

// ask begins a round, and returns its question.
func (l *lease) ask() []byte {
	now := l.clock.now()
	for len(l.rounds) > 0 && now.Sub(l.rounds[0].begun) > LeaseWindow {
		l.rounds = l.rounds[1:]
	}
	l.lastRound++
	l.rounds = append(l.rounds, leaseRound{l.lastRound, now})
	return binary.LittleEndian.AppendUint64([]byte{leaseQuestion}, l.lastRound)
}

// confirmed notes that a majority has answered a round.
func (l *lease) confirmed(id uint64) {
	for i, r := range l.rounds {
		if r.id == id {
			l.extend(r.begun.Add(LeaseWindow))
			l.rounds = l.rounds[i+1:]
			return
		}
	}
}

// revoke gives the lease up and forgets questions under way.
func (l *lease) revoke() {
	l.until.Store(0)
	l.rounds = nil
}
