package coordination

import "github.com/coordd/coordd/scheme"

// Attach takes the first message of a stream: checks 4 to 18 of §2.3 in their order, the rights (7) among
// them. The answer is a MessageAttached or a MessageEnd, now or when the command that it proposes has been
// applied.
//
// It differs from the reference in one point: a theft is validated before the older stream is ended, so a
// newcomer that is refused disturbs nobody (§2.5).
func (l *Leader) Attach(now Instant, stream StreamID, r AttachRequest) {
	a := &attachment{stream: stream, server: r.Server, path: r.Path, seqNo: r.SeqNo, caller: r.Caller,
		client: r.Client}
	n, refusal := l.resolve(r.Path)
	repeated := false
	if refusal == nil {
		a.node = n
		if made, ok := n.node.nonces[r.Nonce]; ok && r.Session == 0 && !n.leaderSide(made).endInFlight() {
			// a repetition: the answer to the first one was lost with its leader, or with the relay
			r.Session, repeated = made, true
		}
		if a.rights = l.rights(a); a.rights == 0 {
			refusal = NoAccess
		} else {
			refusal = a.check(&r)
		}
	}
	if refusal != nil {
		l.end(a, refusal)
		return
	}
	l.streams[stream] = a
	a.epoch = l.nextEpoch()
	if s := a.session; s != nil {
		s.seqNo = r.SeqNo
		if !repeated && s.mayAttachUnlogged(&r) {
			l.occurs(OccurSessionAttached, s)
			l.attachTo(now, a, s, false)
			return
		}
		s.newest = a
	}
	l.attaching[a.epoch] = a
	c := &Attach{Node: n.id, Session: r.Session, Epoch: a.epoch, TimeoutMillis: r.TimeoutMillis,
		Description: r.Description, ProtectionKey: r.ProtectionKey, Nonce: r.Nonce, Place: placeOf(a)}
	switch s := a.session; {
	case s == nil && !l.ownerless:
		c.Identity = r.Identity
	case s != nil && s.durable().owner != Identity{}:
		c.Identity, c.MayWrite = r.Identity, a.rights&RightWrite != 0
	}
	l.propose(n, a.session, c)
}

func (l *Leader) resolve(path string) (*ledNode, *Refusal) {
	parts := scheme.SplitLoose(path)
	if len(parts) == 0 {
		return nil, PathEmpty
	}
	entry, found := l.machine.tree.Lookup(parts)
	if !found || entry.Kind != scheme.CoordinationNode {
		return nil, NodeNotFound
	}
	return l.leaderSide(entry.Node), nil
}

// check makes checks 8, 9 and 12 to 17, and that of the owner, which the reference does not make; 18 is
// the machine's. It finds the session on the way.
func (a *attachment) check(r *AttachRequest) *Refusal {
	var s *ledSession
	if r.Session != 0 {
		s = a.node.leaderSide(r.Session)
	}
	if s != nil {
		for _, other := range [...]*attachment{s.newest, s.attachment} {
			switch {
			case other == nil || other.server != a.server || other.path != a.path:
			case r.SeqNo < other.seqNo:
				return AttachOutOfSequence
			case other.stopping:
				return SessionBeingDestroyed
			}
		}
	}
	switch {
	case r.TimeoutMillis > MaxSessionTimeoutMillis:
		return SessionTimeoutRange
	case len(r.Description) > MaxDescriptionBytes:
		return DescriptionTooLarge
	case len(r.ProtectionKey) > MaxProtectionKeyBytes:
		return ProtectionKeyTooLarge
	case r.Session == 0:
		return nil
	case s == nil:
		return SessionMissing
	case r.SeqNo < s.seqNo:
		return AttachOutOfSequence
	case !s.durable().acceptsKey(r.ProtectionKey):
		return ProtectionKeyMismatch
	case !s.durable().acceptsIdentity(r.Identity, a.rights&RightWrite != 0):
		return NoAccess
	}
	a.session = s
	return nil
}

func (s *ledSession) durable() *session { return s.node.node.sessions[s.id] }

