package group

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/group/compare"
	"github.com/coordd/coordd/server/group/events"
	"github.com/coordd/coordd/server/group/limiter"
	"github.com/coordd/coordd/server/group/streams"
)

// shared is the part of a group that any goroutine may use: it stays as it is once the group is started, is
// published by the holder of the turn, or has a lock of its own.
type shared struct {
	config  Config
	store   *raftstore.Store
	lease   interface{ MaySpeak() bool } // the store; tests put their own here
	logFull func() bool                  // of the store's checkpoints; the same
	queue   *queue
	// clock is what the rings go by, and shell what everything else does. They differ in a stand-in, where
	// somebody turns the first by hand.
	clock, shell clock.Clock
	logger       *slog.Logger
	debugs       bool // see tellsTimeouts

	// The parts, each with a lock of its own.
	self     streams.Core      // the group as streams see it
	streams  *streams.Set      // of clients of this server
	uplink   *streams.Uplink   // this server's way to the leader
	relays   *streams.Peers    // of other servers, to this one as the leader
	comparer *compare.Comparer // of the states of servers
	events   *events.Ring      // for those who watch locks change hands
	limiter  *limiter.Limiter  // the buckets of this server
	rounds   readRounds

	ready     chan struct{} // closed when a leader serves, here or elsewhere, for the first time
	readyOnce sync.Once
	over      chan struct{} // closed when the group handles nothing any more

	published
}

// published is set by the holder of the turn for all goroutines.
type published struct {
	access    publishedAccess
	size      publishedSize
	watches   atomic.Int64
	abdicated atomic.Bool // see Abdicate
	quiet     atomic.Bool // this server leads, hands over, and lets nobody speak to clients
	// index of the last entry that the leader has said is committed, 0 if it never said
	committed atomic.Uint64
	// index of the last entry that the machine has executed, or for a moment an earlier one
	applied atomic.Uint64
	turns   atomic.Uint64 // taken so far
	busy    atomic.Bool   // something is in flight, so that requests gather instead of each taking a turn
	replay  replay
}

// core is the part of a group that only the holder of the turn may touch. All its methods are the holder's.
type core struct {
	*shared

	token   turn.Token  // of the present turn, for the parts that ask for it
	closed  bool        // nothing is handled any more
	due     clock.Alarm // rings when the rings have something to do
	chores  clock.Alarm // rings when the log has
	replica *replica
	link    *streams.Local // to the leader on this server, nil if it does not lead
	// inFlight and leftOver count bytes for the bound on them: of this reign, and of a reign that this server
	// has given up, whose commands may still be committed.
	inFlight, leftOver int
	checkpoint         *runningCheckpoint
	nextMark           coordination.Instant // when the leader writes the next mark
	waitsForCheckpoint bool                 // requests are held because the log is full
	// until when commands that may wait do so; Never while there are none
	companyUntil coordination.Instant
	// behind this entry the effects become events; those before are old news
	observeBehind uint64
	executed      int // commands, since the store last had their number
	// that wait for the machine to have what was committed when they came
	reads    []*call
	barriers []passedBarrier
	unsaid   streams.Unsaid

	// Room that turns use again: the entry that is executed, what is packed into one, and what was taken out
	// of the queue.
	entry      coordination.Entry
	packing    []byte
	spareStore []storeEvent
	spare      []event
}

func (g *shared) markReady() { g.readyOnce.Do(func() { close(g.ready) }) }

// runningCheckpoint hands the machine's frozen rows to the store in slices, each in another turn of the group,
// so that no request waits for the whole.
type runningCheckpoint struct {
	rows    *coordination.Checkpoint
	writer  *raftstore.CheckpointWriter
	offered []raftstore.Row      // refused by the writer, whose queue was full
	marked  bool                 // all servers take one at this index: the digests are compared
	next    coordination.Instant // not before then is the next slice, unless the log presses
}

// publishedAccess is what the group tells about users and rights to the goroutines that serve calls.
type publishedAccess struct {
	current atomic.Pointer[accounts.Accounts]
	version atomic.Uint64 // changes with every change
	machine uint64        // the machine's version; owned by the group
}

// publish is called by the group after each command, and with a machine that is new. It costs a comparison
// unless something changed.
func (p *publishedAccess) publish(m *coordination.Machine) {
	if p.current.Load() == m.Accounts() && p.machine == m.AccessVersion() {
		return
	}
	p.current.Store(m.Accounts())
	p.machine = m.AccessVersion()
	p.version.Add(1)
}

func (p *publishedAccess) accounts() *accounts.Accounts { return p.current.Load() }

// publishedSize is what the group tells about the size of the state.
type publishedSize struct {
	used   atomic.Uint64
	limits atomic.Pointer[coordination.StateLimits]

	nodes, sessions, semaphores, owners, waiters atomic.Int64
}

