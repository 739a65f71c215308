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
	"github.com/coordd/coordd/server/group/slowest"
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
	// clock is the clock of the rings, and shell that of everything else. They differ in a stand-in, whose user turns
	// the first by hand.
	clock, shell clock.Clock
	logger       *slog.Logger
	debugs       bool // see tellsTimeouts

	// The parts, each with a lock of its own.
	self     streams.Core      // the group as streams see it
	streams  *streams.Set      // of clients of this server
	uplink   *streams.Uplink   // this server's way to the leader
	relays   *streams.Peers    // of other servers, to this one as the leader
	comparer *compare.Comparer // of the states of servers
	events   *events.Ring      // the last events, for watchers
	limiter  *limiter.Limiter  // the buckets of this server
	Slow     *slowest.Recorder // the slowest requests of this server's streams
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
	// this server leads and hands over: it gives no permit and does not speak to clients itself. That begins before
	// the log has Quiet, and so before replica.IsQuiet
	quiet atomic.Bool
	// the last read index that a leader has answered with, 0 before the first
	committed atomic.Uint64
	// index of the last entry that the machine has executed, set behind all entries of a delivery
	applied atomic.Uint64
	turns   atomic.Uint64 // taken so far
	busy    atomic.Bool   // something is in flight, so that requests gather instead of each taking a turn
	replay  replay
}

// core is the part of a group that only the holder of the turn may touch. All its methods run in the turn. Their
// receiver is g, as is that of Group: the methods of shared belong to both.
type core struct {
	*shared

	token              turn.Token  // of the present turn, for the parts that ask for it
	closed             bool        // nothing is handled any more
	due                clock.Alarm // by the clock of the rings: a deadline of the replica, or the next mark
	chores             clock.Alarm // by the shell: a checkpoint goes on, a full log is looked at again, company is over
	replica            *replica
	link               *streams.Local // to the leader on this server, nil if it does not lead
	inFlight           int            // bytes of entries of this reign that are proposed and not applied yet
	leftOver           int            // behind Abdicate: the same of the reign that it ended
	checkpoint         *runningCheckpoint
	nextMark           coordination.Instant // when the leader writes the next mark
	waitsForCheckpoint bool                 // requests are held because the log is full
	// commands that may wait for company go to the log at this moment; Never if no command waits
	companyUntil coordination.Instant
	// effects of later entries become events; the log had those up to here when it was opened
	observeBehind uint64
	executed      int             // commands, since the store last had their number
	reads         []*call         // for which no turn had room yet
	barriers      []passedBarrier // whose index the machine has not executed yet
	unsaid        streams.Unsaid
	begun         coordination.Instant // the present turn
	proposed      slowest.Proposals    // in this reign, and not executed yet

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

// publishedAccess publishes users and rights to the goroutines that serve calls.
type publishedAccess struct {
	current atomic.Pointer[accounts.Accounts]
	version atomic.Uint64 // changes with every change
	machine uint64        // the machine's version; of the holder of the turn
}

// publish is called behind each entry, and with a machine that is new. It costs a comparison unless something
// changed.
func (p *publishedAccess) publish(m *coordination.Machine) {
	if p.current.Load() == m.Accounts() && p.machine == m.AccessVersion() {
		return
	}
	p.current.Store(m.Accounts())
	p.machine = m.AccessVersion()
	p.version.Add(1)
}

func (p *publishedAccess) accounts() *accounts.Accounts { return p.current.Load() }

// publishedSize publishes the size of the state.
type publishedSize struct {
	used   atomic.Uint64
	limits atomic.Pointer[coordination.StateLimits]

	nodes, sessions, semaphores, owners, waiters atomic.Int64
}

// publish is called behind all entries of a delivery, and with a machine that is new.
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

// replay is the progress of a server that executes again the entries that its log had when it was opened. All but at
// and leads belong to the holder of the turn.
type replay struct {
	from, to uint64 // the checkpoint, and the last entry of the log
	told     time.Time
	period   time.Duration // between two reports; 0: replayPeriod
	at       atomic.Uint64 // the last entry that was executed again
	leads    atomic.Bool   // this server leads, and serves once it is through
}

// Config configures a group.
type Config struct {
	// Log says where the log is and who the other members are. Open sets Version and adds to Services of its
	// Cluster. Its Logger receives the group's events, too; nil: none.
	Log raftstore.Config
	// Database is the absolute path under which everything lives.
	Database string
	// Limits are this server's own (coordination.Limits).
	Limits coordination.Limits
	// Clock is the clock of the rings.
	Clock clock.Clock
	// Remind reports whether clients are pinged by the real clock as well, because Clock may stand still and theirs
	// does not; nil: never. It is called under the stream's lock, so a change of its answer is complete once Still has
	// looked at all streams.
	Remind func() bool
	// Shell is the clock of everything else, such as relays and permits; zero: Clock.
	Shell clock.Clock
	// Formats are the commands that this program can read; zero: OwnFormats.
	Formats coordination.Formats
	// OutboundBytes bounds the replies that wait for a client before it is cut off.
	OutboundBytes int
	// Linger bounds the time in which the client of a stream that has ended may read the end.
	Linger time.Duration
	// CallPatience bounds a command that another server brings without a bound of its own.
	CallPatience time.Duration
	// Failed is called once, when the group cannot go on.
	Failed func(error)
	// Marks decides when the servers of the cluster compare their states; zero: DefaultMarks. A server alone does
	// not.
	Marks coordination.MarkPolicy
	// Executing, if set, gets each entry before this server executes it (hooks.Hooks.Executed).
	Executing func(*coordination.Machine, *coordination.Entry)

	// For tests: replacements for maxListedBytes and companyPatience, and of the comparison of states.
	listedBytes int
	patience    time.Duration
	compare     compare.Config
}

// Group is one replicated log with its machine and, where this server leads, its leader.
//
// Three kinds of state meet here. The state that the log decides is in the replica, the same on every server. The
// state that only a leader has is in the replica too, on one server at a time. The state of this server alone is in the
// parts: its streams, its relay, its questions to others.
//
// Clients' streams, calls, relays of other servers and the log leave events in the queue. The holder of the turn
// handles them, and alone touches the core. It waits for nothing: messages go into Fronts and relays, commands into the
// log's inbox.
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

// hold returns the core to the holder of the turn, which shows its token.
func (g *Group) hold(t turn.Token) *core {
	t.Check()
	g.core.token = t
	return &g.core
}

// replica is the machine and, where this server leads, the leader.
type replica = coordination.Replica[streams.Sink, *call]

// FormatVersion returns the newest version of commands that every server of the cluster can read, or the first as long
// as that is not known of all.
func (g *shared) FormatVersion() uint64 { return max(1, g.readable()) }

// readable is FormatVersion, but 0 as long as it is not known of all.
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
