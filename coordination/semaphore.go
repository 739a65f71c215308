package coordination

import (
	"bytes"

	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/coordination/revisions"
)

// This file is §3 of the specification: what each request does to a semaphore, and the order of what follows
// (§4.6). Checks that need no state (sizes, ranges) were made by Leader.Request.

func (m *Machine) createSemaphore(n *node, s *session, c *CreateSemaphore) {
	existing := n.semaphores[c.Name]
	switch {
	case existing != nil && existing.ephemeral:
		m.refuse(&c.Origin, RequestCreate, EphemeralLocksExist)
	case existing != nil:
		m.refuse(&c.Origin, RequestCreate, SemaphoreExists)
	case uint64(len(n.semaphores)) >= m.limits.semaphores():
		m.refuse(&c.Origin, RequestCreate, TooManySemaphores)
	default:
		if refusal := m.refusalOf(n, 1, len(c.Name)+len(c.Data), 0); refusal != nil {
			m.refuse(&c.Origin, RequestCreate, refusal)
			return
		}
		sem := n.addSemaphore(c.Name, c.Limit, c.Data, false)
		m.user = s.author(m.accounts)
		sem.change = m.change(n, nil, m.user)
		m.semaphoreOccurs(OccurSemaphoreCreated, n, c.Session, sem, 0)
		m.answer(&c.Origin, RequestCreate, false)
	}
}

func (m *Machine) updateSemaphore(n *node, s *session, c *UpdateSemaphore) {
	sem := n.semaphores[c.Name]
	if sem == nil {
		m.refuse(&c.Origin, RequestUpdate, SemaphoreMissing)
		return
	}
	changed := !bytes.Equal(sem.data, c.Data)
	if changed {
		if refusal := m.refusalOf(n, 0, len(c.Data), len(sem.data)); refusal != nil {
			m.refuse(&c.Origin, RequestUpdate, refusal)
			return
		}
		n.touch(sem)
		before := len(sem.data)
		m.user = s.author(m.accounts)
		n.setSemaphoreData(sem, c.Data, m.change(n, sem, m.user))
		if !sem.ephemeral {
			m.semaphoreOccurs(OccurDataChanged, n, c.Session, sem, before)
		}
	}
	m.answer(&c.Origin, RequestUpdate, false)
	if changed {
		m.changed(n, sem, Effect{DataChanged: true})
	}
}

// version returns the version of the semaphore's data, 0 if its changes do not count.
func (s *semaphore) version(v *versions) uint64 {
	if s.ephemeral || v.next == 0 {
		return 0
	}
	return max(s.change.version, 1)
}

// change is a change of the data of a semaphore, nil for one that is being made.
func (m *Machine) change(n *node, of *semaphore, author string) dataChange {
	v := &m.versions
	least := v.next
	switch {
	case v.next == 0 || of != nil && of.ephemeral:
		return dataChange{}
	case of != nil:
		if c := &of.change; m.stampMillis >= c.millis+minRememberedMillis ||
			c.clock != 0 && m.clock.millis >= c.clock+minRememberedMillis {
			n.remember(&m.revisions, of, of.version(v))
		}
		least = of.version(v) + 1
	}
	if of == nil || author != of.change.author {
		author = v.share(author)
	}
	return dataChange{v.give(least, m.lineage.base), m.stampMillis, author, m.clock.millis}
}

// minRememberedMillis is the time that a version must last to be remembered, by stamps, which stand still after a clock
// was put back, or by the log clock, which stands still while an older server is there. One that has not lasted for it
// is part of the next.
const minRememberedMillis = 1000

// remember keeps a version of a semaphore's data that another one replaces, as far as the history of the node allows.
func (n *node) remember(store *revisions.Store, sem *semaphore, version uint64) {
	if version == 0 || n.history == HistoryNone {
		return
	}
	r := revisions.Revision{Version: version, Millis: sem.change.millis, Author: sem.change.author,
		Bytes: len(sem.data)}
	if n.history == HistoryData {
		r.Data, r.Kept = sem.data, true
	}
	store.Add(uint64(n.id), uint64(sem.id), r)
}

// author returns the name of the user whose session it is, empty if the user is unknown or has been removed.
func (s *session) author(users *accounts.Accounts) string {
	if s.owner.Kind == IdentityUser {
		return users.NameOf(s.owner.User)
	}
	return s.owner.Subject
}

func (m *Machine) deleteSemaphore(n *node, s *session, c *DeleteSemaphore) {
	sem := n.semaphores[c.Name]
	if sem == nil {
		m.refuse(&c.Origin, RequestDelete, SemaphoreMissing)
		return
	}
	if refusal := sem.keeps(c.Force); refusal != nil {
		m.refuse(&c.Origin, RequestDelete, refusal)
		return
	}
	m.user = s.author(m.accounts)
	m.removeSemaphore(n, c.Session, sem)
	m.answer(&c.Origin, RequestDelete, false)
}

