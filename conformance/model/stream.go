package model

import "time"

// Stream is one client's stream.
type Stream struct {
	server  uint64
	path    string // as the client wrote it
	seqNo   uint64
	session *session // nil before the start and after the end
	ending  Ending

	attaching bool // the start is in flight: nothing more is read

	period      uint64         // milliseconds between pings
	pingAt      *time.Duration // nil while none is due
	outstanding uint64         // the ping to be answered, 0 if it was

	reads   int    // strict describes that are not answered
	waiting []call // for these

	replies []Reply
}

// Open opens a stream on a server. Streams with the same server and the same spelling of the path share a
// front-end, which decides how a theft is told (§2.5).
func (m *Model) Open(server uint64) *Stream {
	s := &Stream{server: server}
	m.streams = append(m.streams, s)
	return s
}

// Replies takes what the server has sent since the last call.
func (s *Stream) Replies() []Reply {
	taken := s.replies
	s.replies = nil
	return taken
}

// Ending is how the stream has ended, Open if it has not.
func (s *Stream) Ending() Ending { return s.ending }

// Attaching reports whether the start is in flight. The stream must not be written to meanwhile, only closed.
func (s *Stream) Attaching() bool { return s.attaching && s.ending == Open }

// Session is the id of the session the stream speaks for, 0 if none.
func (s *Stream) Session() uint64 {
	if s.session == nil {
		return 0
	}
	return s.session.id
}

// Send hands over a client's message. What comes behind the stream's end is not read.
func (m *Model) Send(s *Stream, r Request) {
	if s.ending != Open {
		m.mark(markSentBehindEnd)
		return
	}
	if s.session == nil {
		m.first(s, r)
		return
	}
	switch r.Kind {
	case Start:
		m.mark(markStartedTwice)
		m.fail(s, BadRequest, "Session cannot be started twice")
	case Empty:
		m.mark(markEmptyRequest)
		m.fail(s, BadRequest, "Empty request")
	case Unsupported:
		m.mark(markUnsupported)
		m.fail(s, BadRequest, "Unimplemented request")
	case Ping:
		m.mark(markClientPing)
		if r.Opaque != 0 && r.Opaque == s.outstanding {
			// The Python SDK answers a ping with a ping.
			m.mark(markPingAsPong)
			s.outstanding = 0
		}
		m.send(s, Reply{Kind: PongOut, Opaque: r.Opaque})
	case Pong:
		m.pong(s, r.Opaque)
	default:
		m.ask(s, r)
	}
}

// Close is the client closing its side, cancelling, or vanishing (§2.9).
func (m *Model) Close(s *Stream) {
	if s.ending != Open {
		return
	}
	s.ending = Abandoned
	if s.session == nil {
		if !s.attaching {
			m.mark(markClosedBeforeStart)
		}
		m.forget(s)
		return
	}
	m.mark(markClosed)
	sess := s.session
	m.abandonReads(s)
	m.forget(s)
	m.detach(sess)
}

// first is the first message of a stream (§2.3, rows 2 to 5; the rest is attach).
func (m *Model) first(s *Stream, r Request) {
	if r.Kind != Start {
		m.mark(markInvalidStart)
		s.ending = InvalidStart
		m.forget(s)
		return
	}
	s.path, s.seqNo = r.Path, r.SeqNo
	if len(components(r.Path)) == 0 {
		m.mark(markPathEmpty)
		m.end(s, BadRequest, "KesusPath cannot be empty")
		return
	}
	if m.node == nil || !m.samePlace(r.Path) {
		m.mark(markNodeNotFound)
		m.end(s, NotFound, "Kesus not found")
		return
	}
	m.attach(s, r)
}

// startPings sends the first ping; the others follow at fixed intervals (§2.7).
func (m *Model) startPings(s *Stream, timeoutMillis uint64) {
	s.period = timeoutMillis / 3
	if s.period < 10 {
		m.mark(markPingShortest)
		s.period = 10
	}
	if s.period > 5000 {
		m.mark(markPingLongest)
		s.period = 5000
	}
	m.ping(s)
}

func (m *Model) ping(s *Stream) {
	m.opaque++
	s.outstanding = m.opaque
	s.pingAt = m.after(s.period)
	m.send(s, Reply{Kind: PingOut, Opaque: s.outstanding})
}

func (m *Model) pingDue(s *Stream) {
	if s.outstanding != 0 {
		m.mark(markPingTimeout)
		m.fail(s, Timeout, "Ping timeout")
		return
	}
	m.mark(markPingNext)
	m.ping(s)
}

// pong is accepted with the awaited number, which is 0 while nothing is awaited (§2.7).
func (m *Model) pong(s *Stream, opaque uint64) {
	if opaque != s.outstanding {
		m.mark(markPongMismatch)
		m.fail(s, BadRequest, "Pong data mismatch")
		return
	}
	if opaque == 0 {
		m.mark(markPongZero)
	}
	s.outstanding = 0
}

// fail ends a stream by a mistake of its own; its session is detached.
func (m *Model) fail(s *Stream, status Status, text string) {
	sess := s.session
	m.abandonReads(s)
	m.end(s, status, text)
	if sess != nil {
		m.detach(sess)
	}
}

// end ends a stream with a failure and leaves its session alone.
func (m *Model) end(s *Stream, status Status, text string) {
	if s.ending != Open {
		return
	}
	m.send(s, Reply{Kind: Failure, Status: status, Text: text})
	s.ending = EndedOK
	m.forget(s)
}

// forget cuts an ended stream off from everything that could still reach it.
func (m *Model) forget(s *Stream) {
	s.session = nil
	s.pingAt = nil
	s.outstanding = 0
	var rest []*Stream
	for _, other := range m.streams {
		if other != s {
			rest = append(rest, other)
		}
	}
	m.streams = rest
}

// send writes to a stream; behind its end nobody reads.
func (m *Model) send(s *Stream, r Reply) {
	if s.ending != Open {
		return
	}
	r.Group, r.Block = m.group, m.block
	s.replies = append(s.replies, r)
}
