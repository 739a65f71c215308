package model

// acquire is §3.4.
func (m *Model) acquire(c call) {
	sem := m.findSemaphore(c.Name)
	switch {
	case sem == nil && !c.Ephemeral:
		m.refuse(c, markAcquireMissing, NotFound, "Semaphore does not exist")
		return
	case sem != nil && sem.ephemeral != c.Ephemeral:
		m.refuse(c, markEphemeralMismatch, PreconditionFailed, "Semaphore ephemeral mode mismatch")
		return
	case sem != nil && c.Count > sem.limit:
		m.refuse(c, markCountOverLimit, BadRequest, "Cannot acquire more than allowed by the semaphore")
		return
	case sem == nil && len(m.node.semaphores) >= m.limits.Semaphores:
		m.refuse(c, markAcquireTooMany, PreconditionFailed, "Too many semaphores already exist")
		return
	}
	if sem == nil {
		if why := m.noRoom(2, len(c.Name)+len(c.Data), 0); why != "" {
			m.refuseGrowth(c, markEphemeralNoRoom, why)
			return
		}
		m.mark(markEphemeralCreated)
		if len(c.Name) > 1024 {
			m.mark(markEphemeralLongName)
		}
		sem = &semaphore{name: c.Name, limit: Infinite, ephemeral: true}
		m.node.semaphores = append(m.node.semaphores, sem)
	}
	if own := sem.owner(c.session); own != nil {
		m.acquireAsOwner(c, sem, own)
	} else if wait := sem.waiter(c.session); wait != nil {
		m.acquireAsWaiter(c, sem, wait)
	} else {
		m.acquireAsStranger(c, sem)
	}
}

// acquireAsOwner is §3.4 8a: the timeout does not matter, nothing ever waits.
func (m *Model) acquireAsOwner(c call, sem *semaphore, own *link) {
	if c.Count > own.count {
		m.refuse(c, markOwnerIncrease, BadRequest, "Increasing count is not allowed")
		return
	}
	newData := own.data != c.Data
	lower := c.Count < own.count
	if why := m.noRoom(0, len(c.Data), len(own.data)); why != "" {
		m.refuseGrowth(c, markOwnerNoRoom, why)
		return
	}
	own.data, own.count = c.Data, c.Count
	m.succeed(c, true)
	switch {
	case lower:
		m.mark(markOwnerDecrease)
		if m.process(sem) {
			m.mark(markOwnerDecreaseGrants)
		}
		m.notify(sem, false, true)
	case newData:
		m.mark(markOwnerNewData)
		m.notify(sem, false, true)
	default:
		m.mark(markOwnerSame)
	}
}

// acquireAsWaiter is §3.4 8b.
func (m *Model) acquireAsWaiter(c call, sem *semaphore, wait *link) {
	if c.Count > wait.count {
		m.refuse(c, markWaiterIncrease, BadRequest, "Increasing count is not allowed")
		return
	}
	first := sem.waiters[0] == wait
	fails := c.TimeoutMillis == 0 && !(first && c.Count <= sem.free())
	if why := m.noRoom(0, len(c.Data), len(wait.data)); why != "" && !fails {
		m.refuseGrowth(c, markWaiterNoRoom, why)
		return
	}
	if !wait.addressable {
		m.mark(markSupersededSilently)
	}
	m.answerWaiter(wait, markSuperseded, Reply{Status: Aborted,
		Text: "Operation superseded by another request"})
	if fails {
		m.mark(markWaiterTryLeaves)
		m.succeed(c, false)
		m.leaveQueue(sem, wait)
		return
	}
	wait.count, wait.data = c.Count, c.Data
	m.wait(wait, c)
	granted := first && m.process(sem)
	if granted {
		m.mark(markWaiterDecreaseGranted)
		m.notify(sem, false, true)
		return
	}
	m.mark(markWaiterKept)
	m.pending(c, wait)
}

// acquireAsStranger is §3.4 8c.
func (m *Model) acquireAsStranger(c call, sem *semaphore) {
	if c.TimeoutMillis == 0 && (len(sem.waiters) > 0 || c.Count > sem.free()) {
		if c.Count <= sem.free() {
			m.mark(markTryBehindQueue)
		} else {
			m.mark(markTryNoTokens)
		}
		m.succeed(c, false)
		return
	}
	if why := m.noRoom(1, len(c.Data), 0); why != "" {
		m.refuseGrowth(c, markStrangerNoRoom, why)
		return
	}
	m.node.lastOrder++
	wait := &link{session: c.session, order: m.node.lastOrder, count: c.Count, data: c.Data}
	m.wait(wait, c)
	sem.waiters = append(sem.waiters, wait)
	if m.process(sem) {
		m.mark(markGrantedAtOnce)
		m.notify(sem, false, true)
		return
	}
	if sem.waiters[0] != wait && c.Count <= sem.free() {
		m.mark(markBlockedByHead)
	}
	m.mark(markQueued)
	m.pending(c, wait)
}

// pending tells an acquire that it waits.
func (m *Model) pending(c call, l *link) {
	m.lastTicket++
	l.ticket = m.lastTicket
	m.send(c.stream, Reply{Kind: Pending, ReqID: c.ReqID, ticket: l.ticket})
}

