package group

import "github.com/coordd/coordd/coordination"

// leaderLink is the way from a stream to its leader: on this server, or over a relay. put never blocks;
// messages of one stream stay in order.
type leaderLink interface {
	put(s *Stream, f coordination.Forward)
	// maySpeak reports whether the leader behind the link lets this server say to clients what they take for
	// a sign that their sessions live. It is asked just before a message is sent. The Front keeps silent
	// besides until that leader has answered for the session.
	maySpeak() bool
}

// localLink leads to the leader on this server, during one reign.
type localLink struct {
	group *Group
	reign coordination.Reign
	term  coordination.Term
	gone  chan struct{} // closed when this server leads no more
}

func (l *localLink) put(s *Stream, f coordination.Forward) {
	l.group.queue.put(event{reign: l.reign, sink: s, id: s.id, forward: f})
}

// maySpeak implements leaderLink: a majority has confirmed lately that this server leads.
func (l *localLink) maySpeak() bool { return l.group.lease.MaySpeak() }

// sink is where the leader's messages for one stream go.
type sink interface {
	deliver(from leaderLink, m *coordination.Message)
}
