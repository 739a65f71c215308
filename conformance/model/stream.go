package model

import "time"

// Stream is one client's stream.
type Stream struct {
	model   *Model
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
// front-end, on which the message about a theft depends (§2.5).
func (m *Model) Open(server uint64) *Stream {
	s := &Stream{model: m, server: server}
	m.streams = append(m.streams, s)
	return s
}

// Replies takes what the server has sent since the last call.
func (s *Stream) Replies() []Reply {
	taken := s.replies
	s.replies = nil
	return taken
}

// Ending returns how the stream has ended, or Open.
func (s *Stream) Ending() Ending { return s.ending }

// Attaching reports whether the start is in flight. The stream must not be written to meanwhile, only closed.
func (s *Stream) Attaching() bool { return s.attaching && s.ending == Open }

// Session returns the id of the session the stream speaks for, or 0.
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
		s.fail(BadRequest, "Session cannot be started twice")
	case Empty:
		m.mark(markEmptyRequest)
		s.fail(BadRequest, "Empty request")
	case Unsupported:
		m.mark(markUnsupported)
		s.fail(BadRequest, "Unimplemented request")
	case Ping:
		m.mark(markClientPing)
		if r.Opaque != 0 && r.Opaque == s.outstanding {
			// The Python SDK answers a ping with a ping.
			m.mark(markPingAsPong)
			s.outstanding = 0
		}
		s.send(Reply{Kind: PongOut, Opaque: r.Opaque})
	case Pong:
		s.pong(r.Opaque)
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
		s.forget()
		return
	}
	m.mark(markClosed)
	sess := s.session
	m.abandonReads(s)
	s.forget()
	m.detach(sess)
}

// first is the first message of a stream (§2.3, rows 2 to 5; the rest is attach).
func (m *Model) first(s *Stream, r Request) {
	if r.Kind != Start {
		m.mark(markInvalidStart)
		s.ending = InvalidStart
		s.forget()
		return
	}
	s.path, s.seqNo = r.Path, r.SeqNo
	if len(components(r.Path)) == 0 {
		m.mark(markPathEmpty)
		s.end(BadRequest, "KesusPath cannot be empty")
		return
	}
	if m.node == nil || !m.samePlace(r.Path) {
		m.mark(markNodeNotFound)
		s.end(NotFound, "Kesus not found")
		return
	}
	m.attach(s, r)
}

// startPings sends the first ping; the others follow at fixed intervals (§2.7).
func (s *Stream) startPings(timeoutMillis uint64) {
	s.period = timeoutMillis / 3
	if s.period < 10 {
		s.model.mark(markPingShortest)
		s.period = 10
	}
	if s.period > 5000 {
		s.model.mark(markPingLongest)
		s.period = 5000
	}
	s.ping()
}

func (s *Stream) ping() {
	s.model.opaque++
	s.outstanding = s.model.opaque
	s.pingAt = s.model.after(s.period)
	s.send(Reply{Kind: PingOut, Opaque: s.outstanding})
}

func (s *Stream) pingDue() {
	if s.outstanding != 0 {
		s.model.mark(markPingTimeout)
		s.fail(Timeout, "Ping timeout")
		return
	}
	s.model.mark(markPingNext)
	s.ping()
}

// pong is accepted with the awaited number, which is 0 while nothing is awaited (§2.7).
func (s *Stream) pong(opaque uint64) {
	if opaque != s.outstanding {
		s.model.mark(markPongMismatch)
		s.fail(BadRequest, "Pong data mismatch")
		return
	}
	if opaque == 0 {
		s.model.mark(markPongZero)
	}
	s.outstanding = 0
}

// fail ends a stream by a mistake of its own; its session is detached.
func (s *Stream) fail(status Status, text string) {
	sess := s.session
	s.model.abandonReads(s)
	s.end(status, text)
	if sess != nil {
		s.model.detach(sess)
	}
}

// end ends a stream with a failure and leaves its session alone.
func (s *Stream) end(status Status, text string) {
	if s.ending != Open {
		return
	}
	s.send(Reply{Kind: Failure, Status: status, Text: text})
	s.ending = EndedOK
	s.forget()
}

// forget cuts an ended stream off from everything that could still reach it.
func (s *Stream) forget() {
	s.session = nil
	s.pingAt = nil
	s.outstanding = 0
	var rest []*Stream
	for _, other := range s.model.streams {
		if other != s {
			rest = append(rest, other)
		}
	}
	s.model.streams = rest
}

// send writes to a stream; behind its end nobody reads.
func (s *Stream) send(r Reply) {
	if s.ending != Open {
		return
	}
	r.Group, r.Block = s.model.group, s.model.block
	s.replies = append(s.replies, r)
}
