package coordination

// Resume takes over a stream that was attached under an earlier leader. Nothing is logged: among the streams that claim
// a session the one with the latest epoch has it. Every open request gets its one true answer, or is executed if it
// never was; where neither can be said, the stream ends with "Link failure", as with the reference.
//
// A session whose end is in flight is given to nobody: the stream waits for what becomes of it, and is told nothing
// meanwhile, so that its client hears no sign of life just before the session ends.
func (l *Leader) Resume(now Instant, stream StreamID, r *Roster) {
	a := &attachment{stream: stream, server: r.Server, path: r.Path, seqNo: r.SeqNo, epoch: r.Epoch,
		caller: r.Caller, rights: r.Rights}
	if a.node = l.led(r.Node); a.node == nil {
		l.end(a, LinkFailure) // as when the node is dropped (§1.3)
		return
	}
	if a.rights&^l.rights(a) != 0 {
		l.end(a, NoAccess) // lost while there was no leader to look
		return
	}
	s := a.node.led(r.Session)
	switch {
	case s == nil && r.Stopping && r.awaits(RequestStop):
		l.send(a, Message{Kind: MessageStopped, Session: r.Session})
		return
	case s == nil && r.Stopping:
		l.end(a, LinkFailure) // what the session's other requests came to was forgotten with it
		return
	case s == nil:
		l.end(a, SessionExpired)
		return
	case s.durable().attachEpoch.Compare(r.Epoch) > 0:
		l.end(a, s.durable().stolenFrom(a))
		return
	case !s.durable().acceptsIdentity(r.Identity, r.Rights&RightWrite != 0):
		l.end(a, NoAccess)
		return
	}
	if other := s.attachment; other != nil && other.epoch.Compare(r.Epoch) > 0 {
		l.end(a, stolenBy(other, a))
		return
	}
	if s.endInFlight() {
		l.hold(a, s, r)
		return
	}
	if other := s.attachment; other != nil && other.stream != stream {
		l.end(other, stolenBy(a, other))
	}
	l.stopCountdown(s)
	l.dropWatches(s)
	a.session, s.attachment = s, a
	s.seqNo = max(s.seqNo, r.SeqNo)
	l.streams[stream] = a
	l.send(a, Message{Kind: MessageResumed})
	answers := s.durable().memory.answersTo(r)
	for i := range r.Open {
		if !l.resumeRequest(now, a, r, i, &answers) {
			l.end(a, LinkFailure)
			l.detach(now, s)
		}
		if s.attachment != a {
			return // it was ended
		}
	}
}

// awaits reports whether requests of this kind are all that the stream waits for.
func (r *Roster) awaits(kind RequestKind) bool {
	for i := range r.Open {
		if open := &r.Open[i]; !open.Watching && open.Request.Kind != kind {
			return false
		}
	}
	return true
}

// resumeWatch installs a watch again. Where the semaphore may have changed meanwhile the client is told that nothing is
// known, and describes again (§4.1).
func (l *Leader) resumeWatch(a *attachment, open *OpenRequest) {
	sem := a.node.node.semaphores[open.Request.Name]
	if sem == nil || !l.machine.unchanged(sem, open.Mark, open.Request) {
		l.send(a, Message{Kind: MessageChanged, Sequence: open.Sequence})
		return
	}
	l.watch(a.session, sem.id, open.Sequence, open.Request)
}

// stolenFrom is what a stream is told whose session was attached again under an earlier leader.
func (s *session) stolenFrom(loser *attachment) *Refusal {
	if s.attachPlace == placeOf(loser) {
		return StolenByLocalClient
	}
	return StolenByRemoteClient
}

// resumeRequest answers or executes an open request. It reports whether that was possible. answers is what is left of
// memory.answersTo: the requests that were answered are so in the order of their outcomes, as Origin.Answered has it.
func (l *Leader) resumeRequest(now Instant, a *attachment, r *Roster, at int, answers *[]rememberedRequest) bool {
	open := &r.Open[at]
	switch {
	case open.Watching:
		l.resumeWatch(a, open)
		return true
	case open.Request.Kind == RequestDescribe && a.overtaken(open.Sequence):
		return false
	}
	became := neverExecuted
	if open.Request.Kind.executed() {
		became = a.session.durable().recall(Address{a.epoch, open.Sequence})
	}
	switch became {
	case answered:
		if len(*answers) == 0 {
			return false // the roster names a request twice
		}
		known := (*answers)[0]
		*answers = (*answers)[1:]
		l.send(a, Message{Kind: MessageResult, Sequence: known.sequence,
			Request: known.request, Refusal: known.refusal, Done: known.done})
	case stillWaiting:
		l.send(a, Message{Kind: MessagePending, Sequence: open.Sequence})
	case neverExecuted:
		if a.session.isAsked(Address{a.epoch, open.Sequence}) && open.Request.Kind.executed() && open.Request.check() == nil {
			return true // its command is on its way through the log, and its answer will come here
		}
		l.request(now, a, &Forward{Request: open.Request, Sequence: open.Sequence, Acknowledged: r.Open[0].Sequence})
	case unknown:
		return false
	}
	return true
}

// executed reports whether requests of this kind must not be executed twice. Reading or stopping twice does no harm.
func (k RequestKind) executed() bool { return k != RequestDescribe && k != RequestStop }

// overtaken reports whether a later request of the stream may have been executed, or is on its way through the log: only
// the present state is known, and a describe that is answered from that would show the future.
func (a *attachment) overtaken(sequence Sequence) bool {
	s := a.session
	y := &s.durable().memory
	return !y.covers(Address{a.epoch, sequence}) || y.epoch == a.epoch && y.highest > sequence || s.asked.Epoch == a.epoch && s.asked.Sequence > sequence
}

// isAsked reports whether this leader has proposed a request already, for an earlier stream of the same attachment: one
// whose relay broke, and not because of a change of leaders. Requests are proposed in order.
func (s *ledSession) isAsked(address Address) bool {
	return s.asked.Epoch == address.Epoch && address.Sequence <= s.asked.Sequence
}
