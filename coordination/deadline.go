package coordination

// deadline is a moment at which the leader decides that a session's countdown or a wait has run out. Deadlines are kept
// by node, so that dropping a node drops them at once; the leader's heap of nodes finds the earliest of all.
type deadline struct {
	at       Instant
	armed    uint64 // breaks ties: what was armed first comes first
	position int
	session  *ledSession // a countdown, if wait is empty
	wait     ExpireWaiter
}

func (d *deadline) before(other *deadline) bool {
	if d.at != other.at {
		return d.at < other.at
	}
	return d.armed < other.armed
}

func (d *deadline) place() *int { return &d.position }

func (n *ledNode) before(other *ledNode) bool { return n.deadlines[0].before(other.deadlines[0]) }
func (n *ledNode) place() *int                { return &n.position }

// schedule orders the nodes that have deadlines by the earliest of each.
type schedule struct {
	nodes heapOf[*ledNode]
	armed uint64 // how many deadlines were
}

func (w *schedule) arm(n *ledNode, d *deadline) {
	w.armed++
	d.armed = w.armed
	if n.deadlines.push(d); len(n.deadlines) == 1 {
		w.nodes.push(n)
	} else {
		w.nodes.fix(n.position)
	}
}

func (w *schedule) disarm(n *ledNode, d *deadline) {
	if len(n.deadlines) == 1 {
		w.nodes.remove(n)
		n.deadlines.remove(d)
		return
	}
	n.deadlines.remove(d)
	w.nodes.fix(n.position)
}

// first returns the earliest deadline, Never if nothing runs out.
func (w *schedule) first() Instant {
	if len(w.nodes) == 0 {
		return Never
	}
	return w.nodes[0].deadlines[0].at
}

// startCountdown has a session that is without a stream since an instant end at another one (§2.10, §4.2).
// The log is to know of it before that.
func (l *Leader) startCountdown(s *ledSession, since, until Instant) {
	s.inherited = !s.settled
	s.settled, s.since, s.until = true, since, until
	s.countdown = &deadline{at: min(until, s.absenceDue(l, since)), session: s}
	l.wakeups.arm(s.node, s.countdown)
}

func (l *Leader) stopCountdown(s *ledSession) {
	s.settled = true
	if s.countdown != nil {
		l.wakeups.disarm(s.node, s.countdown)
		s.countdown = nil
	}
}

// absenceDue returns the moment at which the absence of a session detached since another one is to be logged;
// Never if it is logged.
func (s *ledSession) absenceDue(l *Leader, since Instant) Instant {
	durable := s.durable()
	switch {
	case l.ages.unreadable || l.machine.lineage.valid(durable.absence).totalMillis != 0:
		return Never
	case s.inherited:
		return since.After(l.ages.comeBackMillis)
	}
	return since.After(min(absencePauseMillis, max(1, durable.timeoutMillis/4)))
}

// noteAbsence logs the absence of a detached session, once nothing about it is in flight.
func (s *ledSession) noteAbsence(l *Leader, now Instant) {
	wait := s.inFlight > 0
	if s.countdown.at = s.until; wait {
		s.countdown.at = min(s.until, now.After(absencePauseMillis))
	}
	l.wakeups.arm(s.node, s.countdown)
	if !wait && !l.ages.unreadable {
		l.propose(s.node, s, &BeginAbsence{Node: s.node.id, Session: s.id, AttachEpoch: s.durable().attachEpoch,
			Since: l.ages.clockAt(s.since), TotalMillis: max(1, inMillis(s.until-s.since+nanosPerMilli-1))})
	}
}

// endAbsence logs the end of an absence, because a stream comes back. Meanwhile the session's time does not run;
// if the stream is gone when the entry is executed, it begins anew (see returned).
func (s *ledSession) endAbsence(l *Leader) {
	l.stopCountdown(s)
	l.propose(s.node, s, &EndAbsence{Node: s.node.id, Session: s.id, AttachEpoch: s.durable().attachEpoch})
}

// returned begins the countdown of a session to which no stream has come back after all.
func (s *ledSession) returned(l *Leader, now Instant) {
	if s.attachment == nil && s.countdown == nil && s.settled && !s.undecided() && s.node.sessions[s.id] == s {
		l.startCountdown(s, now, now.After(s.durable().timeoutMillis))
	}
}

// startWait begins, or begins anew, the time that a waiter has in the queue (§3.4, timeout rules).
func (l *Leader) startWait(now Instant, n *ledNode, wait ExpireWaiter, timeoutMillis uint64) {
	l.stopWait(n, wait.Order)
	if timeoutMillis == Infinite {
		return
	}
	d := &deadline{at: now.After(timeoutMillis), wait: wait}
	n.waits[wait.Order] = d
	l.wakeups.arm(n, d)
}

func (l *Leader) stopWait(n *ledNode, order OrderID) {
	if d := n.waits[order]; d != nil {
		l.wakeups.disarm(n, d)
		delete(n.waits, order)
	}
}

// NextDeadline is the time at which Tick is due, or Never.
func (l *Leader) NextDeadline() Instant {
	switch {
	case l.quiet:
		return Never
	case l.takeover != nil:
		return l.ages.began
	}
	first := l.wakeups.first()
	return min(first, l.ages.due(first))
}

// maxExpiriesPerTick spreads a great many expiries, as after an election, over several ticks, so that
// requests come in between.
const maxExpiriesPerTick = 1000

// Tick proposes the end of every session and wait whose time is up, and has the log know of what is about to
// run out. In a new leader it first takes over some more of what that has found.
func (l *Leader) Tick(now Instant) {
	if l.quiet {
		return
	}
	l.continueTakeover()
	for range maxExpiriesPerTick {
		if l.wakeups.first() > now {
			break
		}
		n := l.wakeups.nodes[0]
		d := n.deadlines[0]
		l.wakeups.disarm(n, d)
		if s := d.session; s != nil {
			if now < s.until {
				s.noteAbsence(l, now)
				continue
			}
			s.countdown = nil
			l.propose(n, s, &ExpireSession{Node: n.id, Session: s.id,
				AttachEpoch: n.node.sessions[s.id].attachEpoch, Term: l.term, Client: s.lastClient(l, now)})
			continue
		}
		delete(n.waits, d.wait.Order)
		l.propose(n, n.sessions[d.wait.Session], &d.wait)
	}
	if l.ages.due(l.wakeups.first()) <= now {
		if l.ages.inFlight = true; len(l.out.Commands) == 0 { // others do as well
			l.put(&Age{})
		}
	}
}
