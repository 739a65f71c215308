package streams

import "github.com/coordd/coordd/coordination"

// Link is the way from a stream to its leader: on this server, or over a relay. put never blocks;
// messages of one stream stay in order.
type Link interface {
	put(s *Stream, f coordination.Forward)
	// MaySpeak reports whether the leader behind the link lets this server say to clients what they take for
	// a sign that their sessions live. It is asked just before a message is sent. The Front keeps silent
	// besides until that leader has answered for the session.
	MaySpeak() bool
}

// Local leads to the leader on this server, during one reign.
type Local struct {
	core  Core
	reign coordination.Reign
	term  coordination.Term
	gone  chan struct{} // closed when this server leads no more
}

// NewLocal returns the link to the leader that core has in a reign.
func NewLocal(core Core, reign coordination.Reign, term coordination.Term) *Local {
	return &Local{core: core, reign: reign, term: term, gone: make(chan struct{})}
}

// End ends the reign on this server: its relays end.
func (l *Local) End() { close(l.gone) }

func (l *Local) put(s *Stream, f coordination.Forward) {
	l.core.Put(Forwarded{Reign: l.reign, Sink: s, ID: s.id, Forward: f})
}

// MaySpeak implements Link: a majority has confirmed lately that this server leads.
func (l *Local) MaySpeak() bool { return l.core.MaySpeak() }

// Sink is where the leader's messages for one stream go.
type Sink interface {
	deliver(from Link, m *coordination.Message)
}

// Forwarded is a message of a stream on its way to the leader of a reign.
type Forwarded struct {
	Reign   coordination.Reign // of the leader that this is for
	Sink    Sink
	ID      coordination.StreamID
	Forward coordination.Forward
}

// EventBytes is the size in the queue of anything but a request of a stream.
const EventBytes = 256

// Size returns what it counts while it waits.
func (s *Forwarded) Size() int {
	if r := s.Forward.Request; r != nil {
		return r.Bytes()
	}
	return EventBytes
}
