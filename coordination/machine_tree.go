package coordination

import (
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// What commands do to the path tree and its nodes.

func (m judge) stamp(millis uint64) scheme.Stamp {
	return scheme.Stamp{PlanStep: millis, TxID: uint64(m.index)}
}

func (m judge) makeDirectory(c *MakeDirectory) (scheme.Step, outcome.Outcome) {
	if answer := m.tree.AuthorizeCreation(c.Path, scheme.CreateDirectory, m.Subject(c.Caller)); !answer.OK() {
		return nil, answer
	}
	m.boundTree()
	return m.tree.MakeDirectory(c.Path, c.Owner, m.stamp(c.StampMillis))
}

func (m judge) removeDirectory(c *RemoveDirectory) (scheme.Step, outcome.Outcome) {
	if answer := m.tree.Authorize(c.Path, scheme.RemoveSchema, m.Subject(c.Caller)); !answer.OK() {
		return nil, answer
	}
	return m.tree.RemoveDirectory(c.Path)
}

func (m judge) modifyPermissions(c *ModifyPermissions) (scheme.Step, outcome.Outcome) {
	if answer := m.tree.AuthorizePermissions(c.Path, c.Change, m.Subject(c.Caller)); !answer.OK() {
		return nil, answer
	}
	m.boundTree()
	modify, answer := m.tree.ModifyPermissions(c.Path, c.Change)
	if modify == nil {
		return nil, answer
	}
	return func() {
		modify()
		m.accessVersion++
	}, answer
}

func (m judge) createNode(c *CreateNode) (scheme.Step, outcome.Outcome) {
	if answer := m.tree.AuthorizeCreation(c.Path, scheme.CreateTable, m.Subject(c.Caller)); !answer.OK() {
		return nil, answer
	}
	m.boundTree()
	create, answer := m.tree.CreateNode(c.Path, scheme.NewNode{
		ID: m.nextNode, Owner: c.Owner, Created: m.stamp(c.StampMillis), ConfigHasPath: c.SetsPath,
		Bytes: NodeRow{}.sized(),
	})
	if create == nil {
		return nil, answer
	}
	return func() {
		create()
		n := newNode(m.nextNode, c.Config, m.rows, m.room)
		n.path = c.Path
		n.quotas = m.tree.Accounts(c.Path)
		for _, a := range n.quotas {
			a.Used.Bytes += n.used
		}
		n.startAt(m.lineage)
		m.addNode(n)
		m.nextNode++
		n.touch(n)
	}, answer
}

func (m *Machine) addNode(n *node) {
	m.nodes[n.id] = n
	m.inOrder.append(n)
}

func (m judge) alterNode(c *AlterNode) (scheme.Step, outcome.Outcome) {
	if answer := m.tree.Authorize(c.Path, scheme.AlterSchema, m.Subject(c.Caller)); !answer.OK() {
		return nil, answer
	}
	entry, answer := m.tree.NodeToAlter(c.Path)
	switch {
	case !answer.OK():
		return nil, answer
	case c.SetsPath:
		return nil, scheme.RefuseConfigPath()
	}
	return func() {
		n := m.nodes[entry.Node]
		m.walk.altering(n)
		n.touch(n)
		detailed := n.config.DetailedCounters()
		if n.config = n.config.Merge(c.Config); n.config.DetailedCounters() != detailed && len(n.resources) > 0 {
			m.emit(Effect{Kind: EffectResourceAltered, Node: n.id})
		}
	}, answer
}

func (m judge) setHistory(c *SetHistory) (scheme.Step, outcome.Outcome) {
	if answer := m.tree.Authorize(c.Path, scheme.AlterSchema, m.Subject(c.Caller)); !answer.OK() {
		return nil, answer
	}
	entry, answer := m.tree.NodeToAlter(c.Path)
	switch {
	case !answer.OK():
		return nil, answer
	case c.History > HistoryData:
		return nil, outcome.Because(outcome.BadRequest, "History is unknown")
	}
	return func() {
		n := m.nodes[entry.Node]
		n.touch(n)
		switch n.history = c.History; n.history { // what is not to be kept goes at once
		case HistoryNone:
			m.revisions.ForgetNode(uint64(n.id))
		case HistoryMeta:
			m.revisions.ForgetData(uint64(n.id))
		}
	}, answer
}

// dropNode forgets the node at once, whatever it holds; its stored rows are forgotten as a whole at the next
// checkpoint.
func (m judge) dropNode(c *DropNode) (scheme.Step, outcome.Outcome) {
	if answer := m.tree.Authorize(c.Path, scheme.RemoveSchema, m.Subject(c.Caller)); !answer.OK() {
		return nil, answer
	}
	id, drop, answer := m.tree.DropNode(c.Path)
	if drop == nil {
		return nil, answer
	}
	return func() {
		drop()
		m.forgetNode(m.nodes[id], c)
	}, answer
}

func (m *Machine) forgetNode(n *node, c *DropNode) {
	if m.observed {
		m.occurs(Occurrence{Kind: OccurNodeDropped, Node: n.id, Count: uint64(len(n.sessions)),
			Before: uint64(n.counts.Owners), More: &OccurrenceMore{User: c.Subject, Path: c.Path.String()}})
	}
	n.walk.dropping(n)
	m.inOrder.remove(n)
	delete(m.nodes, n.id)
	m.revisions.ForgetNode(uint64(n.id))
	n.droppedIn = m.rows.generation
	m.rows.base -= n.base
	n.free(n.used)
	n.count(n.counts, -1)
	m.dropped = append(m.dropped, n.id)
	m.emit(Effect{Kind: EffectNodeDropped, Node: n.id})
}
