package group

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/coordd/coordd/coordination"
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
	logFull func() bool                  // the store's LogFull; the same
	queue   *queue
	// clock is what the rings go by, and shell what everything else does. They differ in a stand-in, where
	// somebody turns the first by hand.
	clock, shell clock.Clock
	logger       *slog.Logger
	debugs       bool // see tellsTimeouts

	// The parts, each with a lock of its own.
	inside   inside            // the group as they see it
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

// inside is the group as its parts use it.
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
func (g inside) MaySpeak() bool { return g.lease.MaySpeak() }

// Put implements streams.Core.
func (g inside) Put(s streams.Said) { g.queue.put(event{Said: s}) }

// IsMember implements streams.Core.
func (g inside) IsMember(server uint64) bool {
	_, is := g.store.Members().Find(server)
	return is || g.alone()
}

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
