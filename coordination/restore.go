package coordination

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme"
)

// Restorer rebuilds a machine from the rows of a checkpoint.
type Restorer struct {
	machine    *Machine
	header     *MachineRow
	entries    []scheme.Entry
	semaphores map[NodeID][]*semaphore // of each node, ascending by id
	users      []accounts.User
	keys       []accounts.SigningKey
}

// NewRestorer starts with an empty machine for the given database.
func NewRestorer(database string, limits Limits) (*Restorer, error) {
	m, err := NewMachine(database, limits)
	if err != nil {
		return nil, err
	}
	return &Restorer{machine: m, semaphores: make(map[NodeID][]*semaphore)}, nil
}

// Add takes the next row. A node's rows must come in the order of their kinds, and nodes and what belongs to
// them in the order of their ids.
func (r *Restorer) Add(row Row) error {
	switch row := row.(type) {
	case MachineRow:
		r.header = &row
		return nil
	case PathRow:
		r.entries = append(r.entries, row.Entry)
		return nil
	case UserRow, SigningKeyRow:
		r.restoreAccount(row)
		return nil
	case NodeRow:
		n := newNode(row.ID, row.Config, r.machine.rows, r.machine.room)
		n.nextSession, n.nextSemaphore, n.nextOrder = row.NextSession, row.NextSemaphore, row.NextOrder
		n.nextResource, n.history = row.NextResource, row.History
		r.machine.addNode(n)
		r.machine.stored(n, n, row)
		return nil
	}
	n := r.machine.nodes[row.Key().Node]
	if n == nil {
		return fmt.Errorf("row %v belongs to a coordination node that is not there", row.Key())
	}
	switch row := row.(type) {
	case SessionRow:
		s := &session{id: row.ID, timeoutMillis: row.TimeoutMillis, description: row.Description,
			protectionKey: row.ProtectionKey, attachEpoch: row.AttachEpoch, nonce: row.Nonce,
			beganMillis: row.BeganMillis, owner: row.Owner, absence: absence{row.AbsentSince, row.AbsentTotalMillis}}
		n.hold(s)
		n.use(row.sized())
		r.machine.stored(n, s, row)
	case SemaphoreRow:
		known := r.semaphores[n.id]
		if last := len(known) - 1; last >= 0 && known[last].id >= row.ID {
			return fmt.Errorf("row %v comes behind that of semaphore %d", row.Key(), known[last].id)
		}
		sem := &semaphore{id: row.ID, name: row.Name, data: row.Data, limit: row.Limit,
			ephemeral: row.Ephemeral,
			change:    dataChange{row.Version, row.ChangedMillis, r.machine.versions.share(row.Author), 0}}
		n.bytes += sem.bytes()
		n.use(row.sized())
		n.count(Counts{Semaphores: 1}, 1)
		r.semaphores[n.id] = append(known, sem)
		n.named.append(sem)
		r.machine.stored(n, sem, row)
	case LinkRow:
		return r.addLink(n, row)
	case ResourceRow:
		held := &resource{id: row.ID, path: row.Path, properties: row.ResourceProperties}
		if !n.holdResource(held) {
			return fmt.Errorf("row %v comes before that of what %q is below", row.Key(), row.Path)
		}
		r.machine.stored(n, held, row)
	default:
		return fmt.Errorf("row %v is of an unexpected kind", row.Key())
	}
	return nil
}

func (r *Restorer) addLink(n *node, row LinkRow) error {
	s, known := n.sessions[row.Session], r.semaphores[n.id]
	at, found := slices.BinarySearchFunc(known, row.Semaphore,
		func(sem *semaphore, id SemaphoreID) int { return cmp.Compare(sem.id, id) })
	if s == nil || !found {
		return fmt.Errorf("row %v ties session %d to semaphore %d, which are not both there", row.Key(),
			row.Session, row.Semaphore)
	}
	sem := known[at]
	l := &link{session: s, semaphore: sem, order: row.Order, count: row.Count,
		timeoutMillis: row.TimeoutMillis, data: row.Data, address: row.Address, waitEpoch: row.WaitEpoch,
		owner: row.Owner, beganMillis: row.BeganMillis, since: row.Since}
	if n.links[l.key()] != nil {
		return fmt.Errorf("row %v is the second that ties session %d to semaphore %d", row.Key(), row.Session,
			row.Semaphore)
	}
	n.links[l.key()] = l
	n.bytes += uint64(len(l.data))
	n.use(row.sized())
	s.links.append(l)
	if l.owner {
		sem.owners.append(l)
		sem.held += l.count
		n.count(Counts{Owners: 1}, 1)
	} else {
		sem.waiters.append(l)
		n.count(Counts{Waiters: 1}, 1)
	}
	r.machine.stored(n, l, row)
	return nil
}

// nameSemaphores makes semaphores findable by their names, once it is known how many there are: a table that
// grows with them takes more time than all else about them.
func (r *Restorer) nameSemaphores() {
	for id, semaphores := range r.semaphores {
		byName := make(map[string]*semaphore, len(semaphores))
		for _, sem := range semaphores {
			byName[sem.name] = sem
		}
		r.machine.nodes[id].semaphores = byName
	}
}

// stored marks a row as known to the checkpoint it was read from.
func (m *Machine) stored(n *node, t tracked, row Row) {
	mark := t.rowMark()
	mark.stored, mark.hash = true, row.hash()
	n.base += mark.hash
	m.rows.base += mark.hash
}

// Finish returns the machine once all rows have been added. It fails if the rows do not add up to what was
// stored.
func (r *Restorer) Finish() (*Machine, error) {
	m := r.machine
	if r.header == nil {
		return nil, errors.New("the checkpoint has no closing row")
	}
	r.nameSemaphores()
	if err := m.tree.Restore(r.entries); err != nil {
		return nil, fmt.Errorf("path tree: %w", err)
	}
	for _, entry := range r.entries {
		hash := PathRow{entry}.hash()
		m.pathHashes[entry.ID] = hash
		m.pathsBase += hash
		if n := m.nodes[entry.Node]; n != nil {
			n.path, _ = m.tree.PathOf(entry.ID)
		}
	}
	m.countQuotas()
	m.accounts = accounts.Restored(r.users, r.keys)
	m.accountBytes = accountsBytes(m.accounts)
	m.index, m.restored, m.nextNode = r.header.Index, r.header.Index, r.header.NextNode
	m.lineage = lineage{id: r.header.Lineage, base: r.header.CounterBase, since: r.header.LineageSince}
	m.stampMillis = r.header.StampMillis
	m.calm = calm{quiet: r.header.QuietTerm, heir: r.header.HeirTerm, since: r.header.CalmSinceMillis}
	m.clock = logClock{millis: r.header.ClockMillis, base: r.header.ClockBaseMillis, term: r.header.ClockTerm}
	m.limits, m.versions.next = r.header.Limits, r.header.NextVersion
	m.calls.complete = m.index
	m.restoredDigest = r.header.Digest
	if digest := m.rows.base + m.pathsBase + m.accountRows.base + r.header.hash(); digest != r.header.Digest {
		return nil, fmt.Errorf("the rows of the checkpoint at index %d have digest %016x, stored is %016x",
			m.index, digest, r.header.Digest)
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	return m, nil
}
