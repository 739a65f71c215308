package coordination

// Request is a request of an attached session (§2.6). Which fields count depends on Kind.
type Request struct {
	Kind RequestKind
	Name string
	Data []byte

	Count         uint64 // acquire
	TimeoutMillis uint64 // acquire
	Limit         uint64 // create
	Ephemeral     bool   // acquire
	Force         bool   // delete

	IncludeOwners  bool // describe, as the rest
	IncludeWaiters bool
	WatchData      bool
	WatchOwners    bool
}

// messageBytes is charged for a request besides its contents.
const messageBytes = 256

// Bytes is the size of a request under way.
func (r *Request) Bytes() int { return messageBytes + len(r.Name) + len(r.Data) }

// AttachRequest is a SessionStart (§2.3).
type AttachRequest struct {
	Path          string // as the client wrote it
	Session       SessionID
	SeqNo         uint64
	TimeoutMillis uint64
	Description   string
	ProtectionKey string
	// Server is the server that holds the stream: a theft within one server differs from one across (§2.5).
	Server uint64
	// Caller is the client's user, found by the server that holds the stream.
	Caller Caller
	// Identity is the same one, if rights count.
	Identity Identity
	// Client describes who asks, nil if nobody knows; it is not changed any more.
	Client *Client
	// Nonce is the Front's own name for its wish for a new session, not 0: repeated to a new leader, it finds
	// the session that was made for it.
	Nonce uint64
}

// Roster announces an attached stream to a new leader, so that the stream goes on.
type Roster struct {
	Node          NodeID
	Session       SessionID
	Epoch         Epoch
	Path          string // as the client wrote it
	Server        uint64
	Caller        Caller
	Identity      Identity
	Client        *Client // as in AttachRequest
	SeqNo         uint64
	Rights        Rights
	TimeoutMillis uint64
	Stopping      bool
	Open          []OpenRequest // ascending sequence
}

// OpenRequest is a request whose last message the Front has not had.
type OpenRequest struct {
	Sequence Sequence
	Request  *Request
	Watching bool      // it is a describe that was answered; its watch lives
	Mark     WatchMark // with Watching
	Pending  bool      // it is an acquire whose client has been sent a Pending
}

// Rights are the rights of a stream's user on its node, found once at the start (§2.3 step 7).
type Rights uint8

// The rights that requests need (§2.6).
const (
	RightRead Rights = 1 << iota
	RightWrite
	RightErase

	AllRights = RightRead | RightWrite | RightErase
)

// MessageKind is the kind of the leader's message to a stream.
type MessageKind uint8

// The messages from the Leader to a Front.
const (
	// MessageAttached: the stream speaks for Session from now on, with Rights.
	MessageAttached MessageKind = iota + 1
	// MessageEnd: the stream ends with Failure(Refusal). Nothing follows.
	MessageEnd
	// MessageStopped: the session has ended as asked. Nothing follows.
	MessageStopped
	// MessageResult: the last answer to request Sequence (not to a describe).
	MessageResult
	// MessagePending: the acquire Sequence waits.
	MessagePending
	// MessageDescribed: the answer to the describe Sequence.
	MessageDescribed
	// MessageChanged: the watch that the describe Sequence installed has fired.
	MessageChanged
	// MessageResumed: the stream speaks for its session under this leader as it did under the one before.
	MessageResumed
)

// Message is a message of the Leader to the Front of a stream. Which fields count depends on Kind.
type Message struct {
	Stream        StreamID
	Kind          MessageKind
	Sequence      Sequence
	Request       RequestKind
	Index         Index  // of the entry that it follows from, 0 if from none; not sent to other servers
	Node          NodeID // MessageAttached
	Session       SessionID
	Epoch         Epoch  // MessageAttached
	GraceMillis   uint64 // MessageAttached: how long the stream may outlive its leader
	Rights        Rights
	Refusal       *Refusal // nil for success
	Done          bool     // acquired, or released
	WatchAdded    bool
	Mark          WatchMark // with WatchAdded
	DataChanged   bool
	OwnersChanged bool
	Description   *SemaphoreDescription
}

// Last reports whether nothing follows for the stream.
func (m *Message) Last() bool { return m.Kind == MessageEnd || m.Kind == MessageStopped }

// SemaphoreDescription answers a describe (§3.8). Its byte slices must not be changed.
type SemaphoreDescription struct {
	Name      string
	Data      []byte
	Count     uint64 // tokens held by owners
	Limit     uint64
	Ephemeral bool
	Owners    Links
	Waiters   Links
}

// Bytes bounds the encoded size of the semaphore's data, its owners and its waiters. It takes no walk.
func (d *SemaphoreDescription) Bytes() int { return len(d.Data) + d.Owners.Bytes() + d.Waiters.Bytes() }

// LinkDescription is an owner or a waiter. TimeoutMillis of an owner is 0.
type LinkDescription struct {
	Order         OrderID
	Session       SessionID
	TimeoutMillis uint64
	Count         uint64
	Data          []byte
}

func describe(sem *semaphore, owners, waiters bool) *SemaphoreDescription {
	d := &SemaphoreDescription{Name: sem.name, Data: sem.data, Count: sem.held, Limit: sem.limit,
		Ephemeral: sem.ephemeral}
	if owners {
		d.Owners = sem.owners.view()
	}
	if waiters {
		d.Waiters = sem.waiters.view()
	}
	return d
}

// Bytes is the size of a start under way.
func (a *AttachRequest) Bytes() int {
	return messageBytes + len(a.Path) + len(a.Description) + len(a.ProtectionKey)
}

// WatchMark records the state of its semaphore that a watch was installed on, so that a new leader knows whether there
// is something to notify.
type WatchMark struct {
	Semaphore SemaphoreID
	// At is the last command whose consequences the describe showed. One that was answered between entries
	// has seen the last of them to its end; one that was answered within an entry, behind the writes that it
	// waited for, has not.
	At Position
}

// executed reports whether requests of this kind must not be executed twice. To describe twice, or to stop
// twice, does no harm.
func (k RequestKind) executed() bool { return k != RequestDescribe && k != RequestStop }