// keeps returns why a semaphore cannot be removed, nil if it can.
func (s *semaphore) keeps(force bool) *Refusal {
	switch {
	case s.ephemeral:
		return CannotDeleteEphemeral
	case !force && (s.owners.length > 0 || s.waiters.length > 0):
		return SemaphoreNotEmpty
	}
	return nil
}

// removeSemaphore removes a semaphore with its owners and waiters, for a session, or 0.
func (m *Machine) removeSemaphore(n *node, by SessionID, sem *semaphore) {
	m.cause = OccurSemaphoreDeleted
	for l := sem.waiters.first; l != nil; l = sem.waiters.first {
		m.endWait(n, l, SemaphoreDestroyed)
		m.linkOccurs(OccurWaitEnded, n, l)
		n.remove(l)
	}
	for l := sem.owners.first; l != nil; l = sem.owners.first {
		m.linkOccurs(OccurLockLost, n, l)
		n.remove(l)
	}
	m.semaphoreOccurs(OccurSemaphoreDeleted, n, by, sem, len(sem.data))
	m.destroy(n, sem)
}

func (m *Machine) acquireSemaphore(n *node, s *session, c *AcquireSemaphore) {
	sem := n.semaphores[c.Name]
	switch {
	case sem == nil && !c.Ephemeral:
		m.refuse(&c.Origin, RequestAcquire, SemaphoreMissing)
		return
	case sem != nil && sem.ephemeral != c.Ephemeral:
		m.refuse(&c.Origin, RequestAcquire, EphemeralMismatch)
		return
	case sem != nil && c.Count > sem.limit:
		m.refuse(&c.Origin, RequestAcquire, CountOverLimit)
		return
	case sem == nil && uint64(len(n.semaphores)) >= m.limits.semaphores():
		m.refuse(&c.Origin, RequestAcquire, TooManySemaphores)
		return
	case sem == nil && !m.mayLink(s):
		m.refuse(&c.Origin, RequestAcquire, TooManyLinks)
		return
	case sem == nil:
		if refusal := m.refusalOf(n, 2, len(c.Name)+len(c.Data), 0); refusal != nil {
			m.refuse(&c.Origin, RequestAcquire, refusal)
			return
		}
		sem = n.addSemaphore(c.Name, Infinite, nil, true)
	}
	l := n.find(s, sem)
	switch {
	case l == nil:
		m.acquireAnew(n, s, sem, c)
	case c.Count > l.count:
		m.refuse(&c.Origin, RequestAcquire, CountIncreased)
	case l.owner:
		m.acquireAsOwner(n, l, c)
	default:
		m.acquireAsWaiter(n, l, c)
	}
}

// acquireAnew is §3.4 8c. A try fails behind any queue, even if its tokens are free: nobody overtakes.
func (m *Machine) acquireAnew(n *node, s *session, sem *semaphore, c *AcquireSemaphore) {
	granted := sem.waiters.first == nil && c.Count <= sem.free()
	if c.TimeoutMillis == 0 && !granted {
		m.answer(&c.Origin, RequestAcquire, false)
		return
	}
	if !m.mayLink(s) {
		m.refuse(&c.Origin, RequestAcquire, TooManyLinks)
		return
	}
	if refusal := m.refusalOf(n, 1, len(c.Data), 0); refusal != nil {
		m.refuse(&c.Origin, RequestAcquire, refusal)
		return
	}
	l := n.insert(s, sem)
	n.setWait(l, c, m.at(), m.clock.millis)
	if !granted {
		n.enqueue(l, m.stampMillis)
		m.linkOccurs(OccurLockAwaited, n, l)
		m.pend(n, l)
		return
	}
	n.makeOwner(l, m.stampMillis)
	m.linkOccurs(OccurLockGranted, n, l)
	m.answer(&c.Origin, RequestAcquire, true)
	m.ownersChanged(n, sem)
}

// acquireAsOwner is §3.4 8a: lowering the count, replacing the data, or nothing at all. The order id stays
// and the timeout is ignored.
func (m *Machine) acquireAsOwner(n *node, l *link, c *AcquireSemaphore) {
	lowered := c.Count < l.count
	changed := lowered || !bytes.Equal(l.data, c.Data)
	if changed {
		if refusal := m.refusalOf(n, 0, len(c.Data), len(l.data)); refusal != nil {
			m.refuse(&c.Origin, RequestAcquire, refusal)
			return
		}
		n.touch(l)
		l.semaphore.held -= l.count - c.Count
		l.count = c.Count
		n.setData(l, c.Data)
	}
	m.answer(&c.Origin, RequestAcquire, true)
	if lowered {
		m.promote(n, l.semaphore)
	}
	if changed {
		m.ownersChanged(n, l.semaphore)
	}
}

