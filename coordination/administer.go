package coordination

import (
	"bytes"
	"fmt"
	"math"
	"strings"

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
	case c.Order != 0 && OrderOf(m.Machine, c.Node, c.Semaphore, c.Session) != c.Order:
		return nil, outcome.Because(outcome.PreconditionFailed,
			"It has changed since: the session has given the semaphore up")
	case s == nil:
		return nil, outcome.Because(outcome.NotFound, SessionMissing.Text)
	}
	return func() {
		m.endOccurs(OccurSessionEnded, n, s, OccurrenceMore{User: c.Subject, Reason: c.Reason, Client: c.Client})
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
	if c.Seen && OrderOf(m.Machine, c.Node, c.Semaphore, 0) != c.Owner {
		return nil, outcome.Because(outcome.PreconditionFailed,
			"It has changed since: another session owns the semaphore, or none")
	}
	if refusal := sem.keeps(c.Force); refusal != nil {
		return nil, because(refusal)
	}
	return func() {
		m.user = c.Subject
		m.removeSemaphore(n, 0, sem)
	}, outcome.Done()
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
	case sem.version(&m.versions) != c.Expected || c.Expected == 0:
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
		before := len(sem.data)
		n.setSemaphoreData(sem, c.Data, m.change(n, sem, c.Subject))
		m.user = c.Subject
		m.semaphoreOccurs(OccurDataChanged, n, 0, sem, before)
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
		sem := n.addSemaphore(c.Name, Infinite, c.Data, false)
		sem.change = m.change(n, nil, c.Subject)
		m.user = c.Subject
		m.semaphoreOccurs(OccurSemaphoreCreated, n, 0, sem, 0)
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

// callOccurs notes what a call has changed, unless another occurrence does, or no person has made it.
func (m judge) callOccurs(c callCommand) {
	if !m.observed {
		return
	}
	act, path, target := "", scheme.Path(nil), ""
	switch c := c.(type) {
	case *CreateNode:
		act, path = "create node", c.Path
	case *AlterNode:
		act, path = "alter node", c.Path
	case *MakeDirectory:
		act, path = "make directory", c.Path
	case *RemoveDirectory:
		act, path = "remove directory", c.Path
	case *ModifyPermissions:
		act, path, target = "change permissions", c.Path, permissionsText(&c.Change)
	case *SetQuota:
		act, path = "set quota", c.Path
		target = fmt.Sprintf("%d bytes, %d entries", c.Quota.Bytes, c.Quota.Entries)
	case *SetHistory:
		act, path, target = "set history", c.Path, [...]string{"meta", "none", "data"}[c.History]
	case *SetLimits:
		if !c.OnlyFirst {
			act, target = "set limits", fmt.Sprintf("%d bytes", c.Limits.State)
		}
	case *CreateResource:
		act, path, target = "create resource", c.Path, c.Resource
	case *AlterResource:
		act, path, target = "alter resource", c.Path, c.Resource
	case *DropResource:
		act, path, target = "drop resource", c.Path, c.Resource
	case *AddUser:
		act, target = "add user", c.Name
	case *SetPassword:
		act, target = "set password", c.Name
	case *RemoveUser:
		act, target = "remove user", c.Name
	case *RotateSigningKey:
		if c.DropBeforeMillis == math.MaxUint64 { // otherwise a server has replaced an old one
			act = "invalidate all tokens"
		}
	}
	if act == "" {
		return
	}
	o := Occurrence{Kind: OccurAdministered,
		More: &OccurrenceMore{User: c.by().Subject, Act: act, Target: target}}
	if path != nil {
		entry, _ := m.tree.Lookup(path)
		o.Node, o.More.Path = entry.Node, path.String()
	}
	m.occurs(o)
}

// maxChangeTextBytes is about where the description of a change of permissions ends: a change may have 10,000 actions.
const maxChangeTextBytes = 200

// permissionsText describes a change of permissions.
func permissionsText(c *scheme.PermissionsChange) string {
	var words []string
	if c.Clear {
		words = append(words, "clear")
	}
	for i, bytes := 0, 0; i < len(c.Actions); i++ {
		if bytes >= maxChangeTextBytes {
			words = append(words, fmt.Sprintf("and %d more", len(c.Actions)-i))
			break
		}
		words = append(words, c.Actions[i].String())
		bytes += len(words[len(words)-1])
	}
	return strings.Join(words, ", ")
}
