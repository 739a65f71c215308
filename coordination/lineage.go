package coordination

import (
	"maps"
	"slices"
)

// LineageJump is added to every counter when the state is continued from a point in its past. It is more than any
// server can have given out since then.
const LineageJump = 1 << 40

// Lineage is that of the last BeginLineage, 0 without one.
func (m *Machine) Lineage() uint64 { return m.lineage.id }

// lineage is part of the machine's own row.
type lineage struct {
	id   uint64
	base uint64 // what the counters of a new node begin behind; it grows with every lineage
	// since is the log clock at its beginning: absences and waits that are older have their whole time again
	since uint64
}

// valid returns an absence as far as it counts. A restored state knows nothing of the time after it, so an absence
// that is older than the lineage does not.
func (l lineage) valid(a absence) absence {
	if a.since < l.since {
		return absence{}
	}
	return a
}

// leftOfWait returns the rest of a wait, in milliseconds. In a restored state it begins anew.
func (l lineage) leftOfWait(timeoutMillis, since, clock uint64) uint64 {
	if timeoutMillis == Infinite {
		return Infinite
	}
	return absence{max(since, l.since), timeoutMillis}.leftMillis(clock)
}

// beginLineage moves the counters of all nodes, and of those to come: a path that was made after the restored moment
// may be made again, which clients cannot notice.
func (m *Machine) beginLineage(c *BeginLineage) {
	if c.Lineage == 0 || c.Lineage == m.lineage.id {
		return
	}
	if m.clock.millis > 0 { // otherwise nothing has an age
		m.clock.millis++ // so that nothing is as old as the lineage
		m.clock.base++
	}
	m.lineage = lineage{id: c.Lineage, base: m.lineage.base + LineageJump, since: m.clock.millis}
	m.calm = calm{}
	m.nextNode += LineageJump
	for _, id := range slices.Sorted(maps.Keys(m.nodes)) {
		n := m.nodes[id]
		n.touch(n)
		n.nextSession += LineageJump
		n.nextSemaphore += LineageJump
		n.nextOrder += LineageJump
		if n.nextResource != 0 { // otherwise the first one begins behind the base
			n.nextResource += LineageJump
		}
	}
}

// startAt gives a new node its first numbers.
func (n *node) startAt(l lineage) {
	n.nextSession += SessionID(l.base)
	n.nextSemaphore += SemaphoreID(l.base)
	n.nextOrder += OrderID(l.base)
}

// ownRow is the machine's own row without its digest.
func (m *Machine) ownRow() MachineRow {
	return MachineRow{Index: m.index, NextNode: m.nextNode, Lineage: m.lineage.id,
		CounterBase: m.lineage.base, LineageSince: m.lineage.since, StampMillis: m.stampMillis, Limits: m.limits,
		ClockMillis: m.clock.millis, ClockBaseMillis: m.clock.base, ClockTerm: m.clock.term,
		QuietTerm: m.calm.quiet, HeirTerm: m.calm.heir, CalmSinceMillis: m.calm.since,
		NextVersion: m.versions.next}
}

// BeginLineage is the first thing asked of a new leader, with the lineage of the stored log. A log that was
// restored since the machine's last lineage gets the command that moves the counters, before any other of the
// term: so no number that was given out and lost is given out again, whatever crashes when.
func (l *Leader) BeginLineage(lineage uint64) {
	if lineage != 0 && lineage != l.machine.lineage.id {
		l.put(&BeginLineage{Lineage: lineage})
		if l.takeover != nil { // what was handed over was another future
			l.takeover.calmMillis = 0
		}
	}
}