// publish is called by the group when it has applied something, and with a machine that is new.
func (p *publishedSize) publish(m *coordination.Machine) {
	p.used.Store(m.Used())
	counts := m.Counts()
	p.nodes.Store(int64(counts.Nodes))
	p.sessions.Store(int64(counts.Sessions))
	p.semaphores.Store(int64(counts.Semaphores))
	p.owners.Store(int64(counts.Owners))
	p.waiters.Store(int64(counts.Waiters))
	if before := p.limits.Load(); before == nil || *before != m.Limits() {
		now := m.Limits()
		p.limits.Store(&now)
	}
}

// replay is how far a server that has started is with what its log had when it was opened. What others may
// not ask for is owned by the holder of the turn.
type replay struct {
	from, to uint64 // the checkpoint, and the last entry of the log
	told     time.Time
	period   time.Duration // between two reports; 0: replayPeriod
	at       atomic.Uint64 // the last entry that was executed again
	leads    atomic.Bool   // this server leads, and serves once it is through
}

// Config is what a group is opened with.
type Config struct {
	// Log says where the log is and who the other members are. Open sets Version and adds to Services of its
	// Cluster. Its Logger receives the group's events, too; nil: none.
	Log raftstore.Config
	// Database is the absolute path under which everything lives.
	Database string
	// Limits are this server's own (coordination.Limits).
	Limits coordination.Limits
	// Clock tells the rings the time.
	Clock clock.Clock
	// Remind has clients pinged by the real clock as well, while it says so: theirs is that one, and Clock
	// may stand still. nil: never. It is asked under the stream's lock, so what Still finds behind a change
	// of its mind is all there is.
	Remind func() bool
	// Shell tells it to everybody else, such as the relay and the right to speak. Zero: Clock does.
	Shell clock.Clock
	// Formats is which commands this program can read; zero: OwnFormats.
	Formats coordination.Formats
	// OutboundBytes is how much a stream may have waiting for a client that does not read before it is cut
	// off.
	OutboundBytes int
	// Linger is how long a stream that has ended waits for its client to read the end.
	Linger time.Duration
	// CallPatience bounds a command that another server brings without a bound of its own.
	CallPatience time.Duration
	// Failed is called once, when the group cannot go on.
	Failed func(error)
	// Marks is how often the servers of the cluster compare their states; zero: DefaultMarks. A server alone
	// does not.
	Marks coordination.MarkPolicy
	// Executing, if set, gets each entry before this server executes it (hooks.Hooks.Executed).
	Executing func(*coordination.Machine, *coordination.Entry)

	// For tests: maxListedBytes and companyPatience, if others, and how states are compared.
	listedBytes int
	patience    time.Duration
	compare     compare.Config
}

// Group is one replicated log with its machine and, where this server leads, its leader.
//
// Three kinds of state meet here, and it matters which is which. What the log decides is in the replica, and is
// the same on every server. What only the leader knows is in the replica too, and on one server at a time. What
// is this server's alone is in the parts: who is connected, who must be asked, what is on its way.
//
// Everything else leaves events in the queue: clients' streams, calls, relays of other servers, and the log.
// The holder of the turn handles them, and alone touches the core. From there nothing calls out to where it
// might wait: messages go into Fronts and relays, commands into the log's inbox.
type Group struct {
	*shared
	turn *turn.Turn
	core core // reached through hold

	// stored reads the checkpoint while Open verifies it. It becomes the machine in load, and is nil from
	// then on.
	stored  *loader
	stop    chan struct{} // closed by Stop
	ended   chan struct{} // closed when run has ended
	running bool          // Start has succeeded
}

// hold returns what the holder of the turn may touch, which shows its token.
func (g *Group) hold(t turn.Token) *core {
	t.Check()
	g.core.token = t
	return &g.core
}

// replica is the rings of the group, as the group drives them.
type replica = coordination.Replica[streams.Sink, *call]

// FormatVersion is the newest version of commands that every server of the cluster can read. Before that is
// known of all it is the first.
func (g *shared) FormatVersion() uint64 { return max(1, g.readable()) }

// readable is the same, and 0 before it is known of all.
func (g *shared) readable() uint64 {
	if g.alone() {
		return g.config.Formats.Version
	}
	return g.store.ClusterVersion()
}

// Crowded reports whether what makes the state larger is refused: the disk of this server, which leads, is
// nearly full, and no other server can take the leadership. The reserve is for what makes the state smaller.
func (g *shared) Crowded() bool { return g.store.Space.Writable() != nil && !g.store.HandingOver() }

// alone reports whether there can be no other servers.
func (g *shared) alone() bool { return g.config.Log.Cluster.ListenPeer == "" }
