package coordination

// effects collects what follows from the commands of an entry.
type effects struct {
	list   []Effect
	asking *session // the session whose command is being executed
}

func (m *effects) emit(e Effect) { m.list = append(m.list, e) }

func (m *effects) pend(n *node, l *link) {
	m.emit(Effect{Kind: EffectPending, Node: n.id, Session: l.session.id, Address: l.address,
		Semaphore: l.semaphore.id, Order: l.order, WaitEpoch: l.waitEpoch, TimeoutMillis: l.timeoutMillis})
}

// endWait gives a waiting acquire its last answer: a refusal, or "not acquired" if its time is up.
func (m *effects) endWait(n *node, l *link, refusal *Refusal) {
	m.result(l.session, Effect{Node: n.id, Address: l.address, Request: RequestAcquire, Refusal: refusal,
		Order: l.order})
}

func (m *effects) answer(o *Origin, request RequestKind, done bool) {
	m.result(m.asking, Effect{Node: o.Node, Address: o.Address, Request: request, Done: done})
}

func (m *effects) refuse(o *Origin, request RequestKind, refusal *Refusal) {
	m.result(m.asking, Effect{Node: o.Node, Address: o.Address, Request: request, Refusal: refusal})
}

// result gives the last answer to a request of s.
func (m *effects) result(s *session, e Effect) {
	e.Kind, e.Session = EffectResult, s.id
	s.memory.remember(&e)
	m.emit(e)
}
