package group

import (
	"testing"

	"github.com/coordd/coordd/coordination"
)

// BenchmarkTurn is what a turn costs that has a request of each of 64 sessions, from their messages to the
// answers, with the log in memory. One operation is 64 acquires, and 64 releases in the turn behind it.
func BenchmarkTurn(b *testing.B) {
	const sessions = 64
	g := openTest(b, nil)
	createNode(b, g, testNode)
	clients := make([]*testClient, sessions)
	for i := range clients {
		clients[i] = openSession(b, g, 600_000)
	}
	names := make([]string, sessions)
	for i := range names {
		names[i] = "lock-" + string(rune('A'+i))
	}
	requests := uint64(0)
	turn := func(ask func(i int) *coordination.Request) {
		requests++
		g.hold(g.turn.Lock()) // so that the requests gather
		for i, c := range clients {
			c.ask(requests, ask(i))
		}
		g.turn.Unlock()
		g.queue.bell.Ring()
		for _, c := range clients {
			if r := c.next(b); r.Kind != coordination.ReplyResult || !r.Done {
				b.Fatalf("got %+v", r)
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		turn(func(i int) *coordination.Request { return take(names[i]) })
		turn(func(i int) *coordination.Request {
			return &coordination.Request{Kind: coordination.RequestRelease, Name: names[i]}
		})
	}
}
