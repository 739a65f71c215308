package model

import "time"

type session struct {
	id            uint64
	timeoutMillis uint64
	description   string
	key           string
	seqNo         uint64
	stream        *Stream        // nil while detached
	expires       *time.Duration // nil while attached
	inFlight      int            // requests, expiries and starts about it
	attaching     bool           // a start that asks for it is in flight
	stopping      bool           // its stop is in flight
	expiring      bool           // its countdown has run out, and its end is in flight
	restarted     bool           // not attached since the last leader restart
	detached      time.Duration  // since when
	absentDue     *time.Duration // when the log is to hear of it; nil if it has, or the session is attached
	absence       *absence       // as the log knows it
}

// attach executes the front-end's part of a start, rows 8 and 9 of §2.3, before the leader has its turn.
func (m *Model) attach(s *Stream, r Request) {
	if sess := m.findSession(r.Session); sess != nil && sess.sameFrontEnd(s) {
		if r.SeqNo < sess.stream.seqNo {
			m.mark(markSeqLowerThanLocal)
			s.end(BadSession, "Attach request is out of sequence")
			return
		}
		if sess.stopping {
			m.mark(markBeingDestroyed)
			s.end(SessionExpired, "Session is already being destroyed")
			return
		}
	}
	sess := m.findSession(r.Session)
	if sess != nil {
		if m.held && m.attachesUnlogged(sess, r) {
			m.mark(markAttachOvertakes)
			m.attachInTurn(s, r)
			return
		}
		sess.attaching = true
	}
	s.attaching = true
	m.later(sess, func() { m.attachInTurn(s, r) })
}

// attachesUnlogged is the relaxed mode of §4.5: nothing durable changes, so there is nothing to wait for. It is
// not for a session that another stream has, or may have: one of an earlier leader's.
func (m *Model) attachesUnlogged(sess *session, r Request) bool {
	return m.node.config.attachesRelaxed() && sess.inFlight == 0 && sess.stream == nil && !sess.restarted &&
		sess.absence == nil && sess.timeoutMillis == r.TimeoutMillis && sess.description == r.Description
}

// sameFrontEnd reports whether the session has a stream that shares a front-end with another.
func (sess *session) sameFrontEnd(s *Stream) bool {
	old := sess.stream
	return old != nil && old.ending == Open && old.server == s.server && old.path == s.path
}

// attachInTurn executes the leader's part of a start, rows 12 to 18 of §2.3 in their order.
func (m *Model) attachInTurn(s *Stream, r Request) {
	s.attaching = false
	sess := m.findSession(r.Session)
	if sess != nil {
		sess.attaching = false
	}
	switch {
	case r.TimeoutMillis > 1800000:
		m.mark(markSessionTimeoutRange)
		s.end(BadRequest, "Session timeout is out of range")
	case len(r.Description) > 1024:
		m.mark(markDescriptionTooLarge)
		s.end(BadRequest, "Description is too large")
	case len(r.ProtectionKey) > 16:
		m.mark(markKeyTooLarge)
		s.end(BadRequest, "Protection key is too large")
	case r.Session == 0:
		m.attachNew(s, r)
	case sess == nil:
		m.mark(markSessionMissing)
		s.end(SessionExpired, "Session does not exist")
	case r.SeqNo < sess.seqNo:
		m.mark(markSeqLower)
		s.end(BadSession, "Attach request is out of sequence")
	case sess.key != "" && sess.key != r.ProtectionKey:
		m.mark(markKeyMismatch)
		s.end(BadSession, "Attach request protection key mismatch")
	default:
		m.restore(s, sess, r)
	}
}

func (m *Model) attachNew(s *Stream, r Request) {
	if len(m.node.sessions) >= m.limits.Sessions {
		m.mark(markTooManySessions)
		s.end(PreconditionFailed, "Too many sessions already exist")
		return
	}
	if why := m.full(sessionCharge + len(r.Description) + len(r.ProtectionKey)); why != "" {
		m.mark(markSessionNoRoom)
		s.end(PreconditionFailed, why)
		return
	}
	m.mark(markSessionNew)
	m.node.lastSession++
	sess := &session{id: m.node.lastSession, key: r.ProtectionKey}
	m.node.sessions = append(m.node.sessions, sess)
	m.attached(s, sess, r)
	if s.ending != Open {
		// Nobody will ever know its id (§2.9).
		m.mark(markAbandonedNew)
		s.forget()
		sess.stream = nil
		m.endSession(sess)
	}
}

