package coordination

import (
	"math"

	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// Accounting of the state's size, and the limit on it.
//
// Every row counts, with a charge of its kind and the bytes of its names, texts and data. The charge covers
// the row's key and its numbers at their longest, so that the size of a row is at least its encoded size, and about its
// size in memory; it never depends on the value of a number, so a command that only changes numbers never makes the
// state grow. Charges decide which commands are refused: they are part of the replicated rules, and must never change.

const (
	// rowBytes is the charge of a row: measured, a semaphore takes 275 bytes of memory and a link 243.
	rowBytes = 256
	// sessionRowBytes is that of a session: the leader keeps about as much again for it.
	sessionRowBytes = 2 * rowBytes
	// nodeRowBytes is that of a coordination node, which has tables of its own, here and at the leader.
	nodeRowBytes = 4 * rowBytes
)

func (m judge) setLimits(c *SetLimits) (scheme.Step, outcome.Outcome) {
	switch {
	case !m.Subject(c.Caller).Exempt:
		return nil, outcome.Denied("Only administrators may set limits")
	case c.OnlyFirst:
		return func() { m.limits = m.limits.First(c.Limits) }, outcome.Done()
	}
	return func() { m.limits = m.limits.merge(c.Limits) }, outcome.Done()
}

// Limits are those that were set by the log.
func (m *room) Limits() StateLimits { return m.limits }

// Used is the size of all rows of the state. It takes no walk.
func (m *room) Used() uint64 { return m.used + m.tree.Bytes() + m.accountBytes }

// room counts the rows of a machine, and bounds them.
type room struct {
	limits       StateLimits // set by the log
	used         uint64      // by the machine's own row and those of the nodes
	tree         *scheme.Tree
	accountBytes uint64 // by the rows of users and keys
	counts       Counts
	administers  bool // an administrator's command is being judged
}

// Counts are the numbers of rows of the state. They take no walk, and no command depends on them.
type Counts struct{ Nodes, Sessions, Semaphores, Owners, Waiters int }

func (c *Counts) add(more Counts, sign int) {
	c.Nodes += sign * more.Nodes
	c.Sessions += sign * more.Sessions
	c.Semaphores += sign * more.Semaphores
	c.Owners += sign * more.Owners
	c.Waiters += sign * more.Waiters
}

// Counts returns the numbers of rows.
func (m *room) Counts() Counts { return m.counts }

// count counts what the node has more; sign is 1 or -1.
func (n *node) count(more Counts, sign int) {
	n.counts.add(more, sign)
	n.room.counts.add(more, sign)
}

// use counts bytes of a node's rows, and free no longer counts them. A row that changes its size does both.
func (n *node) use(bytes uint64) {
	n.used += bytes
	n.room.used += bytes
	for _, a := range n.quotas {
		a.Used.Bytes += bytes
	}
}

func (n *node) free(bytes uint64) { n.use(-bytes) }

// fits says whether the state has room for so many bytes more. What does not grow always fits, also where the
// state is above its limit because that was lowered, or came later than the state.
func (m *room) fits(more uint64) bool {
	most := m.most()
	return more == 0 || m.Used() <= most && more <= most-m.Used()
}

// most bounds the size of the state after the command that is executed: the reserve is for administrators, so that a
// full state can still be administered.
func (m *room) most() uint64 {
	switch {
	case m.limits.State == 0:
		return math.MaxUint64
	case m.administers:
		return m.limits.State
	}
	return m.limits.State - min(m.limits.Reserve, m.limits.State)
}

// refuseGrowth is why a node may not take so many bytes more, nil if it may.
func (m *room) refuseGrowth(n *node, more uint64) *Refusal {
	for _, a := range n.quotas {
		if !a.Fits(more, 0) {
			return &Refusal{outcome.PreconditionFailed, a.FullText()}
		}
	}
	if !m.fits(more) {
		return StateFull
	}
	return nil
}

// refusalOf is why there is no room for some new rows of a node, and for names and data that take the place
// of older ones; nil if there is.
func (m *room) refusalOf(n *node, newRows, added, replaced int) *Refusal {
	more := uint64(newRows) * rowBytes
	if added > replaced {
		if n.bytes+uint64(added-replaced) > m.limits.nodeBytes() {
			return TooManyBytes
		}
		more += uint64(added - replaced)
	}
	return m.refuseGrowth(n, more)
}

// mayLink reports whether a session may own or wait for one more semaphore.
func (m *room) mayLink(s *session) bool {
	return m.limits.Links == 0 || s.links.length < m.limits.Links
}

// boundTree makes the path tree refuse what the state has no room for.
func (m *room) boundTree() {
	most, others := m.most(), m.Used()-m.tree.Bytes()
	m.tree.Bound(most - min(others, most))
}

// sized is the size of a row.
func (MachineRow) sized() uint64 { return rowBytes }

func (r PathRow) sized() uint64 { return scheme.EntryBytes(&r.Entry) }

func (NodeRow) sized() uint64 { return nodeRowBytes }

func (r SessionRow) sized() uint64 {
	return sessionRowBytes + uint64(len(r.Description)+len(r.ProtectionKey)+len(r.Owner.Subject))
}

func (r SemaphoreRow) sized() uint64 { return rowBytes + uint64(len(r.Name)+len(r.Data)) }

func (r LinkRow) sized() uint64 { return rowBytes + uint64(len(r.Data)) }

func (r ResourceRow) sized() uint64 {
	return rowBytes + uint64(len(r.Path)) + r.ResourceProperties.bytes()
}

func (r UserRow) sized() uint64 { return rowBytes + uint64(len(r.Name)+len(r.PasswordHash)) }

func (r SigningKeyRow) sized() uint64 { return rowBytes + uint64(len(r.Secret)) }

func (DeletedRow) sized() uint64 { return 0 }

// RowBytes is the size of a row for StateLimits.State: at least its encoded size with its key.
func RowBytes(r Row) uint64 { return r.sized() }

// sized is the same without a row, for what comes and goes with every command.
func (s *session) sized() uint64 {
	return sessionRowBytes + uint64(len(s.description)+len(s.protectionKey)+len(s.owner.Subject))
}

// sized is the size of the session that the command would make.
func (c *Attach) sized() uint64 {
	return sessionRowBytes + uint64(len(c.Description)+len(c.ProtectionKey)+len(c.Identity.Subject))
}

func (s *semaphore) sized() uint64 { return rowBytes + s.bytes() }

func (l *link) sized() uint64 { return rowBytes + uint64(len(l.data)) }

// accountsBytes is the size of the rows of users and keys. There are few of them, and they change seldom.
func accountsBytes(a *accounts.Accounts) uint64 {
	bytes := uint64(0)
	for _, u := range a.Users() {
		bytes += UserRow{u}.sized()
	}
	for _, k := range a.SigningKeys() {
		bytes += SigningKeyRow{k}.sized()
	}
	return bytes
}
