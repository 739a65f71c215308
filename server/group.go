package server

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore"
)

// group is one replicated log with its machine and, where this server leads, its leader. Everybody puts events into the
// queue; whoever holds the turn handles them, and alone touches the rings. On a quiet server that is the goroutine that
// brought the event, which spares the way over others: a client's, another server's, or the one that writes the log. None
// of them may be held up for long, so what takes longer than a short turn is left to the group's own goroutine.
type group struct {
	store  *raftstore.Store
	lease  interface{ MaySpeak() bool } // the store's
	queue  *queue
	clock  clock
	logger *slog.Logger

	ready  chan struct{} // closed when the leader serves for the first time
	over   chan struct{} // closed when the group handles nothing any more
	stop   chan struct{}
	ended  chan struct{}             // closed when run has ended
	failed func(error)               // called once, when the group cannot go on
	follow func(leaderLink)          // called when the streams of this server are to speak to another leader
	toward func(term, leader uint64) // called with the member that leads; 0: none, or this one
	config Config

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

// openGroup reads the stored state.
func openGroup(cfg Config, store *raftstore.Store, clock clock, failed func(error)) (*group, error) {
	machine, err := loadMachine(cfg, store)
	if err != nil {
		return nil, err
	}
	g := &group{
		store: store, lease: store, queue: newQueue(), clock: clock, logger: cfg.Logger, machine: machine, failed: failed, config: cfg,
		ready: make(chan struct{}), over: make(chan struct{}), stop: make(chan struct{}), ended: make(chan struct{}),
		timer: time.NewTimer(time.Hour), timerAt: coordination.Never,
		sinks: make(map[coordination.StreamID]sink),
		calls: make(map[coordination.Call][]*call),
	}
	g.access.publish(machine)
	g.applied.Store(uint64(machine.Index()))
	return g, nil
}

func loadMachine(cfg Config, store *raftstore.Store) (*coordination.Machine, error) {
	restorer, err := coordination.NewRestorer(cfg.Database, cfg.Limits)
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
		return coordination.NewMachine(cfg.Database, cfg.Limits)
	}
	machine, err := restorer.Finish()
	if err != nil {
		return nil, fmt.Errorf("read the checkpoint: %w", err)
	}
	return machine, nil
}

// The group is the log's handler; these are called from the log's goroutine.

// Committed implements raftstore.Handler.
func (g *group) Committed(entries []raftstore.Entry) { g.tell(storeEvent{entries: entries}) }

// Leading implements raftstore.Handler.
func (g *group) Leading(term uint64) { g.tell(storeEvent{leading: term}) }

// Following implements raftstore.Handler.
func (g *group) Following(term, leader uint64) {
	g.tell(storeEvent{following: true, term: term, leader: leader})
}

// Restore implements raftstore.Restorer.
func (g *group) Restore(index uint64) { g.tell(storeEvent{restored: index}) }

// ReadReady implements raftstore.Handler.
func (g *group) ReadReady(id, index uint64) { g.tell(storeEvent{barrier: id, index: index}) }

// CheckpointDone implements raftstore.Handler.
func (g *group) CheckpointDone(index uint64) {
	g.logger.Debug("checkpoint stored", "index", index)
}

// Failed implements raftstore.Handler.
func (g *group) Failed(err error) { g.tell(storeEvent{failed: err}) }

// tell keeps what the log says for the next turn.
func (g *group) tell(e storeEvent) { g.queue.putStore(e) }

// Flush implements raftstore.Handler.
func (g *group) Flush(busy bool) {
	if busy {
		g.queue.signal()
	} else {
		g.takeFreeTurn()
	}
}

// run takes the turns that nobody else takes, until the group is stopped.
func (g *group) run() {
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
func (g *group) kick() {
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
func (g *group) takeFreeTurn() {
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
func (g *group) close() {
	if !g.closed {
		g.closed = true
		close(g.over)
	}
}

// takeTurn handles everything that is there: first what the log says, then requests as long as not too much is in
// flight. The turn is held.
func (g *group) takeTurn() {
	g.spareStore = g.queue.takeStore(g.spareStore[:0])
	g.handleAll(g.spareStore)
}

// takeShortTurn is takeTurn if that takes no longer than a goroutine with other duties may be held up, and reports whether
// it was done. A new leader looks at all sessions. The turn is held.
func (g *group) takeShortTurn() bool {
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
func (g *group) handleAll(news []storeEvent) {
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
		g.leader.Tick(g.clock.now())
	}
	g.carryOut()
	g.continueCheckpoint()
	g.setTimer()
	g.busy.Store(g.inFlight > 0)
}

func (g *group) takeRequests() []event {
	clear(g.spare)
	events := g.queue.takeRequests(g.spare[:0])
	g.spare = events
	return events
}

// setTimer has run wake up when the next thing is due.
func (g *group) setTimer() {
	next := coordination.Never
	if g.leader != nil {
		next = g.leader.NextDeadline()
	}
	if g.checkpoint != nil {
		next = min(next, g.clock.now()+coordination.Instant(g.checkpoint.pause()))
	}
	if now := g.clock.now(); next < g.timerAt || g.timerAt <= now && next != coordination.Never {
		g.timerAt = next
		g.timer.Reset(g.clock.until(next))
	} else if g.timerAt <= now {
		g.timerAt = coordination.Never
	}
}

func (g *group) handleStore(e storeEvent) error {
	switch {
	case e.failed != nil:
		return e.failed
	case e.leading != 0:
		g.leading = e.leading
	case e.following:
		g.leading = 0
		g.lead(nil)
		g.toward(e.term, e.leader)
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
func (g *group) restore() error {
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
func (g *group) apply(e *raftstore.Entry) error {
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
		g.leader.Applied(g.clock.now(), coordination.Term(e.Term), command, effects)
	case g.leading == e.Term && e.Term != 0:
		g.lead(coordination.NewLeader(g.machine, coordination.Term(e.Term), g.clock.now()))
	}
	return nil
}

// lead takes up a new leader, or none. Streams and calls turn to the new one.
func (g *group) lead(leader *coordination.Leader) {
	g.leader, g.inFlight = leader, 0
	clear(g.sinks)
	if g.link != nil {
		close(g.link.gone)
	}
	g.loseCalls()
	if g.link = nil; leader == nil {
		g.follow(nil)
	} else {
		g.leading = 0
		leader.BeginLineage(g.store.Lineage())
		g.toward(uint64(leader.Term()), 0)
		g.link = &localLink{group: g, gone: make(chan struct{})}
		g.follow(g.link)
		g.markReady()
	}
}

func (g *group) handle(e event) {
	switch {
	case e.call != nil:
		g.handleCall(e.call)
	case e.link != g.link: // the stream tells the next leader itself
	case g.restricted() && g.turnAway(&e):
	case e.forward.Attach != nil:
		g.sinks[e.id] = e.sink
		g.leader.Attach(g.clock.now(), e.id, *e.forward.Attach)
	case e.forward.Roster != nil:
		g.sinks[e.id] = e.sink
		g.leader.Resume(g.clock.now(), e.id, e.forward.Roster)
	case e.forward.Request != nil:
		g.leader.Request(g.clock.now(), e.id, e.forward.Sequence, e.forward.Acknowledged, e.forward.Request)
	case e.forward.Detach:
		delete(g.sinks, e.id)
		g.leader.Detach(g.clock.now(), e.id)
	}
}

// carryOut does what the leader wants: commands first, so that the disk is at work while messages go out.
func (g *group) carryOut() {
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
