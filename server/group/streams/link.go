package streams

import "github.com/coordd/coordd/coordination"

// Link is the way from a stream to its leader: on this server, or over a relay. put never blocks;
// messages of one stream stay in order.
type Link interface {
	put(s *Stream, f coordination.Forward)
	// MaySpeak reports whether the leader behind the link lets this server speak to clients, which take every message
	// for a sign that their sessions live. It is called just before a message is sent. Independently of it the Front
	// is silent until that leader has answered for the session.
	MaySpeak() bool
}

// Local leads to the leader on this server, during one reign.
type Local struct {
	core  Core
	reign coordination.Reign
	term  coordination.Term
	gone  chan struct{} // closed when the reign ends
}

// NewLocal returns the link to the leader that core has in a reign.
func NewLocal(core Core, reign coordination.Reign, term coordination.Term) *Local {
	return &Local{core: core, reign: reign, term: term, gone: make(chan struct{})}
}

// End notes that the reign is over, which ends the relays of other servers (Peers.Exchange).
func (l *Local) End() { close(l.gone) }

func (l *Local) put(s *Stream, f coordination.Forward) {
	l.core.Put(Forwarded{Reign: l.reign, Sink: s, ID: s.id, Forward: f})
}

// MaySpeak implements Link: a majority has confirmed lately that this server leads.
func (l *Local) MaySpeak() bool { return l.core.MaySpeak() }

// Sink receives the leader's messages for one stream: a Stream, or a RemoteStream on another server.
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

// EventBytes is the size in the queue of everything except requests of streams.
const EventBytes = 256

// Size returns the size of s in the queue.
func (s *Forwarded) Size() int {
	if r := s.Forward.Request; r != nil {
		return r.Bytes()
	}
	return EventBytes
}