// acquireAsWaiter is §3.4 8b: the older request is superseded, its place in the queue stays.
func (m *Machine) acquireAsWaiter(n *node, l *link, c *AcquireSemaphore) {
	sem := l.semaphore
	first := sem.waiters.first == l
	tried := c.TimeoutMillis == 0 && !(first && c.Count <= sem.free())
	if refusal := m.refusalOf(n, 0, len(c.Data), len(l.data)); !tried && refusal != nil {
		m.refuse(&c.Origin, RequestAcquire, refusal)
		return
	}
	m.endWait(n, l, Superseded)
	if tried {
		m.answer(&c.Origin, RequestAcquire, false)
		m.leaveQueue(n, l)
		return
	}
	n.touch(l)
	n.setWait(l, c, m.at(), m.clock.millis)
	if first && m.promote(n, sem) {
		m.ownersChanged(n, sem)
		return
	}
	m.pend(n, l)
}

func (n *node) setWait(l *link, c *AcquireSemaphore, at Position, clock uint64) {
	l.count, l.timeoutMillis = c.Count, c.TimeoutMillis
	l.address, l.waitEpoch = c.Address, at
	if l.since = 0; c.TimeoutMillis != Infinite {
		l.since = clock
	}
	n.setData(l, c.Data)
}

func (m *Machine) releaseSemaphore(n *node, s *session, c *ReleaseSemaphore) {
	var l *link
	if sem := n.semaphores[c.Name]; sem != nil {
		l = n.find(s, sem)
	}
	switch {
	case l == nil:
		m.answer(&c.Origin, RequestRelease, false)
	case l.owner:
		m.answer(&c.Origin, RequestRelease, true)
		m.leaveOwners(n, l)
	default:
		m.endWait(n, l, Superseded)
		m.answer(&c.Origin, RequestRelease, true)
		m.leaveQueue(n, l)
	}
}

// expireWaiter ends a wait whose time is up. It does nothing if the wait is not the one the leader decided
// on.
func (m *Machine) expireWaiter(n *node, c *ExpireWaiter, term Term) {
	l := n.links[linkKey{c.Session, c.Semaphore}]
	if c.Term != term || l == nil || l.owner || l.order != c.Order || l.waitEpoch != c.WaitEpoch {
		return
	}
	m.endWait(n, l, nil)
	m.leaveQueue(n, l)
}

// endSession is §3.9: everything owned first, then everything waited for, then the record itself.
func (m *Machine) endSession(n *node, s *session, answer Address) {
	m.emit(Effect{Kind: EffectSessionEnded, Node: n.id, Session: s.id, Address: answer})
	for _, owned := range [...]bool{true, false} {
		for l := s.links.first; l != nil; {
			next := l.nextOfSession
			switch {
			case l.owner != owned:
			case owned:
				m.leaveOwners(n, l)
			default:
				m.emit(Effect{Kind: EffectWaitDropped, Node: n.id, Session: s.id, Order: l.order})
				m.leaveQueue(n, l)
			}
			l = next
		}
	}
	n.removeSession(s)
}

// leaveOwners removes an owner, promotes the waiters that fit now, and notifies the watchers.
func (m *Machine) leaveOwners(n *node, l *link) {
	sem := l.semaphore
	m.linkOccurs(OccurLockLost, n, l)
	n.remove(l)
	if sem.ephemeral && sem.owners.first == nil && sem.waiters.first == nil {
		m.destroy(n, sem)
		return
	}
	m.promote(n, sem)
	m.ownersChanged(n, sem)
}

// leaveQueue takes a waiter out. Only the first one's going can let others in.
func (m *Machine) leaveQueue(n *node, l *link) {
	sem := l.semaphore
	first := sem.waiters.first == l
	m.linkOccurs(OccurWaitEnded, n, l)
	n.remove(l)
	if first && m.promote(n, sem) {
		m.ownersChanged(n, sem)
	}
}

// promote makes the first waiter an owner as long as it fits, and reports whether it let anybody in.
func (m *Machine) promote(n *node, sem *semaphore) bool {
	granted := false
	for l := sem.waiters.first; l != nil && l.count <= sem.free(); l = sem.waiters.first {
		sem.waiters.remove(l)
		n.count(Counts{Waiters: 1}, -1)
		n.makeOwner(l, m.stampMillis)
		m.linkOccurs(OccurLockGranted, n, l)
		m.result(l.session, Effect{Node: n.id, Address: l.address, Request: RequestAcquire, Done: true,
			Order: l.order})
		granted = true
	}
	return granted
}

func (m *Machine) destroy(n *node, sem *semaphore) {
	n.removeSemaphore(sem)
	m.revisions.Forget(uint64(n.id), uint64(sem.id))
	m.changed(n, sem, Effect{DataChanged: true, OwnersChanged: true, Deleted: true})
}

func (m *Machine) ownersChanged(n *node, sem *semaphore) {
	m.changed(n, sem, Effect{OwnersChanged: true})
}
