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
		sem = &semaphore{model: m, name: c.Name, limit: Infinite, ephemeral: true}
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
		if sem.process() {
			m.mark(markOwnerDecreaseGrants)
		}
		sem.notify(false, true)
	case newData:
		m.mark(markOwnerNewData)
		sem.notify(false, true)
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
	wait.answer(m, markSuperseded, Reply{Status: Aborted, Text: "Operation superseded by another request"})
	if fails {
		m.mark(markWaiterTryLeaves)
		m.succeed(c, false)
		sem.leaveQueue(wait)
		return
	}
	wait.count, wait.data = c.Count, c.Data
	wait.await(m, c)
	granted := first && sem.process()
	if granted {
		m.mark(markWaiterDecreaseGranted)
		sem.notify(false, true)
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
	wait.await(m, c)
	sem.waiters = append(sem.waiters, wait)
	if sem.process() {
		m.mark(markGrantedAtOnce)
		sem.notify(false, true)
		return
	}
	if sem.waiters[0] != wait && c.Count <= sem.free() {
		m.mark(markBlockedByHead)
	}
	m.mark(markQueued)
	m.pending(c, wait)
}

// pending notifies an acquire that it waits.
func (m *Model) pending(c call, l *link) {
	m.lastTicket++
	l.ticket = m.lastTicket
	c.stream.send(Reply{Kind: Pending, ReqID: c.ReqID, ticket: l.ticket})
}

// await gives a waiter the request to answer and a timer for its full timeout.
func (l *link) await(m *Model, c call) {
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
		sem.ownerLeft()
		return
	}
	if wait := sem.waiter(c.session); wait != nil {
		m.mark(markReleaseWaiter)
		wait.answer(m, markReleaseAborts,
			Reply{Status: Aborted, Text: "Operation superseded by another request"})
		m.succeed(c, true)
		sem.leaveQueue(wait)
		return
	}
	m.mark(markReleaseStranger)
	m.succeed(c, false)
}

// waitOver ends a wait in its turn, unless it has been ended or superseded when that comes.
func (sem *semaphore) waitOver(l *link) {
	l.expires, l.expiring = nil, true
	sem.model.later(l.session, func() {
		if sem.model.findSemaphore(sem.name) != sem || linkOf(sem.waiters, l.session) != l || !l.expiring {
			sem.model.mark(markWaitExpiryVoid)
			return
		}
		sem.waitExpired(l)
	})
}

// waitExpired is a waiter whose time has run out: no error, just not acquired (§3.4).
func (sem *semaphore) waitExpired(l *link) {
	sem.model.mark(markWaitExpired)
	l.answer(sem.model, markWaitExpiredTold, Reply{Status: Success, Done: false})
	sem.leaveQueue(l)
}

// ownerLeft handles the loss of an owner: an ephemeral semaphore without owners and waiters disappears, otherwise the
// queue moves, and in either case the watchers are notified once.
func (sem *semaphore) ownerLeft() {
	if sem.ephemeral && len(sem.owners)+len(sem.waiters) == 0 {
		sem.model.mark(markEphemeralDeleted)
		sem.model.removeSemaphore(sem)
		sem.notifyDeleted()
		return
	}
	if sem.process() {
		sem.model.mark(markOwnerLeftGrants)
	}
	sem.notify(false, true)
}

// leaveQueue removes a waiter. Only the first one held the others back.
func (sem *semaphore) leaveQueue(l *link) {
	first := sem.waiters[0] == l
	sem.waiters = without(sem.waiters, l)
	if !first {
		sem.model.mark(markLeftFromBehind)
		return
	}
	if sem.process() {
		sem.model.mark(markHeadLeftGrants)
		sem.notify(false, true)
	}
}

// process makes owners of waiters, in order, as long as the first one's tokens are free.
func (sem *semaphore) process() (granted bool) {
	for len(sem.waiters) > 0 && sem.waiters[0].count <= sem.free() {
		l := sem.waiters[0]
		sem.waiters = sem.waiters[1:]
		if granted {
			sem.model.mark(markSeveralGranted)
		}
		granted = true
		switch {
		case l.session.stream == nil:
			sem.model.mark(markGrantedDetached)
		case !l.addressable:
			sem.model.mark(markGrantedUnaddressable)
		}
		l.answer(sem.model, markGranted, Reply{Status: Success, Done: true})
		l.addressable = false
		l.expires = nil
		sem.owners = append(sem.owners, l)
	}
	return granted
}

// answer gives the result of a waiting acquire, if anybody is there to read it. A Pending that the
// client has not read yet is taken back, because the result is ready (rule 4 of §2.10 of the specification of
// the surface).
func (l *link) answer(m *Model, why Mark, r Reply) {
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
	s.send(r)
}

// reload rebuilds a semaphore at a new leader: no session can be notified, each owner is a waiter until the queue has
// been processed, and finite waits go on for the time that the log does not know to be over (§4.2, §4.3).
func (sem *semaphore) reload() {
	sem.watches = nil
	sem.waiters = append(append([]*link(nil), sem.owners...), sem.waiters...)
	sem.owners = nil
	for _, l := range sem.waiters {
		l.addressable = false
	}
	for len(sem.waiters) > 0 && sem.waiters[0].count <= sem.free() {
		sem.model.mark(markRestartOwner)
		sem.owners = append(sem.owners, sem.waiters[0])
		sem.waiters = sem.waiters[1:]
	}
	for _, l := range sem.waiters {
		sem.model.mark(markRestartWaiter)
		l.expires, l.expiring = nil, false
		if l.timeoutMillis != Infinite {
			l.expires = sem.model.after(absence{l.since, l.timeoutMillis}.left(sem.model.age.base))
		}
	}
}
