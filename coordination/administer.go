package coordination

import (
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// What an administrator, or somebody with the right to erase rows on the node, does to what others have made.

func (m judge) administerEndSession(c *EndSession) (scheme.Step, outcome.Outcome) {
	n, refused := m.administered(c.Node, c.Caller)
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
	n, refused := m.administered(c.Node, c.Caller)
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

// administered returns the node, or why nothing may be done there.
func (m judge) administered(id NodeID, by Caller) (*node, outcome.Outcome) {
	n := m.nodes[id]
	if n == nil {
		return nil, outcome.Because(NodeNotFound.Status, NodeNotFound.Text)
	}
	if answer := m.tree.Authorize(n.path, scheme.EraseRow, m.Subject(by)); !answer.OK() {
		return nil, answer
	}
	return n, outcome.Done()
}
