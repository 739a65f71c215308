package group

import (
	"time"

	"github.com/coordd/coordd/coordination"
)

// This file is for whoever turns the rings' clock: has everything been done that was due?

// Stillness is whether a group has anything left to do, as long as nobody asks for anything and time stands
// still.
type Stillness struct {
	// Waits is what is not done yet, empty if nothing is.
	Waits string
	// Applied is the last entry that was executed.
	Applied uint64
	// Sent and Heard count messages on each relay, as long as it is open: what one end has sent and the other
	// not heard is under way.
	Sent, Heard map[RelayEnd]uint64
	// Turns counts what was done: between two looks at groups that are still nothing was if it is the same.
	Turns uint64
	// Unanswered are the clients that have something to read, or a ping to answer.
	Unanswered []Unanswered
}

// RelayEnd names one direction of a relay between two members.
type RelayEnd struct {
	Process, Number uint64 // of the server that has opened it
	ToLeader        bool
}

// Unanswered is a client's stream that waits for it.
type Unanswered struct {
	Stream coordination.StreamID
	// Opaque is that of the ping, 0 if there is none.
	Opaque uint64
}

// Still looks at the group as it is now.
func (g *Group) Still() Stillness {
	s := Stillness{Sent: make(map[RelayEnd]uint64), Heard: make(map[RelayEnd]uint64)}
	s.Waits = g.unfinished()
	s.Applied, s.Turns = g.applied.Load(), g.turns.Load()
	g.streams.countRelayed(&s)
	g.relays.countRelayed(&s)
	for _, stream := range g.streams.all() {
		stream.unanswered(&s)
	}
	return s
}

// unfinished is what a turn would have to do.
func (g *Group) unfinished() string {
	g.turn.Lock()
	defer g.turn.Unlock()
	switch {
	case g.closed:
		return ""
	case g.Abdicated():
		return g.limiter.unfinished()
	case !g.streams.led():
		return "there is no leader"
	case g.queue.length() > 0 || !g.queue.empty():
		return "the queue is not empty"
	case g.inFlight > 0 || g.companyUntil != coordination.Never:
		return "something is on its way into the log"
	case len(g.unsaid.waiting) > 0:
		return "something is not said yet"
	case len(g.reads) > 0 || len(g.barriers) > 0:
		return "somebody reads"
	case g.replica.NextDeadline() <= g.clock.Now():
		return "something is due"
	}
	return g.limiter.unfinished()
}

// unfinished is what the limiter's goroutine, or a call that waited for units, would have to do.
func (l *limiter) unfinished() string {
	now := l.group.clock.Now()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch next := l.next(); {
	case l.stopped:
		return ""
	case l.wakeAt <= now || next <= now:
		return "units are to be shared out"
	case next < l.wakeAt:
		return "the rate limiter has to set its clock"
	case len(l.queue) > 0:
		return "resources are looked up"
	case l.leaving > 0:
		return "a wait for units has ended"
	}
	return ""
}

// unanswered adds what the stream waits for.
func (s *Stream) unanswered(still *Stillness) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch {
	case s.ended:
		return
	case s.front.Awaits() && still.Waits == "" && !s.group.Abdicated():
		still.Waits = "a request is not answered"
	}
	if opaque := s.front.Unanswered(); opaque != 0 || s.front.Queued() > 0 {
		still.Unanswered = append(still.Unanswered, Unanswered{s.id, opaque})
	}
}

func (set *streamSet) countRelayed(still *Stillness) {
	set.mutex.Lock()
	r, is := set.link.(*relay)
	set.mutex.Unlock()
	if !is {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	still.Sent[RelayEnd{r.process, r.number, true}] = r.sentCount
	still.Heard[RelayEnd{r.process, r.number, false}] = r.heardCount
}

func (r *relayPeers) countRelayed(still *Stillness) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, p := range r.open {
		p.mutex.Lock()
		still.Heard[RelayEnd{p.process, p.number, true}] = p.heardCount
		still.Sent[RelayEnd{p.process, p.number, false}] = p.sentCount
		p.mutex.Unlock()
	}
}

// remindMost is how long it takes until a stream is looked at again that has no client to remind yet.
const remindMost = 100 * time.Millisecond

// startReminding keeps a client content whose pings come by a clock that somebody turns: it goes by the real
// one, and would take the server for dead. The mutex is held.
func (s *Stream) startReminding() {
	if s.group.config.Remind != nil && s.reminder == nil {
		s.reminder = time.AfterFunc(s.remindPause(), s.remind)
	}
}

// remindPause is how long until the next look. The mutex is held.
func (s *Stream) remindPause() time.Duration {
	if pause := s.front.RemindMillis(); pause != 0 {
		return time.Duration(pause) * time.Millisecond
	}
	return remindMost
}

func (s *Stream) remind() {
	defer func() {
		if reason := recover(); reason != nil {
			s.client.Panicked(reason)
		}
	}()
	if s.remindNow().Detach {
		s.group.kick()
	}
}

func (s *Stream) remindNow() coordination.Forward {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.ended || s.reminder == nil {
		return coordination.Forward{}
	}
	var forward coordination.Forward
	if s.group.config.Remind() {
		s.mute()
		forward = s.front.Remind(s.group.clock.Now())
		s.settle(forward)
	}
	s.reminder.Reset(s.remindPause())
	return forward
}
