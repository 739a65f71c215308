package group

import (
	"fmt"
	"runtime/debug"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/group/streams"
)

// This file decides which goroutine handles the queue. On an idle server it is the goroutine that has brought an event,
// which saves waking another one: a client's, another server's, or the one that writes the log. Each of these has other
// work, and while one of them is in a turn no heartbeat is heard or nothing is written. So they take short turns only,
// and leave longer ones to run, the group's own goroutine. Package turn explains why no event is forgotten.
//
// While something is on its way to the disk, a request does not take a turn at all: it waits in the queue,
// and all that gather there become one entry of the log, with one fdatasync, when the disk is free. Commands that
// help no client on wait a little even then (takeWork).

// run takes the turns that nobody else takes, until the group is stopped.
func (g *Group) run() {
	defer close(g.ended)
	for {
		select {
		case <-g.stop:
			c := g.hold(g.turn.Lock())
			c.close()
			c.due.Stop()
			c.chores.Stop()
			g.turn.Unlock()
			return
		case <-g.queue.bell:
		}
		g.hold(g.turn.Lock()).work()
		g.turn.Unlock()
	}
}

// kick handles the queue on the caller's goroutine if the server is idle: nothing is in flight, and the turn is free.
// Otherwise requests gather for the next batch. The caller holds none of the locks that a turn takes.
func (g *Group) kick() {
	if g.busy.Load() {
		if !g.queue.empty() {
			g.queue.bell.Ring()
		}
		return
	}
	g.workIfFree()
}

// workIfFree handles the queue on the caller's goroutine if the turn is free and would be short. A longer turn, and
// events that come meanwhile, are left to run.
func (g *Group) workIfFree() {
	if g.queue.empty() {
		return
	}
	if held, free := g.turn.TryLock(); free {
		g.hold(held).workBriefly()
		g.turn.Unlock()
	}
}

// close ends the group. The turn is held.
func (g *core) close() {
	if !g.closed {
		g.closed = true
		close(g.over)
	}
}

// work handles the log's news, and then requests as long as not too much is in flight. The turn is held.
func (g *core) work() {
	g.spareStore = g.queue.takeStore(g.spareStore[:0])
	g.handleAll(g.spareStore)
}

// workBriefly is work if the turn is short; otherwise it does nothing. The turn in which an elected leader begins to
// serve is not: all streams of this server turn to it. The turn is held.
func (g *core) workBriefly() {
	if g.replica.Elected() {
		return
	}
	if news, short := g.queue.takeLittle(g.spareStore[:0]); short {
		g.spareStore = news
		g.handleAll(news)
	}
}

// handleAll is a turn: it handles the log's news and then the requests in the queue, and does what the replica wants
// done. The turn is held.
func (g *core) handleAll(news []storeEvent) {
	if g.closed {
		return
	}
	defer g.failOnPanic()
	g.turns.Add(1)
	g.begun = g.clock.Now()
	for _, e := range news {
		if err := g.handleStore(e); err != nil {
			g.close()
			g.config.Failed(err)
			return
		}
	}
	g.replica.Admit(g.readable(), g.Crowded()) // time may need commands too, before anybody asks for one
	if full := g.logFull(); full || g.inFlight >= maxInFlightBytes || g.replica.IsQuiet() {
		g.waitsForCheckpoint = full
		g.queue.hold()
	} else {
		g.waitsForCheckpoint = false
		g.handleRequests()
	}
	g.answerReads()
	g.replica.Tick(g.clock.Now())
	g.mark()
	g.noteEvents()
	g.carryOut()
	g.continueCheckpoint()
	g.setAlarms()
	g.watches.Store(int64(g.replica.Watches()))
	g.busy.Store(g.inFlight > 0)
	g.Slow.Turned(g.begun, g.clock.Now())
}

func (g *core) handleRequests() {
	for _, e := range g.takeRequests() {
		g.handle(e)
	}
}

func (g *core) takeRequests() []event {
	clear(g.spare)
	events := g.queue.takeRequests(g.spare[:0])
	for i := range events {
		if stream, is := events[i].Sink.(*streams.RemoteStream); is {
			stream.Dequeued(events[i].bytes)
		}
	}
	g.spare = events
	return events
}

// setAlarms makes run wake up when the next thing is due.
func (g *core) setAlarms() {
	g.due.Set(min(g.replica.NextDeadline(), g.nextMark))
	chore := g.wakeForCheckpoint()
	if g.waitsForCheckpoint {
		chore = min(chore, g.shell.Now()+coordination.Instant(logFullPause))
	}
	g.chores.Set(min(chore, g.companyUntil))
}

// InvariantError is a panic of the group. The state in memory cannot be trusted any more, so the server
// stops; nothing that was acknowledged is lost.
type InvariantError struct {
	// Reason is the text of the panic's value.
	Reason string
	// Stack is that of the goroutine that panicked.
	Stack string
}

// Error returns the reason, without the stack.
func (e *InvariantError) Error() string { return "broken invariant: " + e.Reason }

// failOnPanic ends the server for a panic within a turn. The turn is held.
func (g *core) failOnPanic() {
	if reason := recover(); reason != nil {
		g.panicked(reason)
	}
}

// panicked ends the server. The turn is held.
func (g *core) panicked(reason any) {
	err := &InvariantError{Reason: fmt.Sprint(reason), Stack: string(debug.Stack())}
	g.logger.Error("the group cannot go on", "error", err, "stack", err.Stack)
	g.close()
	g.config.Failed(err)
}

// handler puts the log's news into the queue. A goroutine in the log's own turn calls it.
type handler struct{ *Group }

// Committed implements raftstore.Handler.
func (g handler) Committed(entries []raftstore.Entry) {
	g.queue.putStore(storeEvent{entries: entries, at: g.clock.Now()})
}

// Leading implements raftstore.Handler.
func (g handler) Leading(term uint64) { g.queue.putStore(storeEvent{leading: term}) }

// Following implements raftstore.Handler.
func (g handler) Following(term, leader uint64) {
	g.queue.putStore(storeEvent{following: true, term: term, leader: leader})
}

// Restore implements raftstore.Restorer.
func (g handler) Restore(index uint64) { g.queue.putStore(storeEvent{restored: index}) }

// ReadReady implements raftstore.Handler.
func (g handler) ReadReady(id, index uint64) { g.queue.putStore(storeEvent{barrier: id, index: index}) }

// CheckpointDone implements raftstore.Handler.
func (g handler) CheckpointDone(index uint64) {
	g.logger.Debug("checkpoint stored", "index", index)
}

// Failed implements raftstore.Handler.
func (g handler) Failed(err error) { g.queue.putStore(storeEvent{failed: err}) }

// Flush implements raftstore.Handler.
func (g handler) Flush(busy bool) {
	if busy {
		g.queue.bell.Ring()
	} else {
		g.workIfFree()
	}
}
