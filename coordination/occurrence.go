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
	// OccurLeader: a server takes another one for the leader than before, or, in the log, the first entry of a term.
	// The recorder of events adds it, not the machine.
	OccurLeader
	// OccurSessionTraced: the client that has attached to a session came as part of a trace. The recorder adds it, too.
	OccurSessionTraced
	// OccurSemaphoreCreated and OccurDataChanged: of a persistent semaphore, by a session.
	OccurSemaphoreCreated
	OccurDataChanged
	// OccurAdministered: a call has changed nodes, directories, rights, limits, resources or users.
	OccurAdministered
	// OccurSkipped: a server got the state of another one, instead of the entries from Index to Before. The recorder
	// adds it.
	OccurSkipped
)

// Occurrence is something that happened to a session or a lock, for people who watch. Nothing depends on it. Index and
// Number identify it: every server has the same occurrences of an entry, in the same order.
type Occurrence struct {
	Kind OccurrenceKind
	// Cause of OccurLockLost and OccurWaitEnded is the kind of the end of the session or of the semaphore; 0: its
	// client released the semaphore, or its time in the queue was up.
	Cause       OccurrenceKind
	Number      uint32 // within its entry, from 1; 0: it is not in the log, and Index was applied when it happened
	Index       Index
	StampMillis uint64 // Machine.stampMillis; 0 if it is not in the log, or that has no stamps
	Node        NodeID
	Session     SessionID
	Semaphore   string
	SemaphoreID SemaphoreID
	Order       OrderID
	Count       uint64 // OccurDataChanged: bytes
	// Before is the time at which a lost lock was granted, in milliseconds since 1970, the former length of changed
	// data, or the number of owners in a dropped node.
	Before uint64
	More   *OccurrenceMore // nil for most
}

// OccurrenceMore has the fields that few kinds of occurrences need.
type OccurrenceMore struct {
	User, Reason string // of OccurSessionEnded; the user also of what administrators and calls do
	Path         string // of the node; of OccurAdministered the path that has changed
	Term, Server uint64 // OccurLeader
	Trace        string // OccurSessionTraced: W3C's traceparent
	Act, Target  string // OccurAdministered: "add user", and the part of the path that it concerns, or its new value

	// Of a session that ended while it held or awaited something, or not by its client.
	Description   string
	Client        Client
	Held, Awaited int
	Contended     bool     // others waited for some of it
	Names         []string // of the first maxOccurrenceNames semaphores that it held, else of those that it awaited
}

const (
	// maxSpareOccurrences bounds what is kept for later occurrences.
	maxSpareOccurrences = 4096
	// maxOccurrenceNames bounds the semaphores that the end of a session names.
	maxOccurrenceNames = 3
)

// occurrences collects them, if asked to.
type occurrences struct {
	// stampMillis is the largest Entry.StampMillis so far. What begins keeps it.
	stampMillis uint64
	observed    bool
	occurred    []Occurrence
	entry       Index
	number      uint32         // of the last occurrence of the entry
	cause       OccurrenceKind // for which the present command ends links
	user        string         // the caller of the call that is executed
}

// Observe collects occurrences from now on. The caller has to take them after every entry.
func (m *occurrences) Observe() { m.observed = true }

// StampMillis returns the time of the log: the largest stamp of an entry so far.
func (m *occurrences) StampMillis() uint64 { return m.stampMillis }

// Occurred returns what has occurred since the last call. The slice is valid until something is done to the
// machine.
func (m *occurrences) Occurred() []Occurrence {
	list := m.occurred
	if m.occurred = m.occurred[:0]; cap(list) > maxSpareOccurrences {
		m.occurred = nil
	}
	return list
}

// occurs notes an occurrence of the entry.
func (m *occurrences) occurs(o Occurrence) {
	if m.observed {
		m.number++
		o.Index, o.Number, o.StampMillis = m.entry, m.number, m.stampMillis
		m.occurred = append(m.occurred, o)
	}
}

// sessionOccurs notes what happens to a session.
func (m *occurrences) sessionOccurs(kind OccurrenceKind, n *node, s *session) {
	m.occurs(Occurrence{Kind: kind, Node: n.id, Session: s.id})
}

// endOccurs notes the end of a session, before it ends.
func (m *occurrences) endOccurs(kind OccurrenceKind, n *node, s *session, more OccurrenceMore) {
	m.cause = kind
	if !m.observed || kind == OccurSessionStopped && s.links.first == nil {
		m.sessionOccurs(kind, n, s)
		return
	}
	more.Path, more.Description = n.path.String(), s.description
	var awaited []string
	for l := s.links.first; l != nil; l = l.nextOfSession {
		names, count := &awaited, &more.Awaited
		if l.owner {
			names, count = &more.Names, &more.Held
			more.Contended = more.Contended || l.semaphore.waiters.first != nil
		}
		if *count++; len(*names) < maxOccurrenceNames {
			*names = append(*names, l.semaphore.name)
		}
	}
	if more.Held == 0 {
		more.Names = awaited
	}
	m.occurs(Occurrence{Kind: kind, Node: n.id, Session: s.id, More: &more})
}

// linkOccurs notes what happens to an owner or a waiter.
func (m *occurrences) linkOccurs(kind OccurrenceKind, n *node, l *link) {
	o := Occurrence{Kind: kind, Node: n.id, Session: l.session.id, Semaphore: l.semaphore.name,
		SemaphoreID: l.semaphore.id, Order: l.order, Count: l.count}
	if kind == OccurLockLost || kind == OccurWaitEnded {
		o.Cause, o.Before = m.cause, l.beganMillis
	}
	m.occurs(o)
}

// semaphoreOccurs notes what happens to a persistent semaphore.
func (m *occurrences) semaphoreOccurs(kind OccurrenceKind, n *node, by SessionID, sem *semaphore, before int) {
	o := Occurrence{Kind: kind, Node: n.id, Session: by, Semaphore: sem.name, SemaphoreID: sem.id,
		Count: uint64(len(sem.data)), Before: uint64(before)}
	if m.observed && m.user != "" {
		o.More = &OccurrenceMore{User: m.user}
	}
	m.occurs(o)
}

// occurs notes an occurrence that is not in the log.
func (l *Leader) occurs(kind OccurrenceKind, s *ledSession) {
	if m := l.machine; m.observed {
		m.occurred = append(m.occurred, Occurrence{Kind: kind, Index: m.index, Node: s.node.id, Session: s.id})
	}
}
