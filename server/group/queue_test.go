package group

import (
	"context"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/group/streams"
)

// eventOf is a request with n bytes of data.
func eventOf(n int) event {
	request := &coordination.Request{Data: make([]byte, n)}
	return event{Forwarded: streams.Forwarded{Forward: coordination.Forward{Request: request}}}
}

// TestQueueRoom shows when streams are not read any more: one byte past the limit.
func TestQueueRoom(t *testing.T) {
	for past := range 2 {
		q := newQueue()
		q.put(eventOf(maxQueuedBytes - 2*streams.EventBytes + past))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if entered := q.room.Acquire(over, streams.EventBytes); entered != (past == 0) {
			t.Errorf("%d past the limit: there is room %v", past, entered)
		}
	}
}

// TestRoomIsForOne has many wait for room in the queue, streams and calls, when a turn empties it: no more of
// them are let in than it has room for, although none of them has put anything yet.
func TestRoomIsForOne(t *testing.T) {
	g := openTest(t, nil)
	g.hold(g.turn.Lock()) // nobody empties the queue
	defer g.turn.Unlock()
	const each = 3 << 20
	g.streams.Budget.SetLimit(1 << 40) // it would hold up most of them before
	g.queue.put(eventOf(maxQueuedBytes))
	const clients = 2 * maxQueuedBytes / each
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	entered := make(chan *streams.Stream, clients)
	data := make([]byte, each)
	for range clients {
		s := g.NewStream(nil, streams.Caller{}, &coordination.PingPolicy{})
		go func() {
			s.AwaitRoom(ctx, &coordination.ClientMessage{Kind: coordination.ClientSemaphore,
				Request: &coordination.Request{Data: data}})
			entered <- s
		}()
	}
	waiting := g.queue.room.Waiting
	eventually(t, "all to wait", func() bool { return waiting() == clients })
	g.queue.takeRequests(nil)
	const most = maxQueuedBytes / (each + streams.EventBytes)
	var in []*streams.Stream
	for range most {
		in = append(in, <-entered)
	}
	if left := waiting(); left != clients-most {
		t.Fatalf("%d of %d wait after there was room for %d", left, clients, most)
	}
	for _, s := range in { // what they bring, goes elsewhere
		s.Leave()
	}
	eventually(t, "the next ones", func() bool { return waiting() == max(0, clients-2*most) })
	cancel()
	eventually(t, "all to be gone", func() bool { return waiting() == 0 })
}

// TestBytesInFlight shows when requests wait in the queue: at the limit of what is proposed and not applied.
func TestBytesInFlight(t *testing.T) {
	g := openTest(t, nil)
	g.hold(g.turn.Lock())
	defer g.turn.Unlock()
	for inFlight, want := range map[int]bool{maxInFlightBytes - 1: true, maxInFlightBytes: false} {
		asked := &call{done: make(chan callAnswer, 1),
			read: func(*core) outcome.Outcome { return outcome.Done() }}
		g.queue.put(event{call: asked})
		g.core.inFlight = inFlight
		g.core.work()
		if taken := len(asked.done) == 1; taken != want {
			t.Errorf("with %d bytes in flight: taken %v", inFlight, taken)
		}
		g.core.inFlight = 0
		g.queue.putStore(storeEvent{}) // requests are looked at again once the log has said something
		g.core.work()
	}
}

// TestLag shows what a server knows of how far the leader is.
func TestLag(t *testing.T) {
	g := newGroup(Config{})
	if _, known := g.Lag(); known {
		t.Error("nobody has told yet")
	}
	g.applied.Store(10)
	for told, want := range map[uint64]uint64{5: 0, 10: 0, 17: 7} {
		g.committed.Store(told)
		if lag, known := g.Lag(); lag != want || !known {
			t.Errorf("told of %d entries: %d are missing, %v", told, lag, known)
		}
	}
	g.streams.Follow(streams.NewLocal(inside{g}, 1, 1))
	if lag, known := g.Lag(); lag != 0 || !known {
		t.Errorf("the leader lacks %d, %v", lag, known)
	}
}
