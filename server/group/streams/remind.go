package streams

import (
	"time"

	"github.com/coordd/coordd/coordination"
)

// This file pings clients by the real clock while the clock of the rings is turned by hand.

// Unanswered is a stream that waits for its client.
type Unanswered struct {
	Stream coordination.StreamID
	// Opaque is that of the ping, 0 without one.
	Opaque uint64
}

// Unanswered returns the clients that have something to read or to answer, and whether any awaits an answer.
func (set *Set) Unanswered() (list []Unanswered, awaits bool) {
	for _, s := range set.All() {
		s.mutex.Lock()
		if !s.ended {
			awaits = awaits || s.front.Awaits()
			if opaque := s.front.Unanswered(); opaque != 0 || s.front.Queued() > 0 {
				list = append(list, Unanswered{s.id, opaque})
			}
		}
		s.mutex.Unlock()
	}
	return list, awaits
}

// remindMost is the pause before the next look at a stream that has no client to remind yet.
const remindMost = 100 * time.Millisecond

// startReminding begins to ping the client by the real clock, if the rings' clock may stand still: without pings the
// client, which goes by the real one, would take the server for dead. The mutex is held.
func (s *Stream) startReminding() {
	if s.set.config.Remind != nil && s.reminder == nil {
		s.reminder = time.AfterFunc(s.remindPause(), s.remind)
	}
}

// remindPause returns the time until the next look. The mutex is held.
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
		s.set.config.Core.Kick()
	}
}

func (s *Stream) remindNow() coordination.Forward {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.ended || s.reminder == nil {
		return coordination.Forward{}
	}
	var forward coordination.Forward
	if s.set.config.Remind() {
		s.mute()
		forward = s.front.Remind(s.set.config.Clock.Now())
		s.settle(forward)
	}
	s.reminder.Reset(s.remindPause())
	return forward
}