// wait gives a waiter the request to answer and a timer for its full timeout.
func (m *Model) wait(l *link, c call) {
	l.reqID, l.addressable, l.ticket = c.ReqID, c.session.stream == c.stream, 0
	l.expiring = false
	l.timeoutMillis = c.TimeoutMillis
	l.expires = nil
	if c.TimeoutMillis == Infinite {
		m.mark(markWaitInfinite)
		return
	}
	l.expires, l.since = m.after(c.TimeoutMillis), m.age.clock(m.now)
}

// release is §3.6.
func (m *Model) release(c call) {
	sem := m.findSemaphore(c.Name)
	if sem == nil {
		m.mark(markReleaseMissing)
		m.succeed(c, false)
		return
	}
	if own := sem.owner(c.session); own != nil {
		m.mark(markReleaseOwner)
		sem.owners = without(sem.owners, own)
		m.succeed(c, true)
		m.ownerLeft(sem)
		return
	}
	if wait := sem.waiter(c.session); wait != nil {
		m.mark(markReleaseWaiter)
		m.answerWaiter(wait, markReleaseAborts,
			Reply{Status: Aborted, Text: "Operation superseded by another request"})
		m.succeed(c, true)
		m.leaveQueue(sem, wait)
		return
	}
	m.mark(markReleaseStranger)
	m.succeed(c, false)
}

// waitOver ends a wait in its turn, unless it has been ended or superseded when that comes.
func (m *Model) waitOver(sem *semaphore, l *link) {
	l.expires, l.expiring = nil, true
	m.later(l.session, func() {
		if m.findSemaphore(sem.name) != sem || linkOf(sem.waiters, l.session) != l || !l.expiring {
			m.mark(markWaitExpiryVoid)
			return
		}
		m.waitExpired(sem, l)
	})
}

// waitExpired is a waiter whose time has run out: no error, just not acquired (§3.4).
func (m *Model) waitExpired(sem *semaphore, l *link) {
	m.mark(markWaitExpired)
	m.answerWaiter(l, markWaitExpiredTold, Reply{Status: Success, Done: false})
	m.leaveQueue(sem, l)
}

// ownerLeft is what follows when an owner is gone: an ephemeral semaphore without anybody disappears,
// otherwise the queue moves, and either way those who watch are told once.
func (m *Model) ownerLeft(sem *semaphore) {
	if sem.ephemeral && len(sem.owners)+len(sem.waiters) == 0 {
		m.mark(markEphemeralDeleted)
		m.removeSemaphore(sem)
		m.notifyDeleted(sem)
		return
	}
	if m.process(sem) {
		m.mark(markOwnerLeftGrants)
	}
	m.notify(sem, false, true)
}

// leaveQueue removes a waiter. Only the first one held the others back.
func (m *Model) leaveQueue(sem *semaphore, l *link) {
	first := sem.waiters[0] == l
	sem.waiters = without(sem.waiters, l)
	if !first {
		m.mark(markLeftFromBehind)
		return
	}
	if m.process(sem) {
		m.mark(markHeadLeftGrants)
		m.notify(sem, false, true)
	}
}

// process makes owners of waiters, in order, as long as the first one's tokens are free.
func (m *Model) process(sem *semaphore) (granted bool) {
	for len(sem.waiters) > 0 && sem.waiters[0].count <= sem.free() {
		l := sem.waiters[0]
		sem.waiters = sem.waiters[1:]
		if granted {
			m.mark(markSeveralGranted)
		}
		granted = true
		switch {
		case l.session.stream == nil:
			m.mark(markGrantedDetached)
		case !l.addressable:
			m.mark(markGrantedUnaddressable)
		}
		m.answerWaiter(l, markGranted, Reply{Status: Success, Done: true})
		l.addressable = false
		l.expires = nil
		sem.owners = append(sem.owners, l)
	}
	return granted
}

// answerWaiter gives the result of a waiting acquire, if anybody is there to read it. A Pending that the
// client has not read yet is taken back, because the result is ready (rule 4 of §2.10 of the specification of
// the surface).
func (m *Model) answerWaiter(l *link, why Mark, r Reply) {
	if !l.addressable {
		return
	}
	m.mark(why)
	s := l.session.stream
	for i, unread := range s.replies {
		if l.ticket != 0 && unread.ticket == l.ticket {
			m.mark(markPendingTakenBack)
			s.replies = append(append([]Reply(nil), s.replies[:i]...), s.replies[i+1:]...)
			break
		}
	}
	r.Kind, r.To, r.ReqID = Result, Acquire, l.reqID
	m.send(s, r)
}

// reload is what a new leader makes of a semaphore: nobody can be told anything, everyone is a waiter until
// the queue has been processed, and finite waits go on for what the log does not know to be over (§4.2, §4.3).
func (m *Model) reload(sem *semaphore) {
	sem.watches = nil
	sem.waiters = append(append([]*link(nil), sem.owners...), sem.waiters...)
	sem.owners = nil
	for _, l := range sem.waiters {
		l.addressable = false
	}
	for len(sem.waiters) > 0 && sem.waiters[0].count <= sem.free() {
		m.mark(markRestartOwner)
		sem.owners = append(sem.owners, sem.waiters[0])
		sem.waiters = sem.waiters[1:]
	}
	for _, l := range sem.waiters {
		m.mark(markRestartWaiter)
		l.expires, l.expiring = nil, false
		if l.timeoutMillis != Infinite {
			l.expires = m.after(absence{l.since, l.timeoutMillis}.left(m.age.base))
		}
	}
}
