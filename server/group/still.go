package group

import (
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group/streams"
)

// This file detects quiescence, for tests and stand-ins that turn the rings' clock by hand: it may be turned on once
// everything is done that was due.

// Stillness is a snapshot of the work that a group has left, as long as no request comes and the clock stands still.
type Stillness struct {
	// Waits names the work that is left, empty without any.
	Waits string
	// Applied is the last entry that was executed.
	Applied uint64
	// Sent and Heard count messages on each relay that is open: the difference between its two ends is under way.
	Sent, Heard map[streams.RelayEnd]uint64
	// Turns counts turns: if two snapshots have the same number, nothing was done in between.
	Turns uint64
	// Unanswered are the clients that have something to read, or a ping to answer.
	Unanswered []streams.Unanswered
}

// Still returns a snapshot. It waits for the turn.
func (g *Group) Still() Stillness {
	s := Stillness{Sent: make(map[streams.RelayEnd]uint64), Heard: make(map[streams.RelayEnd]uint64)}
	s.Waits = g.unfinished()
	s.Applied, s.Turns = g.applied.Load(), g.turns.Load()
	streams.Count(g.streams.Present(), s.Sent, s.Heard)
	g.relays.Count(s.Sent, s.Heard)
	var awaits bool
	if s.Unanswered, awaits = g.streams.Unanswered(); awaits && s.Waits == "" && !g.Abdicated() {
		s.Waits = "a request is not answered"
	}
	return s
}

// unfinished names the work that a turn would have to do.
func (g *Group) unfinished() string {
	c := g.hold(g.turn.Lock())
	defer g.turn.Unlock()
	switch {
	case c.closed:
		return ""
	case g.Abdicated():
		return g.limiter.Unfinished()
	case !g.streams.Led():
		return "there is no leader"
	case g.queue.length() > 0 || !g.queue.empty():
		return "the queue is not empty"
	case c.inFlight > 0 || c.companyUntil != coordination.Never:
		return "something is on its way into the log"
	case c.unsaid.Length() > 0:
		return "something is not said yet"
	case len(c.reads) > 0 || len(c.barriers) > 0:
		return "somebody reads"
	case c.replica.NextDeadline() <= g.clock.Now():
		return "something is due"
	case c.due.RanOut(): // for what is due later by now: the turn that it asks for sets it anew
		return "an alarm has gone off"
	}
	return g.limiter.Unfinished()
}
