// Package lease is until when a leader may act as one: a majority confirms it again and again, and each
// confirmation is good for a while from the moment before the question was sent.
package lease

import (
	"encoding/binary"
	"sync/atomic"
	"time"
)

// Window is the time for which a confirmed leadership is good, from the beginning of the confirming
// round. It is so much shorter than an election that no other member can have won one meanwhile, even if
// both clocks are wrong by 5 %, and a tick was about to happen: 0.85 s / 0.95 < 19 * 50 ms / 1.05. DESIGN.md
// of raftstore has the exceptions.
const Window = 850 * time.Millisecond

// Lease is for one goroutine at a time, except Holds.
type Lease struct {
	now   func() time.Time // has a monotonic reading
	base  time.Time        // what until counts from
	until atomic.Int64     // nanoseconds after base; 0: no lease
	// wall is the time of day, in nanoseconds since 1970, at which the lease ends besides. The monotonic
	// clock stands still while a machine sleeps, and while it is moved; the time of day is put right then.
	wall atomic.Int64

	// rounds are the questions that a majority has not answered yet, lastRound the number of the last.
	rounds    []round
	lastRound uint64
}

// round is one question to the others whether this member still leads.
type round struct {
	id    uint64
	begun time.Time
}

// alone is a lease without end: there is nobody else who could lead.
const alone = -1

// question marks a lease's own among the read questions of raft.
const question = 'L'

// Begin sets the clock, before anything else.
func (l *Lease) Begin(now func() time.Time) { l.now, l.base = now, now() }

// Holds reports whether there is a lease now. It is cheap.
func (l *Lease) Holds() bool {
	until := l.until.Load()
	return until == alone || until != 0 && l.holds(until)
}

// holds reports whether a lease that ends at until is good. One that the time of day has passed by a jump is
// not, however little time seems to have passed; a jump backwards does not lengthen it.
func (l *Lease) holds(until int64) bool {
	now := l.now()
	return now.Sub(l.base) < time.Duration(until) && now.UnixNano() < l.wall.Load()
}

// Lapsed reports whether this member had a lease in this term and has let it run out.
func (l *Lease) Lapsed() bool {
	until := l.until.Load()
	return until > 0 && !l.holds(until)
}

// Extend sets the end of the lease. A reader that sees one of the two values only sees the shorter lease.
func (l *Lease) Extend(until time.Time) {
	l.wall.Store(until.UnixNano())
	l.until.Store(int64(until.Sub(l.base)))
}

// Alone gives a lease without end, or ends one.
func (l *Lease) Alone(yes bool) {
	if yes {
		l.until.Store(alone)
	} else {
		l.until.CompareAndSwap(alone, 0)
	}
}

// Ask begins a round, and returns its question.
func (l *Lease) Ask() []byte {
	now := l.now()
	for len(l.rounds) > 0 && now.Sub(l.rounds[0].begun) > Window {
		l.rounds = l.rounds[1:]
	}
	l.lastRound++
	l.rounds = append(l.rounds, round{l.lastRound, now})
	return binary.LittleEndian.AppendUint64([]byte{question}, l.lastRound)
}

// Answered notes that a majority has answered a question, if Ask has made it.
func (l *Lease) Answered(asked []byte) {
	if len(asked) != 9 || asked[0] != question {
		return
	}
	id := binary.LittleEndian.Uint64(asked[1:])
	for i, r := range l.rounds {
		if r.id == id {
			l.Extend(r.begun.Add(Window))
			l.rounds = l.rounds[i+1:]
			return
		}
	}
}

// Revoke gives the lease up and forgets questions under way.
func (l *Lease) Revoke() {
	l.until.Store(0)
	l.rounds = nil
}
