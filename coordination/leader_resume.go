package coordination

// Resume takes over a stream that was attached under an earlier leader. r is its roster: what the stream
// knows of its session, and its open requests. Nothing is logged for it, unless the session was absent, so
// that a leader change costs no write for each client.
//
// Several streams may claim one session, because a client that was cut off has attached elsewhere. The one
// with the latest epoch has it, wherever the others were: an epoch is given by a leader, in the order of
// attachments. The machine knows the latest one whenever two streams have a claim, because an attach is
// unlogged only while no other stream can claim the session (mayAttachUnlogged): so the streams that this
// leader has seen need not be compared. The losers' Failure is that the session was stolen.
//
// Each open request is then answered or executed, never both, and never twice:
//
//   - The machine remembers the outcomes of the session's requests until the stream has acknowledged them. An
//     outcome that it remembers is sent again, as it was.
//   - A request that has not been executed, and is not on its way through the log, is executed now. Epoch and
//     sequence name it, so that the memory covers exactly the requests that it knows were
//     never executed.
//   - A request that the memory does not cover has no known outcome. The stream ends with "Link
//     failure", as every stream does with the reference, and the client attaches anew.
//
// A session whose end is in flight is given to nobody: the stream waits for the outcome of the end (see hold), and gets
// no message meanwhile, so that its client hears no sign of life just before the session ends. Nor is one given back
// whose absence is in the log before its end is there, too (see absence).
func (l *Leader) Resume(now Instant, stream StreamID, r *Roster) {
	a := &attachment{stream: stream, server: r.Server, path: r.Path, seqNo: r.SeqNo, epoch: r.Epoch,
		caller: r.Caller, client: r.Client, rights: r.Rights}
	if a.node = l.leaderSide(r.Node); a.node == nil {
		l.end(a, LinkFailure) // as when the node is dropped (§1.3)
		return
	}
	if a.rights&^l.rights(a) != 0 {
		l.end(a, NoAccess) // taken away while there was no leader to end the stream for it
		return
	}
	s := a.node.leaderSide(r.Session)
	switch {
	case s == nil && r.Stopping && r.awaits(RequestStop):
		l.send(a, Message{Kind: MessageStopped, Session: r.Session})
		return
	case s == nil && r.Stopping:
		// it stopped, but what came of its other requests was forgotten with the session
		l.end(a, LinkFailure)
		return
	case s == nil:
		l.end(a, SessionExpired)
		return
	case s.durable().latestEpoch().Compare(r.Epoch) > 0:
		l.end(a, s.durable().stolenFrom(a))
		return
	case !s.durable().acceptsIdentity(r.Identity, r.Rights&RightWrite != 0):
		l.end(a, NoAccess)
		return
	}
	absent := s.durable().absence != absence{}
	if absent && !s.undecided() {
		s.endAbsence(l)
	}
	if absent || s.undecided() {
		l.hold(a, s, r)
		return
	}
	if other := l.forget(s); other != nil && other.stream != stream {
		l.end(other, stolenBy(a, other))
	}
	a.session, s.attachment, s.client, s.exclusive = s, a, a.client, true
	s.seqNo = max(s.seqNo, r.SeqNo)
	l.streams[stream] = a
	l.send(a, Message{Kind: MessageResumed})
	known := s.durable().recollect(r.Epoch)
	answers := s.durable().memory.answersTo(r)
	for i := range r.Open {
		if !l.resumeRequest(now, a, r, i, &known, &answers) {
			l.TurnAway(now, stream, LinkFailure)
		}
		if s.attachment != a {
			return // a request ended the stream
		}
	}
}

// awaits reports whether the stream waits for nothing but requests of this kind. Watches do not count: they
// need no answer. Nor do acquires that the client knows to wait: the end of their session answers none of them
// (§2.8, §3.9).
func (r *Roster) awaits(kind RequestKind) bool {
	for i := range r.Open {
		if open := &r.Open[i]; !open.Watching && !open.Pending && open.Request.Kind != kind {
			return false
		}
	}
	return true
}

// resumeWatch sets a watch again. open.Mark is the state of the semaphore that the client has seen. If the semaphore
// may have changed since, the watch fires instead, with both flags unset: this leader does not know what changed, and
// the client describes again (§4.1).
func (l *Leader) resumeWatch(a *attachment, open *OpenRequest) {
	sem := a.node.node.semaphores[open.Request.Name]
	if sem == nil || !l.machine.unchanged(sem, open.Mark, open.Request) {
		l.send(a, Message{Kind: MessageChanged, Sequence: open.Sequence})
		return
	}
	l.watch(a.session, sem.id, open.Sequence, open.Request)
}

// latestEpoch is that of the latest stream that the machine knows to have had the session: by its attach, or
// by a request if the attach was not logged.
func (s *session) latestEpoch() Epoch {
	if s.memory.epoch.Compare(s.attachEpoch) > 0 {
		return s.memory.epoch
	}
	return s.attachEpoch
}

// stolenFrom is the Failure for a stream whose session was attached again under an earlier leader.
func (s *session) stolenFrom(loser *attachment) *Refusal {
	if s.attachPlace == placeOf(loser) {
		return StolenByLocalClient
	}
	return StolenByRemoteClient
}

// resumeRequest answers or executes the open request at a place in the roster, and reports whether that was
// possible. known has the outcomes of the stream's requests when it was resumed.
//
// answers are the remembered outcomes that have not been sent again yet, in the order in which they came
// about. They are sent in that order, whichever request they belong to, because the stream acknowledges "all
// outcomes up to this one" (Origin.Answered): an outcome sent out of order would have the machine forget one
// that the client has not heard.
func (l *Leader) resumeRequest(now Instant, a *attachment, r *Roster, at int, known *recollection,
	answers *[]rememberedRequest) bool {
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
		became = known.recall(open.Sequence)
	}
	switch became {
	case answered:
		if len(*answers) == 0 {
			return false // each answered request has taken one, so the roster names one of them twice
		}
		first := (*answers)[0]
		*answers = (*answers)[1:]
		l.send(a, Message{Kind: MessageResult, Sequence: first.sequence,
			Request: first.request, Refusal: first.refusal, Done: first.done})
	case stillWaiting:
		l.send(a, Message{Kind: MessagePending, Sequence: open.Sequence})
	case neverExecuted:
		if a.session.isAsked(Address{a.epoch, open.Sequence}) && open.Request.Kind.executed() &&
			open.Request.check() == nil {
			return true // its command is on its way through the log, and the answer will come to this stream
		}
		l.request(now, a, &Forward{Request: open.Request, Sequence: open.Sequence,
			Acknowledged: r.Open[0].Sequence})
	case unknown:
		return false
	}
	return true
}

// overtaken reports whether a later request of the stream may have been executed already, or is on its way
// through the log. A describe with this sequence would then be answered from a state that the client's later
// requests have changed, and the earlier state is not known any more.
func (a *attachment) overtaken(sequence Sequence) bool {
	s := a.session
	m := &s.durable().memory
	return !m.covers(Address{a.epoch, sequence}) || m.epoch == a.epoch && m.highest > sequence ||
		s.asked.Epoch == a.epoch && s.asked.Sequence > sequence
}

// isAsked reports whether this leader has proposed a request already. That happens when the relay to the
// stream's server broke and was opened again under the same leader: the stream then rejoins a leader that has
// its requests. They are proposed in order, so the last one says it of all before it.
func (s *ledSession) isAsked(address Address) bool {
	return s.asked.Epoch == address.Epoch && address.Sequence <= s.asked.Sequence
}
