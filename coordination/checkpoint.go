package coordination

import (
	"cmp"
	"maps"
	"slices"

	"github.com/coordd/coordd/scheme"
)

// rowTracker knows which rows have changed since the last checkpoint. A row that is made and removed between
// two checkpoints leaves no trace, so a busy lock costs one row, or none.
type rowTracker struct {
	generation uint32 // of the dirty list; the frozen one's is one less
	dirty      []trackedRow
	base       uint64 // sum of the hashes of all captured rows of living nodes
	checkpoint *Checkpoint
}

type trackedRow struct {
	node *node
	tracked
}

// touch must be called before a row changes, or when it has been made: a frozen version that nobody has
// captured yet is captured first.
func (n *node) touch(r tracked) {
	t, mark := n.rows, r.rowMark()
	if mark.listed {
		if mark.generation == t.generation {
			return
		}
		t.checkpoint.capture(int(mark.position))
	}
	t.list(n, r)
}

func (t *rowTracker) list(n *node, r tracked) {
	mark := r.rowMark()
	mark.listed, mark.generation, mark.position = true, t.generation, int32(len(t.dirty))
	t.dirty = append(t.dirty, trackedRow{n, r})
}

// removed must be called when a row is gone. It reports whether nobody refers to it any more.
func (n *node) removed(r tracked) bool {
	t, mark := n.rows, r.rowMark()
	if mark.listed && mark.generation != t.generation {
		t.checkpoint.capture(int(mark.position))
	}
	switch {
	case !mark.stored:
		t.unlist(mark)
		return true
	case !mark.listed:
		t.list(n, r)
	}
	mark.deleted = true
	return false
}

func (t *rowTracker) unlist(mark *rowMark) {
	last := len(t.dirty) - 1
	moved := t.dirty[last]
	t.dirty[mark.position] = moved
	moved.rowMark().position = mark.position
	t.dirty[last] = trackedRow{}
	t.dirty = t.dirty[:last]
	mark.listed = false
}

// Checkpoint is the machine's state at one index, as far as it differs from the previous checkpoint. It is
// captured in slices, between commands, so that no command waits for the whole of it.
type Checkpoint struct {
	machine   *Machine
	own       MachineRow // without its digest
	dropped   []NodeID
	paths     []scheme.Change // not yet captured; nothing that happens to the tree changes them
	frozen    []trackedRow
	position  int
	ready     []Row  // captured, not yet handed out
	digest    uint64 // of what is captured so far; in the end that of everything
	completed bool
}

// Freeze starts a checkpoint of the present state. There may be only one at a time: the one before must have
// been drained by Next.
func (m *Machine) Freeze() *Checkpoint {
	m.mustBeBetween("a checkpoint")
	if m.rows.checkpoint != nil {
		panic("coordination: a checkpoint is already being captured")
	}
	cp := &Checkpoint{machine: m, own: m.ownRow(), dropped: m.dropped, frozen: m.rows.dirty}
	m.dropped, m.rows.dirty = nil, nil
	m.rows.generation++
	m.rows.checkpoint = cp
	cp.paths = m.tree.TakeChanged()
	cp.digest = m.rows.base + m.pathsBase + cp.captureAccounts()
	return cp
}

func (cp *Checkpoint) capturePath(change scheme.Change) {
	m, id := cp.machine, change.ID
	before := m.pathsBase
	defer func() { cp.digest += m.pathsBase - before }()
	m.pathsBase -= m.pathHashes[id]
	if change.Removed {
		delete(m.pathHashes, id)
		cp.ready = append(cp.ready, DeletedRow{RowKey{Kind: RowPath, ID: uint64(id)}})
		return
	}
	row := PathRow{change.Entry}
	m.pathHashes[id] = row.hash()
	m.pathsBase += m.pathHashes[id]
	cp.ready = append(cp.ready, row)
}

// Index is the position in the log whose state this is.
func (cp *Checkpoint) Index() Index { return cp.own.Index }

// Dropped lists the coordination nodes dropped since the previous checkpoint: all their rows are to be
// forgotten before the rows of this one are stored.
func (cp *Checkpoint) Dropped() []NodeID { return cp.dropped }

