package coordination

import "github.com/coordd/coordd/scheme"

// Command is a part of an entry of the replicated log. The set is closed: a new command comes with a new version of the
// format.
type Command interface {
	// subject is the node and the session that the command is about, or 0.
	subject() (NodeID, SessionID)
}

// Origin names the session that asked for a command, its node, and the stream to answer. Every request of the stream
// below Acknowledged has reached its client's Front with its last answer, so that its outcome may be forgotten.
//
// Answered is for what is above: the request whose last answer the Front has had most recently. Outcomes
// reach a Front in the order in which they came about, so it has had all up to that one. It is 0 where it adds nothing
// to Acknowledged, and where nothing above is answered.
type Origin struct {
	Node         NodeID
	Session      SessionID
	Address      Address
	Acknowledged Sequence
	Answered     Sequence
}

// Attach creates a session (Session 0) or gives an existing one to the stream of Epoch (§2.3, §2.4).
type Attach struct {
	Node          NodeID
	Session       SessionID
	Epoch         Epoch
	TimeoutMillis uint64
	Description   string
	ProtectionKey string
	// Nonce names the stream's wish for a new session, so that its repetition finds the session that was made
	// for it; 0 is no name.
	Nonce uint64
	// Place identifies the source of an attach, its server and path, see placeOf.
	Place uint64
	// Identity is the caller's: it owns a new session. For an existing session it is left out if that has no owner, and
	// so is MayWrite, the right to write.
	Identity Identity
	MayWrite bool
}

// StopSession ends a session at the wish of its client (§2.8).
type StopSession struct {
	Origin
	Client Client // where the session holds or awaits something
}

// ExpireSession ends a session whose countdown the leader of Term saw run out. It is void if the session has
// been attached again since (AttachEpoch), or in another term.
type ExpireSession struct {
	Node        NodeID
	Session     SessionID
	AttachEpoch Epoch
	Term        Term
	Client      Client
}

// ExpireWaiter ends a wait that the leader of Term saw run out. It is void if the waiter has become an owner,
// left, or been superseded since (Order, WaitEpoch), or in another term.
type ExpireWaiter struct {
	Node      NodeID
	Session   SessionID
	Semaphore SemaphoreID
	Order     OrderID
	WaitEpoch Position
	Term      Term
}

// BeginAbsence records that no client has a session: its time runs under every leader. It is void if the session
// was attached by the log since (AttachEpoch), or if Since is ahead of the log clock.
type BeginAbsence struct {
	Node        NodeID
	Session     SessionID
	AttachEpoch Epoch
	Since       uint64 // by the log clock
	TotalMillis uint64 // from then on until the session ends; never 0
}

// EndAbsence records that a stream comes back to its session without an attach. It is void if the session was
// attached by the log since.
type EndAbsence struct {
	Node        NodeID
	Session     SessionID
	AttachEpoch Epoch
}

// Age changes nothing: its entry moves the log clock on.
type Age struct{}

// Quiet records that no server speaks to clients any more, since the leader hands over. If nothing but the first entry
// of the next term is behind it, the next leader knows that nobody has heard of a session since (see calm).
type Quiet struct {
	Over bool // the hand-over has failed: the leader goes on once it has executed this
}

// CreateSemaphore makes a persistent semaphore (§3.2).
type CreateSemaphore struct {
	Origin
	Name  string
	Limit uint64
	Data  []byte
}

// UpdateSemaphore replaces a semaphore's data (§3.3).
type UpdateSemaphore struct {
	Origin
	Name string
	Data []byte
}

// DeleteSemaphore removes a persistent semaphore (§3.7).
type DeleteSemaphore struct {
	Origin
	Name  string
	Force bool
}

// AcquireSemaphore asks for tokens (§3.4). TimeoutMillis 0 is a try, Infinite waits for ever.
type AcquireSemaphore struct {
	Origin
	Name          string
	Count         uint64
	TimeoutMillis uint64
	Data          []byte
	Ephemeral     bool
}

// ReleaseSemaphore gives all tokens back, or leaves the queue (§3.6).
type ReleaseSemaphore struct {
	Origin
	Name string
}

// CreateNode makes a coordination node (§1.1). StampMillis is the time of day on the server that took the
// call. It is shown as the node's created_at, and like Entry.StampMillis it decides nothing.
type CreateNode struct {
	CallID
	Caller
	Path        scheme.Path
	Config      NodeConfig
	SetsPath    bool // config.path was not empty
	Owner       string
	StampMillis uint64
}

