package model

import "slices"

// Replay executes requests in an order that comes from elsewhere, such as the order of a replicated log. It is one
// coordination node without streams and without time: sessions exist from Attach to End, every answer is returned,
// whether or not a client could read it, and the caller ends what has run out.
type Replay struct {
	model   *Model
	stream  *Stream // of all sessions
	changes []Change
}

// Outcome lists the consequences of one step.
type Outcome struct {
	Replies []Reply
	Changes []Change
	Names   []string // of the semaphores that may look different now
}

// NewReplay returns an empty node with the limits of the protocol.
func NewReplay() *Replay {
	m := New("/replay", Limits{Sessions: 1_000_000, Semaphores: 1_000_000}, nil)
	m.CreateNode(Config{})
	r := &Replay{model: m, stream: m.Open(0)}
	m.changed = func(c Change) { r.changes = append(r.changes, c) }
	return r
}

// Attach gives a session, or a new one for 0, to a stream: earlier requests of the session that still wait are not
// answered any more. It returns 0 if the session does not exist or has another key.
func (r *Replay) Attach(id, timeoutMillis uint64, key string) uint64 {
	sess := r.model.findSession(id)
	switch {
	case id == 0:
		r.model.node.lastSession++
		sess = &session{id: r.model.node.lastSession, key: key, stream: r.stream}
		r.model.node.sessions = append(r.model.node.sessions, sess)
	case sess == nil || sess.key != "" && sess.key != key:
		return 0
	}
	sess.timeoutMillis = timeoutMillis
	r.model.forgetAddresses(sess)
	return sess.id
}

// Has reports whether a session exists.
func (r *Replay) Has(id uint64) bool { return r.model.findSession(id) != nil }

// Do executes a request of a session other than a stop; a session that does not exist asks for nothing. ReqID names
// the request in Outcome.Replies, also when a wait of it ends in a later step: it should be unique.
func (r *Replay) Do(id uint64, q Request) Outcome {
	sess := r.model.findSession(id)
	if sess == nil {
		return Outcome{}
	}
	c := call{Request: q, stream: r.stream, session: sess}
	if !r.model.refusedAtOnce(c) {
		r.model.execute(c)
	}
	return r.outcome(q.Name)
}

// End ends a session, be it stopped or expired.
func (r *Replay) End(id uint64) Outcome {
	sess := r.model.findSession(id)
	if sess == nil {
		return Outcome{}
	}
	var names []string
	for _, sem := range r.model.node.semaphores {
		if sem.owner(sess) != nil || sem.waiter(sess) != nil {
			names = append(names, sem.name)
		}
	}
	r.model.endSession(sess)
	return r.outcome(names...)
}

// EndWait ends the wait with an order id because its time has run out. asked is the request that it is for: a later
// one of the same wait has a time of its own.
func (r *Replay) EndWait(order, asked uint64) Outcome {
	for _, sem := range r.model.node.semaphores {
		at := slices.IndexFunc(sem.waiters, func(l *link) bool { return l.order == order })
		if at >= 0 && sem.waiters[at].reqID == asked {
			sem.waitExpired(sem.waiters[at])
			return r.outcome(sem.name)
		}
	}
	return Outcome{}
}

// Describe returns a semaphore with owners and waiters, nil if it does not exist.
func (r *Replay) Describe(name string) *Description {
	sem := r.model.findSemaphore(name)
	if sem == nil {
		return nil
	}
	return &Description{Name: sem.name, Data: sem.data, Count: sem.held(), Limit: sem.limit, Ephemeral: sem.ephemeral,
		Owners: describeLinks(sem.owners, true), Waiters: describeLinks(sem.waiters, false)}
}

func (r *Replay) outcome(names ...string) Outcome {
	o := Outcome{Replies: r.stream.Replies(), Changes: r.changes, Names: names}
	for i := range o.Replies {
		o.Replies[i].Group, o.Replies[i].Block, o.Replies[i].ticket = 0, 0, 0
	}
	r.changes = nil
	return o
}
