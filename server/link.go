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
type localLink struct{ group *group }

func (l *localLink) put(s *sessionStream, f coordination.Forward) {
	l.group.queue.put(event{link: l, sink: s, id: s.id, forward: f})
}

// sink is where the leader's messages for one stream go.
type sink interface {
	deliver(from leaderLink, m *coordination.Message)
}

// voice is this server's right to say to clients what they take for a sign that their sessions live.
type voice struct {
	clock clock
	until atomic.Int64 // coordination.Instant
}

func newVoice(c clock) *voice {
	v := &voice{clock: c}
	v.until.Store(int64(coordination.Never))
	return v
}

// maySpeak is asked just before a message is sent.
func (v *voice) maySpeak() bool {
	until := coordination.Instant(v.until.Load())
	return until == coordination.Never || v.clock.now() < until
}
