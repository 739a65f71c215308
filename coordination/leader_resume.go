package coordination

// Resume takes over a stream that was attached under an earlier leader. Nothing is logged: among the streams that claim
// a session the one with the latest epoch has it. Every open request gets its one true answer, or is executed if it
// never was; where neither can be said, the stream ends with "Link failure", as with the reference.
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
	case s == nil && r.Stopping:
		l.send(a, Message{Kind: MessageStopped, Session: r.Session})
		return
	case s == nil:
		l.end(a, SessionExpired)
		return
	case s.durable().attachEpoch.Compare(r.Epoch) > 0:
		l.end(a, s.durable().stolenFrom(a))
		return
	}
	if other := s.attachment; other != nil && other.epoch.Compare(r.Epoch) > 0 {
		l.end(a, stolenBy(other, a))
		return
	} else if other != nil && other.stream != stream {
		l.end(other, stolenBy(a, other))
	}
	l.stopCountdown(s)
	l.dropWatches(s)
	a.session, s.attachment = s, a
	s.seqNo = max(s.seqNo, r.SeqNo)
	l.streams[stream] = a
	l.send(a, Message{Kind: MessageResumed})
	for i := range r.Open {
		if !l.resumeRequest(a, &r.Open[i], r.Open[0].Sequence) {
			l.end(a, LinkFailure)
			l.detach(now, s)
			return
		}
	}
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

// resumeRequest answers or executes one open request. It reports whether that was possible.
func (l *Leader) resumeRequest(a *attachment, open *OpenRequest, acknowledged Sequence) bool {
	if open.Watching {
		l.resumeWatch(a, open)
		return true
	}
	became, outcome := neverExecuted, outcome{}
	if open.Request.Kind.executed() {
		became, outcome = a.session.durable().recall(Address{a.epoch, open.Sequence})
	}
	switch became {
	case answered:
		l.send(a, Message{Kind: MessageResult, Sequence: open.Sequence, Request: outcome.request, Refusal: outcome.refusal, Done: outcome.done})
	case stillWaiting:
		l.send(a, Message{Kind: MessagePending, Sequence: open.Sequence})
	case neverExecuted:
		if a.session.isAsked(Address{a.epoch, open.Sequence}) && open.Request.Kind.executed() && open.Request.check() == nil {
			return true // its command is on its way through the log, and its answer will come here
		}
		l.request(a, open.Sequence, acknowledged, open.Request)
	case unknown:
		return false
	}
	return true
}

// executed reports whether requests of this kind must not be executed twice. Reading or stopping twice does no harm.
func (k RequestKind) executed() bool { return k != RequestDescribe && k != RequestStop }

// isAsked reports whether this leader has proposed a request already, for an earlier stream of the same attachment: one
// whose relay broke, and not because of a change of leaders. Requests are proposed in order.
func (s *ledSession) isAsked(address Address) bool {
	return s.asked.Epoch == address.Epoch && address.Sequence <= s.asked.Sequence
}
