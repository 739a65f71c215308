package model

import "strings"

// Limits of coordd that the reference does not have: how many bytes a node and the whole state may hold, and
// how large a description may be.

// bytes returns the size of the node: the names and data of its semaphores, and the data of owners and waiters.
func (n *node) bytes() int {
	sum := 0
	for _, sem := range n.semaphores {
		sum += len(sem.name) + len(sem.data)
		for _, l := range sem.owners {
			sum += len(l.data)
		}
		for _, l := range sem.waiters {
			sum += len(l.data)
		}
	}
	return sum
}

// What a row of the state counts besides its texts and data (docs/limits.md).
const (
	rowCharge     = 256
	sessionCharge = 512
	nodeCharge    = 1024
	pathOwner     = len("root@builtin")
)

// EmptyState is the size of the state while the node is empty: its own row, the entries of the path tree, and the row
// of the machine.
func EmptyState(path string) int {
	sum := rowCharge + nodeCharge
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		sum += rowCharge + len(name) + pathOwner
	}
	return sum
}

// used returns the size of the state.
func (m *Model) used() int {
	sum := EmptyState(m.path) + m.node.bytes()
	for _, sess := range m.node.sessions {
		sum += sessionCharge + len(sess.description) + len(sess.key)
	}
	for _, sem := range m.node.semaphores {
		sum += rowCharge * (1 + len(sem.owners) + len(sem.waiters))
	}
	return sum
}

// full is why the state may not count so many bytes more; empty if it may. A sixteenth of it is for
// administrators. The quota is that of the database, which has all rows but the machine's below it.
func (m *Model) full(more int) string {
	used, most := m.used()+more, m.limits.State-m.limits.State/16
	if m.administers {
		most = m.limits.State
	}
	switch {
	case more <= 0:
	case m.limits.Quota > 0 && used-rowCharge > m.limits.Quota:
		return "Quota of /local is used up"
	case m.limits.State > 0 && used > most:
		return "Cluster state has no space left"
	}
	return ""
}

// noRoom is why there may not be so many new rows, and so many bytes instead of so many others; empty if
// there may. What does not grow always may.
func (m *Model) noRoom(rows, instead, of int) string {
	grown := max(0, instead-of)
	if grown > 0 && m.limits.Bytes > 0 && m.node.bytes()+grown > m.limits.Bytes {
		return "Coordination node has no space left"
	}
	return m.full(rows*rowCharge + grown)
}

// refuseGrowth refuses what there is no room for.
func (m *Model) refuseGrowth(c call, branch Mark, why string) {
	switch {
	case strings.HasPrefix(why, "Cluster"):
		m.mark(markStateFull)
	case strings.HasPrefix(why, "Quota"):
		m.mark(markQuotaUsedUp)
	}
	m.refuse(c, branch, PreconditionFailed, why)
}

// describable reports whether the answer to a describe may be sent. Every part counts its data and 64 bytes.
func (m *Model) describable(c call, sem *semaphore) bool {
	size := 64 + len(sem.name) + len(sem.data)
	if c.IncludeOwners {
		for _, l := range sem.owners {
			size += 64 + len(l.data)
		}
	}
	if c.IncludeWaiters {
		for _, l := range sem.waiters {
			size += 64 + len(l.data)
		}
	}
	return m.limits.Described == 0 || size <= m.limits.Described
}
