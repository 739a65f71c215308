package model

import (
	"sort"
	"time"
)

type semaphore struct {
	model     *Model
	name      string
	data      string
	limit     uint64
	ephemeral bool
	version   uint64 // of the data
	owners    []*link
	waiters   []*link // in queue order
	watches   []watch
}

// link is a session's share of a semaphore: tokens it holds, or waits for.
type link struct {
	session       *session
	order         uint64
	count         uint64
	timeoutMillis uint64
	since         uint64 // by the log clock, of a waiter with a finite timeout
	data          string
	expires       *time.Duration // of a waiter with a finite timeout
	expiring      bool           // its time has run out, and its end is in flight
	reqID         uint64         // to answer, if addressable
	addressable   bool
	ticket        int // of the Pending that reported this wait, or 0
}

// watch is one session's one-shot watch (§4.1).
type watch struct {
	session      *session
	reqID        uint64
	data, owners bool
}

func (sem *semaphore) held() uint64 {
	var sum uint64
	for _, l := range sem.owners {
		sum += l.count
	}
	return sum
}

func (sem *semaphore) free() uint64 { return sem.limit - sem.held() }

func (sem *semaphore) owner(sess *session) *link { return linkOf(sem.owners, sess) }

func (sem *semaphore) waiter(sess *session) *link { return linkOf(sem.waiters, sess) }

func linkOf(links []*link, sess *session) *link {
	for _, l := range links {
		if l.session == sess {
			return l
		}
	}
	return nil
}

func without(links []*link, gone *link) []*link {
	var rest []*link
	for _, l := range links {
		if l != gone {
			rest = append(rest, l)
		}
	}
	return rest
}

func (sem *semaphore) dropWatch(sess *session) {
	var rest []watch
	for _, w := range sem.watches {
		if w.session != sess {
			rest = append(rest, w)
		}
	}
	sem.watches = rest
}

func (m *Model) findSemaphore(name string) *semaphore {
	for _, sem := range m.node.semaphores {
		if sem.name == name {
			return sem
		}
	}
	return nil
}

func (m *Model) removeSemaphore(gone *semaphore) {
	var rest []*semaphore
	for _, sem := range m.node.semaphores {
		if sem != gone {
			rest = append(rest, sem)
		}
	}
	m.node.semaphores = rest
}

// createSemaphore is §3.2.
func (m *Model) createSemaphore(c call) {
	sem := m.findSemaphore(c.Name)
	switch {
	case sem != nil && sem.ephemeral:
		m.refuse(c, markCreateOverEphemeral, PreconditionFailed,
			"Cannot create semaphore due to ephemeral locks")
	case sem != nil:
		m.refuse(c, markCreateExists, AlreadyExists, "Semaphore already exists")
	case len(m.node.semaphores) >= m.limits.Semaphores:
		m.refuse(c, markCreateTooMany, PreconditionFailed, "Too many semaphores already exist")
	default:
		if why := m.noRoom(1, len(c.Name)+len(c.Data), 0); why != "" {
			m.refuseGrowth(c, markCreateNoRoom, why)
			return
		}
		m.mark(markCreated)
		sem := &semaphore{model: m, name: c.Name, data: c.Data, limit: c.Limit}
		sem.count()
		m.node.semaphores = append(m.node.semaphores, sem)
		m.succeed(c, false)
	}
}

// updateSemaphore is §3.3, without the reference's habit of applying what it refused.
func (m *Model) updateSemaphore(c call) {
	sem := m.findSemaphore(c.Name)
	switch {
	case sem == nil:
		m.refuse(c, markUpdateMissing, NotFound, "Semaphore does not exist")
	case sem.data == c.Data:
		m.mark(markUpdateSame)
		m.succeed(c, false)
	default:
		if why := m.noRoom(0, len(c.Data), len(sem.data)); why != "" {
			m.refuseGrowth(c, markUpdateNoRoom, why)
			return
		}
		m.mark(markUpdated)
		if sem.ephemeral {
			m.mark(markUpdatedEphemeral)
		}
		sem.data = c.Data
		sem.count()
		m.succeed(c, false)
		sem.notify(true, false)
	}
}

