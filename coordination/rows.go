package coordination

import "github.com/coordd/coordd/scheme"

// RowKind is the subject of a row. The numbers are part of the stored format and order the rows of one node
// so that what a row refers to comes before it.
type RowKind uint8

// The kinds of rows.
const (
	RowMachine RowKind = iota + 1
	RowPath
	RowNode
	RowSession
	RowSemaphore
	RowLink
	RowUser       // of no node, like those below
	RowSigningKey // what login tokens are signed with
	RowResource   // of a node again
)

// RowKey identifies a row. Node is 0 for RowMachine, RowPath, RowUser and RowSigningKey. ID is the number of
// the entry, session, semaphore, link (its order id), resource, user or key; 0 for RowMachine and RowNode. A
// user or a key has a position as its number: ID is the index, and Place the place.
type RowKey struct {
	Kind  RowKind
	Node  NodeID
	ID    uint64
	Place Place
}

// Row is a row of the machine's durable state as of the time when a checkpoint froze it.
type Row interface {
	Key() RowKey
	hash() uint64
	sized() uint64 // see RowBytes
}

// MachineRow closes a checkpoint: the machine's own counters, and the Digest of all rows.
type MachineRow struct {
	Index    Index
	NextNode NodeID
	Digest   uint64
	// Lineage is that of the last BeginLineage, and CounterBase what the counters of a new node begin behind.
	Lineage, CounterBase uint64
	// StampMillis is the largest Entry.StampMillis so far, 0 for none.
	StampMillis uint64
	// Limits are those that were set by the log.
	Limits StateLimits
	// The log clock, see logClock, and what it showed when the lineage began.
	ClockMillis, ClockBaseMillis uint64
	ClockTerm                    Term
	LineageSince                 uint64
	// The hand-over that is under way, or was the last, see calm.
	QuietTerm, HeirTerm Term
	CalmSinceMillis     uint64
	// NextVersion is the version of the next semaphore that is made, 0 while changes do not count.
	NextVersion uint64
}

// PathRow is an entry of the path tree.
type PathRow struct{ scheme.Entry }

// NodeRow is a coordination node's configuration and counters.
type NodeRow struct {
	ID            NodeID
	Config        NodeConfig
	NextSession   SessionID
	NextSemaphore SemaphoreID
	NextOrder     OrderID
	// NextResource is 0 as long as the node never had a resource.
	NextResource ResourceID
	History      History
}

// SessionRow is a session (§0.2).
type SessionRow struct {
	Node          NodeID
	ID            SessionID
	TimeoutMillis uint64
	Description   string
	ProtectionKey string
	AttachEpoch   Epoch
	Nonce         uint64
	// BeganMillis is the stamp of the entry that made the session, to be shown; 0: unknown.
	BeganMillis uint64
	// Owner is the session's creator, or zero if rights did not count.
	Owner Identity
	// AbsentSince and AbsentTotalMillis are those of a BeginAbsence, 0 if the log does not know of one.
	AbsentSince, AbsentTotalMillis uint64
}

// SemaphoreRow is a semaphore without its owners and waiters (§0.2).
type SemaphoreRow struct {
	Node      NodeID
	ID        SemaphoreID
	Name      string
	Data      []byte
	Limit     uint64
	Ephemeral bool
	// Of the last change of a persistent semaphore's data; 0 and empty: it was not counted. Author is a part of
	// MaxAuthorBytes of the user's name, empty for nobody.
	Version, ChangedMillis uint64
	Author                 string
}

// LinkRow is an owner or a waiter (§0.2). Unlike in the reference the row has a flag for which of the two.
type LinkRow struct {
	Node          NodeID
	Order         OrderID
	Session       SessionID
	Semaphore     SemaphoreID
	Count         uint64
	TimeoutMillis uint64
	Data          []byte
	Address       Address
	WaitEpoch     Position
	Owner         bool
	// BeganMillis is the stamp of the entry since which the session owns, or waits, to be shown; 0: unknown.
	BeganMillis uint64
	// Since is the log clock at WaitEpoch, 0 for an owner and for a waiter without a timeout.
	Since uint64
}

// ResourceRow is a resource with its own properties. Its parent has a lower id.
type ResourceRow struct {
	Node NodeID
	ID   ResourceID
	Path string
	ResourceProperties
}

// DeletedRow marks that the row of its key is gone.
type DeletedRow struct{ Deleted RowKey }

// Key implements Row.
func (MachineRow) Key() RowKey { return RowKey{Kind: RowMachine} }

// Key implements Row.
func (r PathRow) Key() RowKey { return RowKey{Kind: RowPath, ID: uint64(r.ID)} }

// Key implements Row.
func (r NodeRow) Key() RowKey { return RowKey{Kind: RowNode, Node: r.ID} }

// Key implements Row.
func (r SessionRow) Key() RowKey { return RowKey{Kind: RowSession, Node: r.Node, ID: uint64(r.ID)} }

// Key implements Row.
func (r SemaphoreRow) Key() RowKey { return RowKey{Kind: RowSemaphore, Node: r.Node, ID: uint64(r.ID)} }

// Key implements Row.
func (r LinkRow) Key() RowKey { return RowKey{Kind: RowLink, Node: r.Node, ID: uint64(r.Order)} }

// Key implements Row.
func (r ResourceRow) Key() RowKey { return RowKey{Kind: RowResource, Node: r.Node, ID: uint64(r.ID)} }

// Key implements Row.
func (r DeletedRow) Key() RowKey { return r.Deleted }

// tracked is a thing that can change and be stored: a node, a session, a semaphore, a link, a resource.
type tracked interface {
	rowMark() *rowMark
	row(n *node) Row
}

func (n *node) rowMark() *rowMark      { return &n.mark }
func (s *session) rowMark() *rowMark   { return &s.mark }
func (s *semaphore) rowMark() *rowMark { return &s.mark }
func (l *link) rowMark() *rowMark      { return &l.mark }

func (n *node) row(*node) Row {
	return NodeRow{ID: n.id, Config: n.config, NextSession: n.nextSession, NextSemaphore: n.nextSemaphore,
		NextOrder: n.nextOrder, NextResource: n.nextResource, History: n.history}
}

func (s *session) row(n *node) Row {
	return SessionRow{Node: n.id, ID: s.id, TimeoutMillis: s.timeoutMillis, Description: s.description,
		ProtectionKey: s.protectionKey, AttachEpoch: s.attachEpoch, Nonce: s.nonce,
		BeganMillis: s.beganMillis, Owner: s.owner, AbsentSince: s.absence.since,
		AbsentTotalMillis: s.absence.totalMillis}
}

func (s *semaphore) row(n *node) Row {
	return SemaphoreRow{Node: n.id, ID: s.id, Name: s.name, Data: s.data, Limit: s.limit,
		Ephemeral: s.ephemeral, Version: s.change.version, ChangedMillis: s.change.millis, Author: s.change.author}
}

func (l *link) row(n *node) Row {
	return LinkRow{Node: n.id, Order: l.order, Session: l.session.id, Semaphore: l.semaphore.id,
		Count: l.count, TimeoutMillis: l.timeoutMillis, Data: l.data, Address: l.address,
		WaitEpoch: l.waitEpoch, Owner: l.owner, BeganMillis: l.beganMillis, Since: l.since}
}

// rowMark is the tracker's record of one row.
type rowMark struct {
	hash       uint64 // of the version that the last checkpoint captured, or 0
	position   int32  // in the list that holds it
	generation uint32 // of that list
	listed     bool
	stored     bool // a checkpoint captured it
	deleted    bool
}
