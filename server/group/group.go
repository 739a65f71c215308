package group

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/group/compare"
	"github.com/coordd/coordd/server/group/events"
	"github.com/coordd/coordd/server/group/limiter"
	"github.com/coordd/coordd/server/group/streams"
)

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

const (
	// maxInFlightBytes is how much may be proposed and not yet applied; beyond it requests stay in the queue.
	maxInFlightBytes = 64 << 20
	// maxQueuedBytes is how much may be in the queue; beyond it streams are not read.
	maxQueuedBytes = 64 << 20
)

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

// Open opens the log. The group takes no part in it before Start. Errors: those of raftstore.Open.
func Open(ctx context.Context, config Config) (*Group, error) {
	g := newGroup(config)
	log := g.config.Log
	log.Cluster.Version = g.config.Formats.Version
	log.Cluster.Services = func(registrar grpc.ServiceRegistrar) {
		g.Services(registrar)
		if others := config.Log.Cluster.Services; others != nil {
			others(registrar)
		}
	}
	stored, err := newLoader(config)
	if err != nil {
		return nil, err
	}
	log.Load = stored.add
	store, err := raftstore.Open(ctx, log)
	if err != nil {
		return nil, err
	}
	g.stored = stored
	g.store, g.lease, g.logFull = store, store, store.LogFull
	g.queue.writing = func() bool { return g.busy.Load() && store.Writing() }
	return g, nil
}

func newGroup(config Config) *Group {
	if config.Log.Logger == nil {
		config.Log.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Formats.Since == nil {
		config.Formats = OwnFormats
	}
	switch {
	case config.Log.Cluster.ListenPeer == "":
		config.Marks = coordination.MarkPolicy{} // there is nobody to compare with
	case config.Marks == coordination.MarkPolicy{}:
		config.Marks = DefaultMarks
	}
	s := &shared{
		config: config, queue: newQueue(), clock: config.Clock, logger: config.Log.Logger,
		debugs: tellsTimeouts(config.Log.Logger), events: events.New(streams.Nonce()),
		ready: make(chan struct{}), over: make(chan struct{}),
	}
	g := &Group{shared: s, core: core{shared: s, companyUntil: coordination.Never}, stop: make(chan struct{}),
		ended: make(chan struct{})}
	s.inside = inside{g}
	s.comparer = compare.New(s.inside, s.logger, config.compare)
	if g.shell = config.Shell; g.shell == (clock.Clock{}) {
		g.shell = g.clock
	}
	g.streams = streams.New(streams.Config{Core: g.inside, Clock: g.clock, Room: &g.queue.room, Linger: config.Linger,
		OutboundBytes: config.OutboundBytes, Remind: config.Remind})
	g.turn = turn.New(g.queue.bell, func() bool { return !g.queue.empty() })
	g.core.due, g.core.chores = clock.NewAlarm(g.clock, g.queue.bell.Ring), clock.NewAlarm(g.shell, g.queue.bell.Ring)
	g.limiter = limiter.New(g.inside, g.streams, g.clock, g.over)
	g.uplink = streams.NewUplink(g.inside, g.streams, g.limiter, g.shell, g.logger, g.markReady)
	g.relays = streams.NewPeers(g.inside, g.streams, g.limiter, g.shell)
	return g
}

// Start begins with the stored state to take part in the cluster.
func (g *Group) Start() error {
	if err := g.load(); err != nil {
		return err
	}
	if err := g.store.Start(handler{g}); err != nil {
		return err
	}
	g.running = true
	if !g.alone() {
		g.uplink.Start(g.store)
		g.comparer.Start()
	}
	g.limiter.Start()
	go g.run()
	return nil
}

// load makes the stored state, which Open has read, the group's.
func (g *Group) load() error {
	machine, err := g.stored.finish()
	if err != nil {
		return err
	}
	g.stored = nil
	c := &g.core // nobody takes a turn yet
	c.replica = coordination.NewReplica[streams.Sink, *call](machine, g.config.Formats)
	c.replica.SetMarkPolicy(g.config.Marks)
	c.digestRestored()
	g.access.publish(machine)
	g.size.publish(machine)
	g.applied.Store(uint64(machine.Index()))
	c.beginReplay(uint64(machine.Index()), g.store.LoggedIndex())
	c.observeBehind = g.store.LoggedIndex()
	return nil
}

// Stop ends the group, and waits for what other servers have under way here, though no longer than until ctx
// is done. It may be called once, and also without Start.
func (g *Group) Stop(ctx context.Context) error {
	if g.running {
		g.uplink.End()
		g.comparer.Stop()
		close(g.stop)
		<-g.ended
		g.limiter.Close()
	}
	err := g.store.Stop()
	g.relays.Wait(ctx)
	return err
}

// Log is the replicated log, for those who manage its members and its disk.
func (g *Group) Log() *raftstore.Store { return g.store }

// Clock is the clock of everything but the rings.
func (g *Group) Clock() clock.Clock { return g.shell }

// Ready is closed when there is a leader, here or elsewhere, that serves.
func (g *Group) Ready() <-chan struct{} { return g.ready }

// Leads reports whether this server leads and serves as the leader.
func (g *Group) Leads() bool { return g.streams.LocalLink() != nil }

// Led reports whether there is a leader to speak to, here or elsewhere.
func (g *Group) Led() bool { return g.streams.Led() }

// Mute reports whether there is a leader, and this server may for the moment not say anything to clients,
// because nobody has confirmed to it that their sessions live: if it leads, no majority of the members; if
// not, the leader.
func (g *Group) Mute() bool { return g.streams.Led() && g.streams.Speaking() == nil }

// Queued is how many requests wait to be handled.
func (g *Group) Queued() int { return g.queue.length() }

// RequestBytes is how much the requests of all streams of this server hold that have no first answer, and how
// many streams wait with another one until they do not.
func (g *Group) RequestBytes() (held, waiting int) { return g.streams.Budget.Held() }

// Lag is how many entries this server lacks; known is false as long as the leader has not told how many there
// are.
func (g *Group) Lag() (entries uint64, known bool) {
	committed, applied := g.committed.Load(), g.applied.Load()
	if g.Leads() {
		return 0, true
	}
	return max(committed, applied) - applied, committed != 0
}

// Watch begins to read the events of this server, as events.Ring's does.
func (g *Group) Watch(ring, sequence uint64) *events.Watcher { return g.events.Watch(ring, sequence) }

// NewStream makes a stream of a client, which is pinged by policy. It takes part from Enter on.
func (g *Group) NewStream(client streams.Client, caller streams.Caller,
	policy *coordination.PingPolicy) *streams.Stream {
	return g.streams.NewStream(client, caller, policy)
}

// Limiter hands out the units of rate limiters on this server.
func (g *Group) Limiter() *limiter.Limiter { return g.limiter }

// Clients are those whose streams are open.
func (g *Group) Clients() []streams.Client {
	var clients []streams.Client
	for _, s := range g.streams.All() {
		clients = append(clients, s.Client())
	}
	return clients
}

// EndStreams refuses new streams and ends all open ones, all waiting for units, and all watching of events.
func (g *Group) EndStreams(refusal *coordination.Refusal) {
	g.streams.EndAll(refusal)
	g.limiter.End()
	g.events.Close()
}

// OwnFormats are those of this program.
var OwnFormats = coordination.Formats{Version: codec.Version, Since: codec.Since}
