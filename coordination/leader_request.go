package coordination

// Request takes a request of an attached stream. Sizes and ranges are checked here, before anything is
// written; these refusals may overtake the answers of earlier requests (§4.6). A request of a stream that was
// ended meanwhile is dropped: its client has been notified.
func (l *Leader) Request(now Instant, stream StreamID, f *Forward) {
	switch a := l.streams[stream]; {
	case a == nil:
	case a.held != nil:
		a.later = append(a.later, *f)
	case a.session != nil && a.session.attachment == a:
		l.request(now, a, f)
	}
}

// readsBefore reports whether a request has to wait for strict describes. Another one need not: they are answered
// in their order.
func (a *attachment) readsBefore(r *Request) bool {
	return a.reads > 0 && !(r.Kind == RequestDescribe && a.node.node.config.StrictReads())
}

// takeLater takes the requests that need not wait any more.
func (l *Leader) takeLater(a *attachment) {
	for len(a.later) > 0 && !a.readsBefore(a.later[0].Request) {
		f := a.later[0]
		a.later[0] = Forward{}
		if a.later = a.later[1:]; len(a.later) == 0 {
			a.later = nil
		}
		l.take(a, &f)
	}
}

// takeAbandoned takes the requests that wait for strict describes of a stream whose client is gone: nobody waits
// for their answers any more, and what was sent after them is executed as if they had come.
func (l *Leader) takeAbandoned(a *attachment) {
	for i := range a.later {
		if f := &a.later[i]; f.Request.Kind != RequestDescribe {
			l.take(a, f)
		}
	}
}

// request ends the stream if the request is of a kind that this program does not know: a newer server may
// hold the stream. It holds a request that has to wait for strict describes of its stream: those have their place
// where they were sent, but are answered later, so nothing that was sent after them may be executed before that.
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
	if r.Kind == RequestStop {
		a.stopping = true
	}
	if len(a.later) > 0 || a.readsBefore(r) {
		a.later = append(a.later, *f)
		return
	}
	l.take(a, f)
}

// take answers a describe, or waits until it may, and proposes any other request.
func (l *Leader) take(a *attachment, f *Forward) {
	r := f.Request
	if r.Kind == RequestDescribe {
		l.describe(a, f.Sequence, r)
		return
	}
	origin := Origin{Node: a.node.id, Session: a.session.id, Address: Address{a.epoch, f.Sequence},
		Acknowledged: f.Acknowledged, Answered: f.Answered}
	a.session.asked = origin.Address
	urgent := l.urgent || !a.joinsQueue(r) // by the state as it is, before anything else
	command := r.command(origin)
	if stop, is := command.(*StopSession); is && a.session.durable().links.first != nil {
		stop.Client = a.session.lastClient(l, 0)
	}
	l.propose(a.node, a.session, command)
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
