package group

import (
	"fmt"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore"
)

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
		g.queue.bell.ring()
	} else {
		g.takeFreeTurn()
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

// restore takes over the state of another member that is stored now: that of the checkpoint which the log told of, or
// of a later one. The entries up to that may still come.
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
		g.link = &localLink{group: g, gone: make(chan struct{})}
		g.streams.follow(g.link)
		g.member.toward(uint64(leader.Term()), 0) // it wakes calls, which must find that this server leads
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
			commands[i] = g.encoded(c)
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