// AlterNode merges a configuration into a node's (§1.2).
type AlterNode struct {
	CallID
	Caller
	Path     scheme.Path
	Config   NodeConfig
	SetsPath bool
}

// DropNode removes a node with everything in it (§1.3).
type DropNode struct {
	CallID
	Caller
	Path scheme.Path
}

// MakeDirectory makes a directory and its missing parents.
type MakeDirectory struct {
	CallID
	Caller
	Path        scheme.Path
	Owner       string
	StampMillis uint64
}

// RemoveDirectory removes an empty directory.
type RemoveDirectory struct {
	CallID
	Caller
	Path scheme.Path
}

// ModifyPermissions changes the owner and the explicit permissions of a path.
type ModifyPermissions struct {
	CallID
	Caller
	Path   scheme.Path
	Change scheme.PermissionsChange
}

// SetLimits sets the limits that are not 0. With OnlyFirst it sets StateLimits.Links only if that is not set yet, and
// the others only as long as all of them are unset, and both are success: so each server of a cluster may propose the
// limits that it was started with, and two of them cannot overwrite each other in turn.
type SetLimits struct {
	CallID
	Caller
	Limits    StateLimits
	OnlyFirst bool
}

// SetQuota replaces the quota of a path; the zero one takes it away. What is used already stays.
type SetQuota struct {
	CallID
	Caller
	Path  scheme.Path
	Quota scheme.Quota
}

// Mark is a place in the log at which every server takes a checkpoint of its state as it is behind the mark's
// entry, so that their digests can be compared. It changes nothing. A server that is busy with another
// checkpoint passes it over.
type Mark struct{}

// EndSession ends a session for an administrator, or for a caller that may erase rows on its node, as if its time had
// run out: its client is notified that it has expired. It is gone at once, whatever the client believes: one that
// cannot be notified believes in it until its own timeout.
type EndSession struct {
	CallID
	Caller
	Node    NodeID
	Session SessionID
	// Reason is shown to watchers of events, and has no other effect.
	Reason string
	Client Client // added by the leader
	// Order, unless it is 0, is the order id with which the caller has seen the session own or await Semaphore. The
	// command is refused without that link.
	Semaphore SemaphoreID
	Order     OrderID
}

// RemoveSemaphore removes a persistent semaphore for the same people, with Force also one that has owners or
// waiters (§3.7). Owners are not notified, as in the protocol. Ids never come back, so what was made anew under a name
// is safe from it.
type RemoveSemaphore struct {
	CallID
	Caller
	Node      NodeID
	Semaphore SemaphoreID
	Force     bool
	// Owner, if Seen, is the order id of the first owner as the caller has seen it, 0: no owner. The command is refused
	// with another one.
	Seen  bool
	Owner OrderID
}

// UpdateData replaces the data of a persistent semaphore if that still has the version which the caller has
// seen. Expected is 0 for a semaphore that is not there: it is made, without a bound for its owners.
type UpdateData struct {
	CallID
	Caller
	Node     NodeID
	Name     string
	Data     []byte
	Expected uint64
}

// SetHistory selects what servers remember of former versions of a node's data.
type SetHistory struct {
	CallID
	Caller
	Path    scheme.Path
	History History
}

// MaxReasonBytes bounds the reason of an EndSession.
const MaxReasonBytes = 128

func (o *Origin) subject() (NodeID, SessionID)        { return o.Node, o.Session }
func (c *Attach) subject() (NodeID, SessionID)        { return c.Node, c.Session }
func (c *ExpireSession) subject() (NodeID, SessionID) { return c.Node, c.Session }
func (c *ExpireWaiter) subject() (NodeID, SessionID)  { return c.Node, c.Session }
func (*Mark) subject() (NodeID, SessionID)            { return 0, 0 }
func (c *BeginAbsence) subject() (NodeID, SessionID)  { return c.Node, c.Session }
func (c *EndAbsence) subject() (NodeID, SessionID)    { return c.Node, c.Session }
func (*Quiet) subject() (NodeID, SessionID)           { return 0, 0 }
func (*Age) subject() (NodeID, SessionID)             { return 0, 0 }

// BeginLineage marks that the state was restored from a backup, or recovered without the servers that had the newest
// entries: numbers that were given out since are not known here. All counters jump forward, so that no session id and
// no order id, which fences, ever comes twice (§0.2). It is void in a machine that has begun this lineage already, so a
// leader may propose it again.
type BeginLineage struct {
	// Lineage names what was restored; it is never 0 and never twice the same.
	Lineage uint64
}

func (*BeginLineage) subject() (NodeID, SessionID) { return 0, 0 }
