package coordination

import (
	"bytes"
	"fmt"

	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// What callers with rights on a node, and administrators, do to what is in it without a session.

func (m judge) administerEndSession(c *EndSession) (scheme.Step, outcome.Outcome) {
	n, refused := m.administered(c.Node, scheme.EraseRow, c.Caller)
	if n == nil {
		return nil, refused
	}
	s := n.sessions[c.Session]
	switch {
	case len(c.Reason) > MaxReasonBytes:
		return nil, outcome.Because(outcome.BadRequest, "The reason is too long")
	case s == nil:
		return nil, outcome.Because(outcome.NotFound, SessionMissing.Text)
	}
	return func() {
		m.sessionOccurs(OccurSessionEnded, n, s, &OccurrenceMore{User: c.Subject, Reason: c.Reason})
		m.endSession(n, s, Address{})
	}, outcome.Done()
}

func (m judge) administerRemoveSemaphore(c *RemoveSemaphore) (scheme.Step, outcome.Outcome) {
	n, refused := m.administered(c.Node, scheme.EraseRow, c.Caller)
	if n == nil {
		return nil, refused
	}
	sem, there := n.named.find(uint64(c.Semaphore))
	if !there {
		return nil, because(SemaphoreMissing)
	}
	if refusal := sem.keeps(c.Force); refusal != nil {
		return nil, because(refusal)
	}
	return func() { m.removeSemaphore(n, sem) }, outcome.Done()
}

func (m judge) updateData(c *UpdateData) (scheme.Step, outcome.Outcome) {
	n, refused := m.administered(c.Node, scheme.UpdateRow, c.Caller)
	if n == nil {
		return nil, refused
	}
	sem := n.semaphores[c.Name]
	switch {
	case len(c.Name) > MaxSemaphoreNameBytes:
		return nil, because(NameTooLong)
	case len(c.Data) > MaxSemaphoreDataBytes:
		return nil, because(SemaphoreDataTooLarge)
	case sem == nil && c.Expected != 0:
		return nil, outcome.Because(outcome.Aborted,
			fmt.Sprintf("Version %d was expected, but there is no such semaphore", c.Expected))
	case sem == nil:
		return m.makeWithData(n, c)
	case sem.ephemeral:
		return nil, outcome.Because(outcome.PreconditionFailed, "Ephemeral semaphores have no version")
	case sem.version(&m.versions) != c.Expected:
		return nil, outcome.Because(outcome.Aborted, fmt.Sprintf(
			"Version %d was expected, but it has version %d", c.Expected, sem.version(&m.versions)))
	case bytes.Equal(sem.data, c.Data):
		return nil, outcome.Done()
	}
	if refusal := m.refusalOf(n, 0, len(c.Data), len(sem.data)); refusal != nil {
		return nil, because(refusal)
	}
	return func() {
		n.touch(sem)
		n.setSemaphoreData(sem, c.Data, m.change(sem, c.Subject))
		m.changed(n, sem, Effect{DataChanged: true})
	}, outcome.Done()
}

func (m judge) makeWithData(n *node, c *UpdateData) (scheme.Step, outcome.Outcome) {
	refusal := m.refusalOf(n, 1, len(c.Name)+len(c.Data), 0)
	if uint64(len(n.semaphores)) >= m.limits.semaphores() {
		refusal = TooManySemaphores
	}
	if refusal != nil {
		return nil, because(refusal)
	}
	return func() {
		n.addSemaphore(c.Name, Infinite, c.Data, false).change = m.change(nil, c.Subject)
	}, outcome.Done()
}

// administered returns the node, or why nothing that needs the access may be done there.
func (m judge) administered(id NodeID, access scheme.Access, by Caller) (*node, outcome.Outcome) {
	n := m.nodes[id]
	if n == nil {
		return nil, outcome.Because(NodeNotFound.Status, NodeNotFound.Text)
	}
	if answer := m.tree.Authorize(n.path, access, m.Subject(by)); !answer.OK() {
		return nil, answer
	}
	return n, outcome.Done()
}
