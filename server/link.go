package server

import (
	"sync/atomic"

	"github.com/coordd/coordd/coordination"
)

// leaderLink is the way from a stream to its leader: on this server, or over a relay. put never blocks; messages of one
// stream stay in order.
type leaderLink interface {
	put(s *sessionStream, f coordination.Forward)
}

// localLink leads to the leader on this server, during one term.
type localLink struct {
	group *group
	gone  chan struct{} // closed when this server leads no more
}

func (l *localLink) put(s *sessionStream, f coordination.Forward) {
	l.group.queue.put(event{link: l, sink: s, id: s.id, forward: f})
}

// sink is where the leader's messages for one stream go.
type sink interface {
	deliver(from leaderLink, m *coordination.Message)
}

// voice is this server's right to say to clients what they take for a sign that their sessions live: while it leads and
// a majority has confirmed that lately, or while the leader has given it leave.
type voice struct {
	clock clock
	store interface{ MaySpeak() bool }
	leave atomic.Int64 // coordination.Instant until which the leader's leave is good
}

// extend notes the leader's leave.
func (v *voice) extend(until coordination.Instant) { v.leave.Store(int64(until)) }

// maySpeak is asked just before a message is sent.
func (v *voice) maySpeak() bool {
	return v.store.MaySpeak() || v.clock.now() < coordination.Instant(v.leave.Load())
}