// mayAttachUnlogged is the relaxed mode of §4.5: nothing durable changes, no command about the session is in flight
// that might, an expiry included, the log knows of no absence that would have to end, and no other stream can claim the
// session. An attach that may take the session from another stream is logged, so that the next leader refuses that
// stream's roster even if it receives that one first, or alone. Nor is a repeated start attached without the log:
// earlier repetitions may be in flight, and would take the session from it.
func (s *ledSession) mayAttachUnlogged(r *AttachRequest) bool {
	durable := s.durable()
	return !s.node.node.config.StrictAttach() && s.inFlight == 0 && s.attachment == nil && s.exclusive &&
		durable.absence == absence{} && durable.timeoutMillis == r.TimeoutMillis && durable.description == r.Description
}

func (l *Leader) attached(now Instant, n *ledNode, e *Effect) {
	a := l.attaching[e.Address.Epoch]
	if a == nil {
		return
	}
	delete(l.attaching, a.epoch)
	s := n.leaderSide(e.Session)
	if s.newest == a {
		s.newest = nil
	}
	s.seqNo = max(s.seqNo, a.seqNo)
	s.exclusive = true
	l.attachTo(now, a, s, e.Created)
}

// attachTo gives the session to the stream. The stream that had it is notified that it was stolen (§2.5); watches and
// reply addresses are forgotten silently (§2.4).
func (l *Leader) attachTo(now Instant, a *attachment, s *ledSession, created bool) {
	if old := l.forget(s); old != nil {
		l.end(old, stolenBy(a, old))
	}
	a.session, s.attachment, s.client = s, a, a.client
	switch {
	case !a.abandoned:
		l.send(a, Message{Kind: MessageAttached, Node: s.node.id, Session: s.id, Epoch: a.epoch,
			Rights: a.rights, GraceMillis: s.node.node.config.EffectiveGraceMillis()})
	case created: // nobody knows its id (§2.9)
		s.attachment = nil
		l.propose(s.node, s, &StopSession{Origin: Origin{Node: s.node.id, Session: s.id,
			Address: Address{Epoch: a.epoch}}})
	default:
		l.detach(now, s)
	}
}

// placeOf identifies the source of a stream's attach: it distinguishes thefts within one server and one spelling of the
// path from others (§2.5), also under the next leader.
func placeOf(a *attachment) uint64 {
	return uint64(fnvOffset.number(a.server).text(a.path))
}

// stolenBy is the Failure for the loser of a session (§2.5).
func stolenBy(winner, loser *attachment) *Refusal {
	if winner.server == loser.server && winner.path == loser.path {
		return StolenByLocalClient
	}
	return StolenByRemoteClient
}

func (l *Leader) attachRefused(e *Effect) {
	a := l.attaching[e.Address.Epoch]
	if a == nil {
		return
	}
	delete(l.attaching, a.epoch)
	if s := a.session; s != nil && s.newest == a {
		s.newest = nil
	}
	if !a.abandoned {
		l.end(a, e.Refusal)
	}
}

// Detach reports that a stream has ended without having been ended by the leader (§2.9, §2.10). It sends no roster any
// more.
func (l *Leader) Detach(now Instant, stream StreamID) {
	a := l.streams[stream]
	if a == nil {
		return
	}
	delete(l.streams, stream)
	if a.held != nil {
		a.held.drop(a)
		return
	}
	if s := a.session; s != nil && s.attachment == a {
		l.takeAbandoned(a)
		l.detach(now, s)
		return
	}
	a.abandoned = true
}

// Lose is Detach for a stream that may live on: its relay is lost, and it can still claim its session. Then it
// repeats what waits for strict describes.
func (l *Leader) Lose(now Instant, stream StreamID) {
	if a := l.streams[stream]; a != nil && a.session != nil && a.session.attachment == a {
		a.session.exclusive = false
		a.later = nil
		defer func() { a.session.lost = LostServer }()
	}
	l.Detach(now, stream)
}

// detach starts the countdown with the session's present timeout; no grace is added (§2.10).
func (l *Leader) detach(now Instant, s *ledSession) {
	l.forget(s)
	s.lost = LostStream
	l.occurs(OccurSessionDetached, s)
	l.startCountdown(s, now, now.After(s.durable().timeoutMillis))
}
