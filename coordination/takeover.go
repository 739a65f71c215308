package coordination

// takeover makes the deadlines of the sessions and waits that a new leader has found (§4.2), a slice with
// each Tick, so that no turn looks at all of them. Meanwhile the leader serves as it does later: a session or
// a wait that the takeover has not come to merely has no deadline, so it may end late, by the time that the
// takeover takes, and never early. The deadlines count from the moment at which the leader began to serve,
// whenever they are made. What has happened under this leader is not undone: a session that a stream has had
// since is settled, and a wait that began since has its deadline.
type takeover struct {
	walk  *walk
	index Index // of the state that it found
	// calmMillis is the part of the grace period that is over
	calmMillis uint64
}

// takeoverRowsPerTick bounds the nodes, sessions and links that a Tick takes over: about a millisecond's work.
const takeoverRowsPerTick = 256

func (l *Leader) beginTakeover(calmMillis uint64) {
	if t := (takeover{l.machine.beginWalk(), l.machine.index, calmMillis}); !t.walk.over() {
		l.takeover = &t
	}
}

// continueTakeover does the next slice.
func (l *Leader) continueTakeover() {
	t := l.takeover
	if t == nil {
		return
	}
	for range takeoverRowsPerTick {
		if t.walk.over() {
			break
		}
		n, s, link := t.walk.step()
		switch {
		case link != nil:
			l.inheritWait(n, link)
		case s != nil:
			l.inheritSession(n, s)
		}
	}
	if t.walk.over() {
		l.takeover = nil
	}
}

func (l *Leader) inheritSession(n *node, s *session) {
	if led := l.leaderSide(n.id).leaderSide(s.id); !led.settled {
		l.startCountdown(led, l.ages.began, l.ages.began.After(l.takeover.leftMillis(l, n, s)))
	}
}

// leftMillis returns the time that the takeover gives a session: the rest of a known absence, otherwise its timeout
// and what is left of the grace period, since its client may have heard of it until a moment ago.
func (t *takeover) leftMillis(l *Leader, n *node, s *session) uint64 {
	if a := l.machine.lineage.valid(s.absence); a.totalMillis != 0 {
		return a.leftMillis(l.ages.clock)
	}
	grace := t.walk.graceMillis(n)
	return s.timeoutMillis + grace - min(grace, t.calmMillis)
}

func (l *Leader) inheritWait(n *node, link *link) {
	if link.owner || link.waitEpoch.Index > l.takeover.index {
		return
	}
	l.startWait(l.ages.began, l.leaderSide(n.id), ExpireWaiter{Node: n.id, Session: link.session.id,
		Semaphore: link.semaphore.id, Order: link.order, WaitEpoch: link.waitEpoch, Term: l.term},
		l.machine.lineage.leftOfWait(link.timeoutMillis, link.since, l.ages.clock))
}
