package group

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore"
)

// Config is what a group is opened with.
type Config struct {
	// Log says where the log is and who the other members are. Open sets Version and adds to Services of its Cluster. Its
	// Logger receives the group's events, too; nil: none.
	Log raftstore.Config
	// Database is the absolute path under which everything lives.
	Database string
	// Limits are those of nodes.
	Limits coordination.Limits
	// Clock tells the rings the time.
	Clock Clock
	// Formats is which commands this program can read; zero: OwnFormats.
	Formats Formats
	// Streams is how many streams there may be at once on this server (coordination.md §5).
	Streams int
	// OutboundBytes is how much a stream may have waiting for a client that does not read before it is cut off.
	OutboundBytes int
	// Linger is how long a stream that has ended waits for its client to read the end.
	Linger time.Duration
	// CallPatience bounds a command that another server brings without a bound of its own.
	CallPatience time.Duration
	// Failed is called once, when the group cannot go on.
	Failed func(error)
}

const (
	// maxInFlightBytes is how much may be proposed and not yet applied; beyond it requests stay in the queue.
	maxInFlightBytes = 64 << 20
	// maxQueuedBytes is how much may be in the queue; beyond it streams are not read.
	maxQueuedBytes = 64 << 20
)

// Group is one replicated log with its machine and, where this server leads, its leader. Everybody puts events into the
// queue; whoever holds the turn handles them, and alone touches the rings. On a quiet server that is the goroutine that
// brought the event, which spares the way over others: a client's, another server's, or the one that writes the log. None
// of them may be held up for long, so what takes longer than a short turn is left to the group's own goroutine.
type Group struct {
	config  Config
	store   *raftstore.Store
	lease   interface{ MaySpeak() bool } // the store's
	queue   *queue
	clock   Clock
	logger  *slog.Logger
	streams *streamSet
	member  *member
	relays  relayPeers

	ready   chan struct{} // closed when the leader serves for the first time
	over    chan struct{} // closed when the group handles nothing any more
	stop    chan struct{}
	ended   chan struct{} // closed when run has ended
	running bool          // Start has succeeded
	failed  func(error)   // called once, when the group cannot go on

	readyOnce sync.Once
	rounds    readRounds
	access    publishedAccess
	committed atomic.Uint64 // index that the leader last told, 0 if it never did

	turn    sync.Mutex
	busy    atomic.Bool          // something is in flight
	applied atomic.Uint64        // index of the last entry that the machine has, or an earlier one
	timer   *time.Timer          // wakes run
	timerAt coordination.Instant // when it does

	// Owned by the holder of the turn.
	closed     bool // nothing is handled any more
	machine    *coordination.Machine
	leader     *coordination.Leader // nil while this server does not serve
	leading    raftTerm             // led but not yet served, 0 otherwise
	link       *localLink           // to the leader, nil without one
	sinks      map[coordination.StreamID]sink
	calls      map[coordination.Call][]*call // under way, and who waits
	allowed    uint64                        // version of commands that may be written
	restored   uint64                        // what came with the last checkpoint of another member
	inFlight   int                           // bytes proposed in this term and not yet applied
	checkpoint *runningCheckpoint
	spareStore []storeEvent
	spare      []event
	reads      []*call // not yet answered
	barriers   []passedBarrier
}

// Open opens the log. The group takes no part in it before Start. Errors: those of raftstore.OpenContext.
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
	store, err := raftstore.OpenContext(ctx, log)
	if err != nil {
		return nil, err
	}
	g.store, g.lease = store, store
	return g, nil
}

