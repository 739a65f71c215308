package group

import (
	"fmt"
	"runtime/debug"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/group/streams"
)

// This file is who handles what is in the queue. On a quiet server it is the goroutine that has brought an
// event, which spares the way over another one: a client's, another server's, or the one that writes the log.
// None of these may be held up for long, because each has something else to do, and because no heartbeat is
// heard and nothing is written meanwhile. So they take short turns only, and what takes longer is left to
// run, the group's own goroutine. Package turn says why nothing is forgotten.
//
// While something is on its way to the disk, a request does not take a turn at all: it waits in the queue,
// and all that gather there become one entry of the log, with one fdatasync, when the disk is free. What
// nobody gets on with waits a little even then (takeWork).

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

// kick handles what is in the queue on the caller's goroutine if the server is quiet: nothing is in flight,
// and the turn is free. Otherwise requests gather for the next batch. The caller must hold no lock of a
// stream.
func (g *Group) kick() {
	if g.busy.Load() {
		if !g.queue.empty() {
			g.queue.bell.Ring()
		}
		return
	}
	g.workIfFree()
}

// workIfFree handles what is in the queue on the caller's goroutine if the turn is free and would be short.
// What would take long, and what has come meanwhile, is left to run: the caller's goroutine has something
// else to do.
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

// work handles everything that is there: first what the log says, then requests as long as not too much
// is in flight. The turn is held.
func (g *core) work() {
	g.spareStore = g.queue.takeStore(g.spareStore[:0])
	g.handleAll(g.spareStore)
}

// workBriefly is work if that takes no longer than a goroutine with other duties may be held up, else
// it does nothing. In a leader's first turn all streams of this server turn to it. The turn is held.
func (g *core) workBriefly() {
	if g.replica.Elected() {
		return
	}
	if news, short := g.queue.takeLittle(g.spareStore[:0]); short {
		g.spareStore = news
		g.handleAll(news)
	}
}

// handleAll handles the log's news and then what is in the queue. The turn is held.
func (g *core) handleAll(news []storeEvent) {
	if g.closed {
		return
	}
	defer g.failOnPanic()
	g.turns.Add(1)
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

// setAlarms has run wake up when the next thing is due.
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
	// Reason is what the code panicked with.
	Reason string
	// Stack is where.
	Stack string
}

// Error is the reason, without the stack.
func (e *InvariantError) Error() string { return "broken invariant: " + e.Reason }

// failOnPanic makes a panic within a turn the reason for which the server ends. The turn is held.
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

// handler is how the log tells the group what happens, which waits in the queue for the next turn. It is called
// from the log's goroutine.
type handler struct{ *Group }

// Committed implements raftstore.Handler.
func (g handler) Committed(entries []raftstore.Entry) { g.queue.putStore(storeEvent{entries: entries}) }

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