func (m *Model) restore(s *Stream, sess *session, r Request) {
	if r.ProtectionKey != sess.key {
		m.mark(markAnyKeyAccepted)
	}
	if r.SeqNo == sess.seqNo {
		m.mark(markSeqEqual)
	}
	old := sess.stream
	switch {
	case old == nil:
		m.mark(markRestored)
	case sess.sameFrontEnd(s):
		m.mark(markStolenLocal)
		old.end(BadSession, "Session stolen by another local client")
	default:
		m.mark(markStolenRemote)
		old.end(BadSession, "Session stolen by another remote client")
	}
	m.attached(s, sess, r)
	if s.ending != Open {
		m.mark(markAbandonedRestored)
		s.forget()
		m.detach(sess)
	}
}

// attached is the common end of a new and of a restored session.
func (m *Model) attached(s *Stream, sess *session, r Request) {
	sess.timeoutMillis = r.TimeoutMillis
	if m.full(len(r.Description)-len(sess.description)) == "" {
		sess.description = r.Description
	} else {
		m.mark(markDescriptionKept)
	}
	sess.seqNo = r.SeqNo
	sess.expires, sess.expiring, sess.restarted = nil, false, false
	sess.absentDue, sess.absence = nil, nil
	m.forgetAddresses(sess)
	sess.stream = s
	s.session = sess
	s.send(Reply{Kind: Started, Session: sess.id})
	s.startPings(r.TimeoutMillis)
}

// detach starts the countdown at the moment it reaches the leader (§2.10), whatever else is in flight.
func (m *Model) detach(sess *session) {
	sess.stream = nil
	m.forgetAddresses(sess)
	if sess.timeoutMillis == 0 {
		m.mark(markDetachZeroTimeout)
	}
	sess.expires = m.after(sess.timeoutMillis)
	sess.detached, sess.absentDue = m.now, m.after(min(250, max(1, sess.timeoutMillis/4)))
}

// forgetAddresses drops watches and the ids to answer waiting acquires, silently (§2.4).
func (m *Model) forgetAddresses(sess *session) {
	for _, sem := range m.node.semaphores {
		sem.dropWatch(sess)
		for _, l := range sem.waiters {
			if l.session == sess && l.addressable {
				m.mark(markAddressForgotten)
				l.addressable = false
			}
		}
	}
}

// stop ends the session at its client's wish (§2.8).
func (m *Model) stop(c call) {
	m.mark(markStopped)
	if s := c.stream; s.ending == Open {
		s.send(Reply{Kind: Stopped, Session: c.session.id})
		s.ending = EndedOK
		s.forget()
	}
	c.session.stream = nil
	m.endSession(c.session)
}

// countdownOver ends a session in its turn, unless it has been ended or attached when that comes.
func (m *Model) countdownOver(sess *session) {
	sess.expires, sess.expiring, sess.absentDue = nil, true, nil
	m.later(sess, func() {
		if m.findSession(sess.id) != sess || !sess.expiring {
			m.mark(markExpiryVoid)
			return
		}
		m.sessionExpired(sess)
	})
}

// sessionExpired ends a session that has no stream to notify (§2.10).
func (m *Model) sessionExpired(sess *session) {
	if sess.restarted {
		m.mark(markExpiredAfterRestart)
	} else {
		m.mark(markExpiredAfterDetach)
	}
	m.endSession(sess)
}

// endSession destroys a session (§3.9). All owned semaphores come before all waited-for ones; the order
// within each of the two groups is left open, so the messages carry a group, with one block for each
// semaphore.
func (m *Model) endSession(sess *session) {
	m.forgetAddresses(sess)
	var owned, waited []*semaphore
	for _, sem := range m.node.semaphores {
		if sem.owner(sess) != nil {
			owned = append(owned, sem)
		}
		if sem.waiter(sess) != nil {
			waited = append(waited, sem)
		}
	}
	m.lastGroup++
	m.group = m.lastGroup
	for i, sem := range owned {
		m.mark(markEndFreesOwned)
		m.block = i
		sem.owners = without(sem.owners, sem.owner(sess))
		sem.ownerLeft()
	}
	m.lastGroup++
	m.group = m.lastGroup
	for i, sem := range waited {
		m.mark(markEndLeavesQueue)
		m.block = i
		sem.leaveQueue(sem.waiter(sess))
	}
	m.group, m.block = 0, 0

	var rest []*session
	for _, other := range m.node.sessions {
		if other != sess {
			rest = append(rest, other)
		}
	}
	m.node.sessions = rest
}

func (m *Model) findSession(id uint64) *session {
	for _, sess := range m.node.sessions {
		if sess.id == id {
			return sess
		}
	}
	return nil
}