// count gives a semaphore that was made, or whose data has changed, its next version. A new one begins above all that
// were ever given.
func (sem *semaphore) count() {
	if sem.ephemeral {
		return
	}
	if sem.version == 0 {
		sem.version = sem.model.lastVersion
	}
	sem.version++
	sem.model.lastVersion = max(sem.model.lastVersion, sem.version)
}

// deleteSemaphore is §3.7: the requester is answered last.
func (m *Model) deleteSemaphore(c call) {
	sem := m.findSemaphore(c.Name)
	switch {
	case sem == nil:
		m.refuse(c, markDeleteMissing, NotFound, "Semaphore does not exist")
	case sem.ephemeral:
		m.refuse(c, markDeleteEphemeral, PreconditionFailed, "Cannot delete ephemeral semaphores")
	case len(sem.owners)+len(sem.waiters) > 0 && !c.Force:
		m.refuse(c, markDeleteNotEmpty, PreconditionFailed, "Semaphore not empty")
	default:
		if len(sem.owners) > 0 {
			m.mark(markDeleteForced)
		} else {
			m.mark(markDeleteEmpty)
		}
		for _, l := range sem.waiters {
			l.answer(m, markDeleteAborts, Reply{Status: Aborted, Text: "Semaphore destroyed"})
		}
		m.removeSemaphore(sem)
		sem.notifyDeleted()
		m.succeed(c, false)
	}
}

// describe is §3.8. A describe without watch flags leaves an installed watch alone.
func (m *Model) describe(c call) {
	if c.session.stream != c.stream {
		return // it waited, and nobody is left to read the answer
	}
	sem := m.findSemaphore(c.Name)
	if sem == nil {
		m.refuse(c, markDescribeMissing, NotFound, "Semaphore not found")
		return
	}
	if !m.describable(c, sem) {
		m.refuse(c, markDescribeTooLarge, PreconditionFailed, "Semaphore description is too large to send")
		return
	}
	m.mark(markDescribed)
	d := &Description{Name: sem.name, Data: sem.data, Count: sem.held(), Limit: sem.limit,
		Ephemeral: sem.ephemeral}
	if c.IncludeOwners {
		d.Owners = describeLinks(sem.owners, true)
	}
	if c.IncludeWaiters {
		d.Waiters = describeLinks(sem.waiters, false)
	}
	watching := c.WatchData || c.WatchOwners
	for _, w := range sem.watches {
		if w.session != c.session {
			continue
		}
		if !watching {
			m.mark(markDescribeKeepsWatch)
			continue
		}
		m.mark(markWatchReplaced)
		c.stream.send(Reply{Kind: ChangedBy, ReqID: w.reqID})
	}
	if watching {
		sem.dropWatch(c.session)
		sem.watches = append(sem.watches, watch{c.session, c.ReqID, c.WatchData, c.WatchOwners})
	}
	c.stream.send(Reply{Kind: Result, To: Describe, ReqID: c.ReqID, Status: Success, WatchAdded: watching,
		Description: d})
}

func describeLinks(links []*link, owners bool) []LinkDescription {
	var list []LinkDescription
	for _, l := range links {
		d := LinkDescription{Order: l.order, Session: l.session.id, TimeoutMillis: l.timeoutMillis,
			Count: l.count, Data: l.data}
		if owners {
			d.TimeoutMillis = 0
		}
		list = append(list, d)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Order < list[j].Order })
	return list
}

// notify fires the watches that an event concerns, each once (§4.1).
func (sem *semaphore) notify(data, owners bool) {
	if sem.model.changed != nil {
		sem.model.changed(Change{Name: sem.name, Data: data, Owners: owners})
	}
	var rest []watch
	for _, w := range sem.watches {
		if !(w.data && data) && !(w.owners && owners) {
			sem.model.mark(markWatchNotConcerned)
			rest = append(rest, w)
			continue
		}
		sem.model.mark(markWatchFired)
		w.session.stream.send(Reply{Kind: ChangedBy, ReqID: w.reqID, DataChanged: data,
			OwnersChanged: owners})
	}
	sem.watches = rest
}

// notifyDeleted fires all watches: a deleted semaphore has changed in both respects.
func (sem *semaphore) notifyDeleted() {
	if len(sem.watches) > 0 {
		sem.model.mark(markWatchFiredByDelete)
	}
	sem.notify(true, true)
}
