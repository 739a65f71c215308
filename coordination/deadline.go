package coordination

// deadline is a moment at which the leader decides that a session's countdown or a wait has run out.
// Deadlines are kept by node, so that dropping a node drops them at once; the leader's heap of nodes finds
// the earliest of all.
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

func (l *Leader) arm(n *ledNode, d *deadline) {
	l.armed++
	d.armed = l.armed
	wasEmpty := len(n.deadlines) == 0
	n.deadlines.push(d)
	if wasEmpty {
		l.wakeups.push(n)
	} else {
		l.wakeups.fix(n.position)
	}
}

func (l *Leader) disarm(n *ledNode, d *deadline) {
	if len(n.deadlines) == 1 {
		l.wakeups.remove(n)
		n.deadlines.remove(d)
		return
	}
	n.deadlines.remove(d)
	l.wakeups.fix(n.position)
}

// startCountdown has a session without a stream end at an instant (§2.10, §4.2).
func (l *Leader) startCountdown(s *ledSession, at Instant) {
	s.settled = true
	s.countdown = &deadline{at: at, session: s}
	l.arm(s.node, s.countdown)
}

func (l *Leader) stopCountdown(s *ledSession) {
	s.settled = true
	if s.countdown != nil {
		l.disarm(s.node, s.countdown)
		s.countdown = nil
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
	l.arm(n, d)
}

func (l *Leader) stopWait(n *ledNode, order OrderID) {
	if d := n.waits[order]; d != nil {
		l.disarm(n, d)
		delete(n.waits, order)
	}
}

// NextDeadline is when Tick has something to do; Never if nothing is due.
func (l *Leader) NextDeadline() Instant {
	if l.takeover != nil {
		return l.began
	}
	if len(l.wakeups) == 0 {
		return Never
	}
	return l.wakeups[0].deadlines[0].at
}

// maxExpiriesPerTick spreads a great many expiries, as after an election, over several ticks, so that
// requests come in between.
const maxExpiriesPerTick = 1000

// Tick proposes the end of every session and wait whose time is up. In a new leader it first takes over some
// more of what that has found.
func (l *Leader) Tick(now Instant) {
	l.continueTakeover()
	for range maxExpiriesPerTick {
		if len(l.wakeups) == 0 || l.wakeups[0].deadlines[0].at > now {
			return
		}
		n := l.wakeups[0]
		d := n.deadlines[0]
		l.disarm(n, d)
		if s := d.session; s != nil {
			s.countdown = nil
			l.propose(n, s, &ExpireSession{Node: n.id, Session: s.id,
				AttachEpoch: n.node.sessions[s.id].attachEpoch, Term: l.term})
			continue
		}
		delete(n.waits, d.wait.Order)
		l.propose(n, n.sessions[d.wait.Session], &d.wait)
	}
}
