package coordination

import "slices"

// heldRoster is the roster of a stream that waits for the outcome of its session's end or absence. It lasts until the
// commands that end the session or its absence are applied, the stream goes away, or the Leader does.
type heldRoster struct {
	session *ledSession
	roster  *Roster
}

// counts takes account of a command in flight, on which it may depend what becomes of its session.
func (s *ledSession) counts(c Command, by int) {
	switch c.(type) {
	case *ExpireSession, *StopSession:
		s.ending += by
	case *BeginAbsence, *EndAbsence:
		s.absences += by
	}
}

// undecided reports whether a stream that comes back to the session has to wait.
func (s *ledSession) undecided() bool { return s.ending > 0 || s.absences > 0 }

// endInFlight reports whether the end of the session is on its way through the log. Such a session is not
// resumed, not attached without the log, and not taken for the one that a repeated start means.
func (s *ledSession) endInFlight() bool { return s.ending > 0 }

// hold keeps the stream waiting until nothing that ends its session, or concerns its absence, is in flight.
func (l *Leader) hold(a *attachment, s *ledSession, r *Roster) {
	a.held = &heldRoster{session: s, roster: r}
	s.held = append(s.held, a)
	l.streams[a.stream] = a
}

// drop forgets a stream that waits.
func (h *heldRoster) drop(a *attachment) {
	h.session.held = slices.DeleteFunc(h.session.held, func(other *attachment) bool { return other == a })
}

// resumeHeld resumes the streams that waited, once it is known what became of their session.
func (l *Leader) resumeHeld(now Instant, s *ledSession) {
	gone := s.node.sessions[s.id] != s
	if len(s.held) == 0 || s.undecided() && !gone {
		return
	}
	held := s.held
	s.held = nil
	for _, a := range held {
		delete(l.streams, a.stream)
		l.Resume(now, a.stream, a.held.roster)
		for i := range a.later {
			l.Request(now, a.stream, &a.later[i])
		}
	}
}
