package group

import (
	"context"
	"log/slog"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/internal/budget"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/server/group/compare"
	"github.com/coordd/coordd/server/group/events"
	"github.com/coordd/coordd/server/group/limiter"
	"github.com/coordd/coordd/server/group/slowest"
	"github.com/coordd/coordd/server/group/streams"
)

const (
	// maxInFlightBytes bounds the entries that are proposed and not yet applied; above it requests stay in the queue.
	maxInFlightBytes = 64 << 20
	// maxQueuedBytes bounds the queue; above it streams are not read.
	maxQueuedBytes = 64 << 20
)

// Open opens the log. The group takes no part in it before Start. Errors: those of raftstore.Open.
func Open(ctx context.Context, config Config) (*Group, error) {
	g := newGroup(config)
	log := g.config.Log
	log.Cluster.Version = g.config.Formats.Version
	if log.Cluster.Services == nil {
		log.Cluster.Services = new(peers.Services)
	}
	g.register(log.Cluster.Services)
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
	g.store, g.lease, g.logFull = store, store, store.Checkpoints.LogFull
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
		config.Marks = coordination.MarkPolicy{} // no other server has a state to compare with
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
	self := inside{g}
	s.self = self
	s.comparer = compare.New(self, s.logger, config.compare)
	if g.shell = config.Shell; g.shell == (clock.Clock{}) {
		g.shell = g.clock
	}
	g.Slow = slowest.New(func() bool { return g.store.Checkpoints.Open() })
	g.streams = streams.New(streams.Config{Core: self, Clock: g.clock, Room: g.queue.room, Linger: config.Linger,
		OutboundBytes: config.OutboundBytes, Remind: config.Remind, Slow: g.Slow})
	g.turn = turn.New(g.queue.bell, func() bool { return !g.queue.empty() })
	g.core.due, g.core.chores = clock.NewAlarm(g.clock, g.queue.bell.Ring), clock.NewAlarm(g.shell, g.queue.bell.Ring)
	g.limiter = limiter.New(self, g.streams, g.clock, g.over)
	g.uplink = streams.NewUplink(self, g.streams, g.limiter, g.shell, g.logger, g.markReady)
	g.relays = streams.NewPeers(self, g.streams, g.limiter, g.shell)
	return g
}

// Start makes the group take part in the cluster, from the stored state on.
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

// load builds the replica from the state that Open has read.
func (g *Group) load() error {
	machine, err := g.stored.finish()
	if err != nil {
		return err
	}
	g.stored = nil
	c := &g.core // no goroutine takes a turn yet
	c.replica = coordination.NewReplica[streams.Sink, *call](machine, g.config.Formats)
	c.replica.SetMarkPolicy(g.config.Marks)
	c.digestRestored()
	g.access.publish(machine)
	g.size.publish(machine)
	g.applied.Store(uint64(machine.Index()))
	c.beginReplay(uint64(machine.Index()), g.store.LoggedIndex())
	c.observeBehind = g.store.LoggedIndex()
	c.events.Begin(machine.Index())
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

// Log returns the replicated log, with its members and its disk.
func (g *Group) Log() *raftstore.Store { return g.store }

// Shell returns the clock of everything but the rings.
func (g *Group) Shell() clock.Clock { return g.shell }

// Ready is closed when there is a leader, here or elsewhere, that serves.
func (g *Group) Ready() <-chan struct{} { return g.ready }

// Leads reports whether this server leads and serves as the leader.
func (g *Group) Leads() bool { return g.streams.LocalLink() != nil }

// Led reports whether there is a leader to speak to, here or elsewhere.
func (g *Group) Led() bool { return g.streams.Led() }

// Mute reports whether there is a leader and this server may nevertheless not speak to clients at present: as the
// leader it has no lease, as a follower no permit.
func (g *Group) Mute() bool { return g.streams.Led() && g.streams.Speaking() == nil }

// Queued counts the requests in the queue.
func (g *Group) Queued() int { return g.queue.length() }

// Budgets returns the bounds of requests and descriptions.
func (g *Group) Budgets() []*budget.Budget {
	return []*budget.Budget{g.streams.Budget, g.queue.room, g.streams.Copies}
}

// RequestBytes returns the bytes of all requests of this server's streams that have no first answer, and the number of
// streams that wait for room for another one.
func (g *Group) RequestBytes() (held, waiting int) {
	return g.streams.Budget.Used(), g.streams.Budget.Waiting()
}

// Lag returns the number of entries that this server lacks; known is false before the first read index.
func (g *Group) Lag() (entries uint64, known bool) {
	committed, applied := g.committed.Load(), g.applied.Load()
	if g.Leads() {
		return 0, true
	}
	return max(committed, applied) - applied, committed != 0
}

// Events keeps the events of this server.
func (g *Group) Events() *events.Ring { return g.events }

// NewStream makes a stream of a client, which is pinged by policy. It takes part from Enter on.
func (g *Group) NewStream(client streams.Client, caller streams.Caller,
	policy *coordination.PingPolicy) *streams.Stream {
	return g.streams.NewStream(client, caller, policy)
}

// Limiter hands out the units of rate limiters on this server.
func (g *Group) Limiter() *limiter.Limiter { return g.limiter }

// Clients returns the clients of all open streams.
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

// OwnFormats are the commands that this program can read.
var OwnFormats = coordination.Formats{Version: codec.Version, Since: codec.Since}

// inside is the group as its parts use it: the Core of streams, limiter and compare.
type inside struct{ *Group }

// Kick implements streams.Core.
func (g inside) Kick() { g.kick() }

// Ring implements streams.Core.
func (g inside) Ring() { g.queue.bell.Ring() }

// Member implements streams.Core.
func (g inside) Member() uint64 { return g.store.Member() }

// Traced implements streams.Core.
func (g inside) Traced(attached *coordination.Message, trace string) {
	g.events.Trace(g.clock.WallMillis(), attached, trace)
}

// MaySpeak implements streams.Core.
func (g inside) MaySpeak() bool { return g.lease.MaySpeak() && !g.quiet.Load() }

// IsQuiet implements streams.Core.
func (g inside) IsQuiet() bool { return g.quiet.Load() }

// Put implements streams.Core.
func (g inside) Put(s streams.Forwarded) { g.queue.put(event{Forwarded: s}) }

// Look implements limiter.Core.
func (g inside) Look(ctx context.Context, rows int,
	look func(turn.Token, *coordination.Machine)) error {
	_, err := captureCore(ctx, g.Group, rows, func(c *core) struct{} {
		look(c.token, c.replica.Machine())
		return struct{}{}
	})
	return err
}

// Panicked implements limiter.Core.
func (g inside) Panicked(reason any) {
	c := g.hold(g.turn.Lock())
	defer g.turn.Unlock()
	c.panicked(reason)
}

// Store implements compare.Core.
func (g inside) Store() *raftstore.Store { return g.store }

// Diverged implements compare.Core.
func (g inside) Diverged(err *compare.DivergedError) {
	c := g.hold(g.turn.Lock())
	over := c.closed
	c.close()
	g.turn.Unlock()
	if !over {
		g.config.Failed(err)
	}
}
