package coordination

// Request takes a request of an attached stream. Sizes and ranges are checked here, before anything is
// written; these refusals may overtake the answers of earlier requests (§4.6). A request of a stream that was
// ended meanwhile is dropped: its client has been told.
func (l *Leader) Request(now Instant, stream StreamID, f *Forward) {
	switch a := l.streams[stream]; {
	case a == nil:
	case a.held != nil:
		a.held.later = append(a.held.later, *f)
	case a.session != nil && a.session.attachment == a:
		l.request(now, a, f)
	}
}

// request ends the stream if the request is of a kind that this program does not know: a newer server may
// hold the stream.
func (l *Leader) request(now Instant, a *attachment, f *Forward) {
	r := f.Request
	if !r.Kind.Known() {
		l.TurnAway(now, a.stream, UnimplementedRequest)
		return
	}
	if refusal := r.check(); refusal != nil {
		l.send(a, Message{Kind: MessageResult, Sequence: f.Sequence, Request: r.Kind, Refusal: refusal})
		return
	}
	if r.Kind == RequestDescribe {
		l.describe(a, f.Sequence, r)
		return
	}
	if r.Kind == RequestStop {
		a.stopping = true
	}
	origin := Origin{Node: a.node.id, Session: a.session.id, Address: Address{a.epoch, f.Sequence},
		Acknowledged: f.Acknowledged, Answered: f.Answered}
	a.session.asked = origin.Address
	urgent := l.urgent || !a.joinsQueue(r) // by the state as it is, before anything else
	l.propose(a.node, a.session, r.command(origin))
	l.urgent = urgent
}

// joinsQueue reports whether a request is an acquire that, as things are, only puts its session into a queue.
func (a *attachment) joinsQueue(r *Request) bool {
	if r.Kind != RequestAcquire || r.TimeoutMillis == 0 {
		return false
	}
	n := a.node.node
	sem := n.semaphores[r.Name]
	if sem == nil || sem.waiters.first == nil && r.Count <= sem.free() || r.Count > sem.limit ||
		sem.ephemeral != r.Ephemeral {
		return false
	}
	s := n.sessions[a.session.id]
	return s != nil && n.find(s, sem) == nil
}

// check is the immediate checks of §3.2 to §3.4, in their order.
func (r *Request) check() *Refusal {
	switch r.Kind {
	case RequestCreate:
		switch {
		case r.Limit == 0:
			return LimitZero
		case len(r.Name) > MaxSemaphoreNameBytes:
			return NameTooLong
		case len(r.Data) > MaxSemaphoreDataBytes:
			return SemaphoreDataTooLarge
		}
	case RequestUpdate:
		switch {
		case len(r.Name) > MaxSemaphoreNameBytes:
			return NameTooLong
		case len(r.Data) > MaxSemaphoreDataBytes:
			return SemaphoreDataTooLarge
		}
	case RequestAcquire:
		switch {
		case r.Count == 0:
			return CountZero
		case r.TimeoutMillis > MaxAcquireTimeoutMillis && r.TimeoutMillis != Infinite:
			return AcquireTimeoutRange
		case len(r.Data) > MaxAcquireDataBytes:
			return AcquireDataTooLarge
		}
	}
	return nil
}

func (r *Request) command(o Origin) Command {
	switch r.Kind {
	case RequestAcquire:
		return &AcquireSemaphore{Origin: o, Name: r.Name, Count: r.Count, TimeoutMillis: r.TimeoutMillis,
			Data: r.Data, Ephemeral: r.Ephemeral}
	case RequestRelease:
		return &ReleaseSemaphore{Origin: o, Name: r.Name}
	case RequestCreate:
		return &CreateSemaphore{Origin: o, Name: r.Name, Limit: r.Limit, Data: r.Data}
	case RequestUpdate:
		return &UpdateSemaphore{Origin: o, Name: r.Name, Data: r.Data}
	case RequestDelete:
		return &DeleteSemaphore{Origin: o, Name: r.Name, Force: r.Force}
	case RequestStop:
		return &StopSession{Origin: o}
	}
	panic("coordination: a request without a kind")
}
