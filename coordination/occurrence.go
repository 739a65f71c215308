package coordination

// OccurrenceKind is the kind of an Occurrence.
type OccurrenceKind uint8

// The kinds of occurrences.
const (
	// OccurSessionStarted and the next: a client has a new session, or one that was there.
	OccurSessionStarted OccurrenceKind = iota + 1
	OccurSessionAttached
	// OccurSessionDetached: no client has the session any more. Like an attach that changes nothing it is not
	// in the log, so only the leader knows.
	OccurSessionDetached
	// OccurSessionStopped, OccurSessionExpired and OccurSessionEnded: by its client, by time, and by somebody
	// else.
	OccurSessionStopped
	OccurSessionExpired
	OccurSessionEnded
	// OccurLockGranted, OccurLockAwaited: a session owns some of a semaphore, or waits for it.
	OccurLockGranted
	OccurLockAwaited
	// OccurLockLost: an owner is one no more. OccurWaitEnded: a waiter is one no more, and has become no
	// owner.
	OccurLockLost
	OccurWaitEnded
	// OccurSemaphoreDeleted: a persistent semaphore is gone.
	OccurSemaphoreDeleted
	// OccurNodeDropped: a coordination node is gone, with Count sessions and all that they had. It stands for
	// all of these: a node may have more sessions than anybody keeps occurrences.
	OccurNodeDropped
	// OccurLeader: a server takes another one for the leader than before. The recorder of events adds it, not the
	// machine.
	OccurLeader
	// OccurSessionTraced: the client that has attached to a session came as part of a trace. The recorder adds it, too.
	OccurSessionTraced
)

// Occurrence is something that happened to a session or a lock, for people who watch. Nothing depends on it.
type Occurrence struct {
	Kind        OccurrenceKind
	StampMillis uint64 // Machine.stampMillis; 0 if it is not in the log, or that has no stamps
	Node        NodeID
	Session     SessionID
	Semaphore   string
	Order       OrderID
	Count       uint64
	More        *OccurrenceMore // nil but for a few
}

// OccurrenceMore has the fields that few occurrences use.
type OccurrenceMore struct {
	User, Reason string // OccurSessionEnded: who ended it, and why; the user of OccurNodeDropped as well
	Path         string // OccurNodeDropped: where it was
	Term, Server uint64 // OccurLeader
	Trace        string // OccurSessionTraced: W3C's traceparent
}

// maxSpareOccurrences bounds what is kept for later occurrences.
const maxSpareOccurrences = 4096

// occurrences collects them, if asked to.
type occurrences struct {
	// stampMillis is the largest Entry.StampMillis so far. What begins keeps it.
	stampMillis uint64
	observed    bool
	occurred    []Occurrence
}

// Observe collects occurrences from now on. The caller has to take them after every entry.
func (m *occurrences) Observe() { m.observed = true }

// Occurred returns what has occurred since the last call. The slice is valid until something is done to the
// machine.
func (m *occurrences) Occurred() []Occurrence {
	list := m.occurred
	if m.occurred = m.occurred[:0]; cap(list) > maxSpareOccurrences {
		m.occurred = nil
	}
	return list
}

// sessionOccurs notes what happens to a session.
func (m *occurrences) sessionOccurs(kind OccurrenceKind, n *node, s *session, more *OccurrenceMore) {
	if m.observed {
		m.occurred = append(m.occurred, Occurrence{Kind: kind, StampMillis: m.stampMillis, Node: n.id,
			Session: s.id, More: more})
	}
}

// linkOccurs notes what happens to an owner or a waiter.
func (m *occurrences) linkOccurs(kind OccurrenceKind, n *node, l *link) {
	if m.observed {
		m.occurred = append(m.occurred, Occurrence{Kind: kind, StampMillis: m.stampMillis, Node: n.id,
			Session: l.session.id, Semaphore: l.semaphore.name, Order: l.order, Count: l.count})
	}
}

// occurs notes what the log says nothing of.
func (l *Leader) occurs(kind OccurrenceKind, s *ledSession) {
	if m := l.machine; m.observed {
		m.occurred = append(m.occurred, Occurrence{Kind: kind, Node: s.node.id, Session: s.id})
	}
}