func newGroup(config Config) *Group {
	if config.Log.Logger == nil {
		config.Log.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Formats.Since == nil {
		config.Formats = OwnFormats
	}
	g := &Group{
		config: config, queue: newQueue(), clock: config.Clock, logger: config.Log.Logger, failed: config.Failed,
		streams: newStreamSet(config.Streams),
		ready:   make(chan struct{}), over: make(chan struct{}), stop: make(chan struct{}), ended: make(chan struct{}),
		timer: time.NewTimer(time.Hour), timerAt: coordination.Never,
		sinks: make(map[coordination.StreamID]sink),
		calls: make(map[coordination.Call][]*call),
	}
	g.member = newMember(g)
	return g
}

// Start reads the stored state and begins to take part in the cluster.
func (g *Group) Start() error {
	if err := g.load(); err != nil {
		return err
	}
	if err := g.store.Start(handler{g}); err != nil {
		return err
	}
	g.running = true
	g.startMember()
	go g.run()
	return nil
}

// load reads the stored state.
func (g *Group) load() error {
	machine, err := loadMachine(g.config, g.store)
	if err != nil {
		return err
	}
	g.machine = machine
	g.access.publish(machine)
	g.applied.Store(uint64(machine.Index()))
	return nil
}

// Stop ends the group, and waits for what other servers have under way here, though no longer than until ctx is done. It
// may be called once, and also without Start.
func (g *Group) Stop(ctx context.Context) error {
	if g.running {
		g.stopMember()
		close(g.stop)
		<-g.ended
	}
	err := g.store.Stop()
	g.relays.wait(ctx)
	return err
}

// Log is the replicated log, for those who manage its members and its disk.
func (g *Group) Log() *raftstore.Store { return g.store }

// Clock is the clock of the rings.
func (g *Group) Clock() Clock { return g.clock }

// Ready is closed when there is a leader, here or elsewhere, that serves.
func (g *Group) Ready() <-chan struct{} { return g.ready }

// Over is closed when the group handles nothing any more.
func (g *Group) Over() <-chan struct{} { return g.over }

// Leads tells whether this server leads and serves as the leader.
func (g *Group) Leads() bool { return g.streams.localLink() != nil }

// Led tells whether there is a leader to speak to, here or elsewhere.
func (g *Group) Led() bool { return g.streams.led() }

// Queued is how many requests wait to be handled.
func (g *Group) Queued() int { return g.queue.length() }

// Lag is how many entries this server lacks; known is false as long as the leader has not told how many there are.
func (g *Group) Lag() (entries uint64, known bool) {
	committed, applied := g.committed.Load(), g.applied.Load()
	if g.Leads() {
		return 0, true
	}
	return max(committed, applied) - applied, committed != 0
}

// Clients are those whose streams are open.
func (g *Group) Clients() []Client {
	var clients []Client
	for _, s := range g.streams.all() {
		clients = append(clients, s.client)
	}
	return clients
}

// EndStreams refuses new streams and ends all open ones.
func (g *Group) EndStreams(refusal *coordination.Refusal) { g.streams.endAll(refusal) }

// Nonce is hard to guess, and not 0.
func Nonce() uint64 { return max(1, rand.Uint64()) }

func loadMachine(config Config, store *raftstore.Store) (*coordination.Machine, error) {
	restorer, err := coordination.NewRestorer(config.Database, config.Limits)
	if err != nil {
		return nil, err
	}
	rows := 0
	err = store.Rows(func(key, value []byte) error {
		rows++
		row, err := codec.DecodeRow(key, value)
		if err != nil {
			return err
		}
		return restorer.Add(row)
	})
	if err != nil {
		return nil, fmt.Errorf("read the checkpoint: %w", err)
	}
	if rows == 0 { // nothing but the log yet
		return coordination.NewMachine(config.Database, config.Limits)
	}
	machine, err := restorer.Finish()
	if err != nil {
		return nil, fmt.Errorf("read the checkpoint: %w", err)
	}
	return machine, nil
}

// handler is how the log tells the group what happens. It is called from the log's goroutine.
type handler struct{ *Group }

// Committed implements raftstore.Handler.
func (g handler) Committed(entries []raftstore.Entry) { g.tell(storeEvent{entries: entries}) }

// Leading implements raftstore.Handler.
func (g handler) Leading(term uint64) { g.tell(storeEvent{leading: term}) }

// Following implements raftstore.Handler.
func (g handler) Following(term, leader uint64) {
	g.tell(storeEvent{following: true, term: term, leader: leader})
}

// Restore implements raftstore.Restorer.
func (g handler) Restore(index uint64) { g.tell(storeEvent{restored: index}) }

// ReadReady implements raftstore.Handler.
func (g handler) ReadReady(id, index uint64) { g.tell(storeEvent{barrier: id, index: index}) }

// CheckpointDone implements raftstore.Handler.
func (g handler) CheckpointDone(index uint64) {
	g.logger.Debug("checkpoint stored", "index", index)
}

// Failed implements raftstore.Handler.
func (g handler) Failed(err error) { g.tell(storeEvent{failed: err}) }

// tell keeps what the log says for the next turn.
func (g *Group) tell(e storeEvent) { g.queue.putStore(e) }

// Flush implements raftstore.Handler.
func (g handler) Flush(busy bool) {
	if busy {
		g.queue.signal()
	} else {
		g.takeFreeTurn()
	}
}

// run takes the turns that nobody else takes, until the group is stopped.
func (g *Group) run() {
	defer close(g.ended)
	defer g.timer.Stop()
	for {
		select {
		case <-g.stop:
			g.turn.Lock()
			g.close()
			g.turn.Unlock()
			return
		case <-g.queue.wake:
		case <-g.timer.C:
		}
		g.turn.Lock()
		g.takeTurn()
		g.turn.Unlock()
		if !g.queue.empty() { // somebody found the turn taken
			g.queue.signal()
		}
	}
}

// kick handles what is in the queue on the caller's goroutine if the server is quiet: nothing is in flight, and the turn
// is free. Otherwise requests gather for the next batch. The caller must hold no lock of a stream.
func (g *Group) kick() {
	if g.busy.Load() {
		if !g.queue.empty() {
			g.queue.signal()
		}
		return
	}
	g.takeFreeTurn()
}

// takeFreeTurn handles what is in the queue on the caller's goroutine if the turn is free and short; if it is not free, its
// holder sees to it, and if it would take long, run does.
func (g *Group) takeFreeTurn() {
	for taken := false; !g.queue.empty() && g.turn.TryLock(); taken = true {
		if taken || !g.takeShortTurn() { // there is always more: the caller's goroutine has something else to do
			g.turn.Unlock()
			g.queue.signal()
			return
		}
		g.turn.Unlock()
	}
}

// close ends the group. The turn is held.
func (g *Group) close() {
	if !g.closed {
		g.closed = true
		close(g.over)
	}
}

// takeTurn handles everything that is there: first what the log says, then requests as long as not too much is in
// flight. The turn is held.
func (g *Group) takeTurn() {
	g.spareStore = g.queue.takeStore(g.spareStore[:0])
	g.handleAll(g.spareStore)
}

// takeShortTurn is takeTurn if that takes no longer than a goroutine with other duties may be held up, and reports whether
// it was done. A new leader looks at all sessions. The turn is held.
func (g *Group) takeShortTurn() bool {
	if g.leading != 0 {
		return false
	}
	news, short := g.queue.takeLittle(g.spareStore[:0])
	if !short {
		return false
	}
	g.spareStore = news
	g.handleAll(news)
	return true
}

// handleAll handles the log's news and then what is in the queue. The turn is held.
func (g *Group) handleAll(news []storeEvent) {
	if g.closed {
		return
	}
	defer g.failOnPanic()
	for _, e := range news {
		if err := g.handleStore(e); err != nil {
			g.close()
			g.failed(err)
			return
		}
	}
	if g.inFlight < maxInFlightBytes {
		g.allowed = g.allowedVersion()
		for _, e := range g.takeRequests() {
			g.handle(e)
		}
	} else {
		g.queue.hold()
	}
	g.answerReads()
	if g.leader != nil {
		g.leader.Tick(g.clock.Now())
	}
	g.carryOut()
	g.continueCheckpoint()
	g.setTimer()
	g.busy.Store(g.inFlight > 0)
}

func (g *Group) takeRequests() []event {
	clear(g.spare)
	events := g.queue.takeRequests(g.spare[:0])
	g.spare = events
	return events
}

// setTimer has run wake up when the next thing is due.
func (g *Group) setTimer() {
	next := coordination.Never
	if g.leader != nil {
		next = g.leader.NextDeadline()
	}
	if g.checkpoint != nil {
		next = min(next, g.clock.Now()+coordination.Instant(g.checkpoint.pause()))
	}
	if now := g.clock.Now(); next < g.timerAt || g.timerAt <= now && next != coordination.Never {
		g.timerAt = next
		g.timer.Reset(g.clock.Until(next))
	} else if g.timerAt <= now {
		g.timerAt = coordination.Never
	}
}

func (g *Group) handleStore(e storeEvent) error {
	switch {
	case e.failed != nil:
		return e.failed
	case e.leading != 0:
		g.leading = e.leading
	case e.following:
		g.leading = 0
		g.lead(nil)
		g.member.toward(e.term, e.leader)
	case e.restored > uint64(g.machine.Index()): // otherwise a later one was in its place already when it was loaded
		if err := g.restore(); err != nil {
			return err
		}
	case e.barrier&readBarrier != 0:
		g.committed.Store(max(e.index, g.committed.Load()))
		g.barriers = append(g.barriers, passedBarrier{e.barrier, e.index})
	case e.barrier != 0 && g.leader != nil:
		g.leader.BarrierPassed(e.barrier)
	}
	for i := range e.entries {
		if err := g.apply(&e.entries[i]); err != nil {
			return err
		}
		e.entries[i].Data = nil
	}
	g.answerBarriers()
	if n := len(e.entries); n > 0 {
		g.store.Applied(e.entries[n-1].Index)
		g.applied.Store(uint64(g.machine.Index()))
		g.startCheckpoint()
	}
	return nil
}

// restore takes over the state of another member that is stored now: that of the checkpoint which the log told of, or of a
// later one. The entries up to that may still come.
func (g *Group) restore() error {
	machine, err := loadMachine(g.config, g.store)
	if err != nil {
		return err
	}
	g.machine, g.checkpoint, g.restored = machine, nil, uint64(machine.Index())
	g.access.publish(machine)
	g.applied.Store(g.restored)
	return nil
}

// apply executes one entry. An entry that this program cannot read stops the server: it must not be skipped.
func (g *Group) apply(e *raftstore.Entry) error {
	if e.Index <= g.restored {
		return nil
	}
	command, err := codec.DecodeCommand(e.Data)
	if err != nil {
		return fmt.Errorf("entry %d of the log: %w", e.Index, err)
	}
	effects := g.machine.Apply(coordination.Index(e.Index), coordination.Term(e.Term), command)
	g.access.publish(g.machine)
	switch {
	case g.leader != nil:
		g.inFlight -= len(e.Data)
		g.leader.Applied(g.clock.Now(), coordination.Term(e.Term), command, effects)
	case g.leading == e.Term && e.Term != 0:
		g.lead(coordination.NewLeader(g.machine, coordination.Term(e.Term), g.clock.Now()))
	}
	return nil
}

// lead takes up a new leader, or none. Streams and calls turn to the new one.
func (g *Group) lead(leader *coordination.Leader) {
	g.leader, g.inFlight = leader, 0
	clear(g.sinks)
	if g.link != nil {
		close(g.link.gone)
	}
	g.loseCalls()
	if g.link = nil; leader == nil {
		g.streams.follow(nil)
	} else {
		g.leading = 0
		leader.BeginLineage(g.store.Lineage())
		g.member.toward(uint64(leader.Term()), 0)
		g.link = &localLink{group: g, gone: make(chan struct{})}
		g.streams.follow(g.link)
		g.markReady()
	}
}

func (g *Group) handle(e event) {
	switch {
	case e.call != nil:
		g.handleCall(e.call)
	case e.link != g.link: // the stream tells the next leader itself
	case g.restricted() && g.turnAway(&e):
	case e.forward.Attach != nil:
		g.sinks[e.id] = e.sink
		g.leader.Attach(g.clock.Now(), e.id, *e.forward.Attach)
	case e.forward.Roster != nil:
		g.sinks[e.id] = e.sink
		g.leader.Resume(g.clock.Now(), e.id, e.forward.Roster)
	case e.forward.Request != nil:
		g.leader.Request(g.clock.Now(), e.id, e.forward.Sequence, e.forward.Acknowledged, e.forward.Request)
	case e.forward.Detach:
		delete(g.sinks, e.id)
		g.leader.Detach(g.clock.Now(), e.id)
	}
}

// carryOut does what the leader wants: commands first, so that the disk is at work while messages go out.
func (g *Group) carryOut() {
	if g.leader == nil {
		return
	}
	out := g.leader.Take()
	if len(out.Commands) > 0 {
		commands := make([][]byte, len(out.Commands))
		for i, c := range out.Commands {
			commands[i] = codec.AppendCommand(nil, c)
			g.inFlight += len(commands[i])
			out.Commands[i] = nil
		}
		g.store.Propose(uint64(g.leader.Term()), commands)
	}
	if out.Barrier != 0 {
		g.store.ReadIndex(out.Barrier)
	}
	for i := range out.Messages {
		m := &out.Messages[i]
		if s := g.sinks[m.Stream]; s != nil {
			if m.Kind == coordination.MessageEnd || m.Kind == coordination.MessageStopped {
				delete(g.sinks, m.Stream)
			}
			s.deliver(g.link, m)
		}
		*m = coordination.Message{}
	}
	g.answerCalls(out.Calls)
}