// Next captures and returns up to about limit rows, nil when all have been handed out. The last row of all is
// the MachineRow.
func (cp *Checkpoint) Next(limit int) []Row {
	for len(cp.paths) > 0 && len(cp.ready) < max(limit, 1) {
		cp.capturePath(cp.paths[0])
		cp.paths = cp.paths[1:]
	}
	for len(cp.paths) == 0 && cp.position < len(cp.frozen) && len(cp.ready) < max(limit, 1) {
		if cp.frozen[cp.position].node != nil {
			cp.capture(cp.position)
		}
		cp.position++
	}
	if len(cp.paths) == 0 && cp.position == len(cp.frozen) && !cp.completed {
		cp.completed = true
		cp.machine.rows.checkpoint = nil
		row := cp.own
		cp.digest += row.hash()
		row.Digest = cp.digest
		cp.ready = append(cp.ready, row)
	}
	rows := cp.ready
	cp.ready = nil
	return rows
}

// Digest is that of the state at Index (Machine.Digest). It is known once Next has handed out all rows.
func (cp *Checkpoint) Digest() (digest uint64, known bool) { return cp.digest, cp.completed }

// RestoredDigest is the digest of the checkpoint that the machine was read from, and the index of that; 0 if
// from none.
func (m *Machine) RestoredDigest() (index Index, digest uint64) { return m.restored, m.restoredDigest }

// capture takes the row at position as it is now.
func (cp *Checkpoint) capture(position int) {
	n, r := cp.frozen[position].node, cp.frozen[position].tracked
	cp.frozen[position] = trackedRow{}
	tracker := cp.machine.rows
	mark := r.rowMark()
	mark.listed = false
	if n.droppedIn != 0 && n.droppedIn < tracker.generation {
		return // dropped before the freeze: its rows are forgotten as a whole
	}
	var row Row = DeletedRow{r.row(n).Key()}
	if !mark.deleted {
		row = r.row(n)
	}
	change := row.hash() - mark.hash
	cp.digest += change
	n.base += change
	if n.droppedIn == 0 {
		tracker.base += change
	}
	mark.hash, mark.stored = row.hash(), true
	cp.ready = append(cp.ready, row)
}

// Digest is the sum of the hashes of all rows of the present state: servers that have applied the same log
// have the same. It takes time proportional to what has changed since the last checkpoint.
func (m *Machine) Digest() uint64 {
	m.mustBeBetween("a digest")
	digest := m.rows.base + m.ownRow().hash()
	lists := [][]trackedRow{m.rows.dirty}
	if m.rows.checkpoint != nil {
		lists = append(lists, m.rows.checkpoint.frozen)
	}
	for _, list := range lists {
		for _, r := range list {
			if r.node == nil || r.node.droppedIn != 0 {
				continue
			}
			digest -= r.rowMark().hash
			if !r.rowMark().deleted {
				digest += r.row(r.node).hash()
			}
		}
	}
	for entry := range m.tree.All() {
		digest += PathRow{entry}.hash()
	}
	for _, row := range rowsOf(m.accounts) {
		digest += row.hash()
	}
	return digest
}

// AllRows returns a full checkpoint of the present state, the MachineRow last, and leaves what Freeze tracks
// alone.
func (m *Machine) AllRows() []Row {
	m.mustBeBetween("a checkpoint")
	var rows []Row
	digest := uint64(0)
	add := func(row Row) {
		rows = append(rows, row)
		digest += row.hash()
	}
	for entry := range m.tree.All() {
		add(PathRow{entry})
	}
	for _, row := range rowsOf(m.accounts) {
		add(row)
	}
	for _, id := range slices.Sorted(maps.Keys(m.nodes)) {
		n := m.nodes[id]
		add(n.row(n))
		for _, key := range slices.Sorted(maps.Keys(n.sessions)) {
			add(n.sessions[key].row(n))
		}
		for _, sem := range slices.SortedFunc(maps.Values(n.semaphores),
			func(a, b *semaphore) int { return cmp.Compare(a.id, b.id) }) {
			add(sem.row(n))
		}
		for _, l := range slices.SortedFunc(maps.Values(n.links),
			func(a, b *link) int { return cmp.Compare(a.order, b.order) }) {
			add(l.row(n))
		}
		for _, block := range n.listedResources.blocks {
			for _, r := range block {
				add(r.row(n))
			}
		}
	}
	row := m.ownRow()
	row.Digest = digest + row.hash()
	return append(rows, row)
}
