package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/scheme"
)

// group is one replicated log with its machine and, where this server leads, its leader. One goroutine, run, owns the
// rings; everybody else puts events into the queue.
type group struct {
	store  *raftstore.Store
	queue  *queue
	clock  clock
	logger *slog.Logger

	ready   chan struct{} // closed when the leader serves for the first time
	stopped chan struct{} // closed when run has ended
	stop    chan struct{}
	failed  func(error) // called once, when the group cannot go on
	access  publishedAccess

	// Owned by run.
	machine    *coordination.Machine
	leader     *coordination.Leader // nil while this server does not serve
	leading    raftTerm             // led but not yet served, 0 otherwise
	streams    map[coordination.StreamID]*sessionStream
	calls      map[coordination.Epoch]*call
	inFlight   int // bytes proposed in this term and not yet applied
	checkpoint *runningCheckpoint
	spareStore []storeEvent
	spare      []event
}

// openGroup reads the stored state.
func openGroup(cfg Config, store *raftstore.Store, failed func(error)) (*group, error) {
	machine, err := loadMachine(cfg, store)
	if err != nil {
		return nil, err
	}
	g := &group{
		store: store, queue: newQueue(), clock: newClock(), logger: cfg.Logger, machine: machine, failed: failed,
		ready: make(chan struct{}), stopped: make(chan struct{}), stop: make(chan struct{}),
		streams: make(map[coordination.StreamID]*sessionStream),
		calls:   make(map[coordination.Epoch]*call),
	}
	g.access.publish(machine)
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
func (g *group) Committed(entries []raftstore.Entry) { g.queue.putStore(storeEvent{entries: entries}) }

// Leading implements raftstore.Handler.
func (g *group) Leading(term uint64) { g.queue.putStore(storeEvent{leading: term}) }

// Following implements raftstore.Handler.
func (g *group) Following(_, _ uint64) { g.queue.putStore(storeEvent{following: true}) }

// ReadReady implements raftstore.Handler.
func (g *group) ReadReady(id, _ uint64) { g.queue.putStore(storeEvent{barrier: id}) }

// CheckpointDone implements raftstore.Handler.
func (g *group) CheckpointDone(index uint64) {
	g.logger.Debug("checkpoint stored", "index", index)
}

// Failed implements raftstore.Handler.
func (g *group) Failed(err error) { g.queue.putStore(storeEvent{failed: err}) }

// run handles events until the group is stopped or fails.
func (g *group) run() {
	defer close(g.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-g.stop:
			g.lead(nil)
			return
		case <-g.queue.wake:
		case <-timer.C:
		}
		if err := g.turn(); err != nil {
			g.failed(err)
			return
		}
		g.setTimer(timer)
	}
}

// turn handles everything that is there: first what the log says, then requests as long as not too much is in flight.
func (g *group) turn() error {
	for _, e := range g.takeStore() {
		if err := g.handleStore(e); err != nil {
			return err
		}
	}
	if g.inFlight < maxInFlightBytes {
		for _, e := range g.takeRequests() {
			g.handle(e)
		}
	}
	if g.leader != nil {
		g.leader.Tick(g.clock.now())
	}
	g.carryOut()
	g.continueCheckpoint()
	return nil
}

func (g *group) takeStore() []storeEvent {
	events := g.queue.takeStore(g.spareStore[:0])
	g.spareStore = events
	return events
}

func (g *group) takeRequests() []event {
	clear(g.spare)
	events := g.queue.takeRequests(g.spare[:0])
	g.spare = events
	return events
}

func (g *group) setTimer(timer *time.Timer) {
	switch {
	case g.checkpoint != nil:
		timer.Reset(g.checkpoint.pause())
	case g.leader != nil && g.leader.NextDeadline() != coordination.Never:
		timer.Reset(g.clock.until(g.leader.NextDeadline()))
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
	case e.barrier != 0 && g.leader != nil:
		g.leader.BarrierPassed(e.barrier)
	}
	for i := range e.entries {
		if err := g.apply(&e.entries[i]); err != nil {
			return err
		}
		e.entries[i].Data = nil
	}
	if n := len(e.entries); n > 0 {
		g.store.Applied(e.entries[n-1].Index)
		g.startCheckpoint()
	}
	return nil
}

// apply executes one entry. An entry that this program cannot read stops the server: it must not be skipped.
func (g *group) apply(e *raftstore.Entry) error {
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

// lead takes up a new leader, or none. Whoever waits for the old one is told that it is gone.
func (g *group) lead(leader *coordination.Leader) {
	g.leader, g.inFlight = leader, 0
	for id, s := range g.streams {
		s.deliver(&coordination.Message{Stream: id, Kind: coordination.MessageEnd, Refusal: coordination.LinkFailure})
	}
	clear(g.streams)
	for _, c := range g.calls {
		c.done <- unavailable
	}
	clear(g.calls)
	if leader != nil {
		g.leading = 0
		select {
		case <-g.ready:
		default:
			close(g.ready)
		}
	}
}

var unavailable = scheme.Refuse(scheme.Unavailable, scheme.Issue{Severity: scheme.SeverityError, Message: "No leader: try again"})

func (g *group) handle(e event) {
	switch {
	case e.call != nil:
		g.handleCall(e.call)
	case g.leader == nil:
		if e.attach != nil {
			e.stream.deliver(&coordination.Message{Stream: e.stream.id, Kind: coordination.MessageEnd, Refusal: coordination.LinkFailure})
		}
	case e.attach != nil:
		g.streams[e.stream.id] = e.stream
		g.leader.Attach(g.clock.now(), e.stream.id, *e.attach)
	case e.request != nil:
		g.leader.Request(e.stream.id, e.sequence, e.request)
	case e.detach:
		delete(g.streams, e.stream.id)
		g.leader.Detach(g.clock.now(), e.stream.id)
	}
}

func (g *group) handleCall(c *call) {
	switch {
	case c.read != nil:
		c.done <- c.read(g.machine)
	case g.leader == nil:
		c.done <- unavailable
	default:
		number := g.leader.NextCall()
		g.calls[number] = c
		g.leader.Propose(c.build(number))
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
		if s := g.streams[m.Stream]; s != nil {
			if m.Kind == coordination.MessageEnd || m.Kind == coordination.MessageStopped {
				delete(g.streams, m.Stream)
			}
			s.deliver(m)
		}
		*m = coordination.Message{}
	}
	for _, done := range out.Calls {
		if c := g.calls[done.Call]; c != nil {
			delete(g.calls, done.Call)
			c.done <- done.Outcome
		}
	}
}

// execute runs a command about the path tree and returns its outcome once it is durable and applied. If ctx ends
// earlier the command may still be executed.
func (g *group) execute(ctx context.Context, build func(coordination.Epoch) coordination.Command) (scheme.Outcome, error) {
	return g.await(ctx, &call{build: build, done: make(chan scheme.Outcome, 1)})
}

// read runs fn on the group's goroutine. fn must be quick and must not keep what it is given.
func (g *group) read(ctx context.Context, fn func(*coordination.Machine) scheme.Outcome) (scheme.Outcome, error) {
	return g.await(ctx, &call{read: fn, done: make(chan scheme.Outcome, 1)})
}

var errStopped = errors.New("the server is stopping")

func (g *group) await(ctx context.Context, c *call) (scheme.Outcome, error) {
	g.queue.awaitRoom(ctx)
	g.queue.put(event{call: c})
	select {
	case outcome := <-c.done:
		return outcome, nil
	case <-ctx.Done():
		return scheme.Outcome{}, ctx.Err()
	case <-g.stopped:
		return scheme.Outcome{}, errStopped
	}
}
