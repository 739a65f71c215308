package group

import (
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/server/group/streams"
)

// TestWaitingAcquiresHoldNoCredit has more acquires wait than there is credit for, through the leader and
// through another server. The release that they wait for comes through, all of them are served in turn, and
// all credit comes back.
func TestWaitingAcquiresHoldNoCredit(t *testing.T) {
	c := openCluster(t, 3)
	leader, follower := c.leader()
	createNode(t, c.groups[leader], testNode)
	for _, at := range []int{leader, follower} {
		g := c.groups[at]
		owner := openSession(t, g, 600_000)
		owner.ask(1, take("lock"))
		if r := owner.next(t); !r.Done {
			t.Fatalf("got %+v, %v", r, r.Refusal)
		}
		const waiters = 20
		clients := make([]*testClient, waiters)
		attend := func(idle []*testClient) { // they wait for longer than a ping may
			for _, c := range idle {
				c.attend()
			}
		}
		for i := range clients {
			clients[i] = openSession(t, g, 600_000)
			attend(append(clients[:i:i], owner))
		}
		g.streams.Budget.SetLimit(2048) // a few requests
		for _, w := range clients {
			r := take("lock")
			r.TimeoutMillis, r.Data = coordination.Infinite, make([]byte, 1024)
			w.askInRoom(t, 2, r)
			attend(append(clients, owner))
		}
		for _, w := range clients {
			attend(append(clients, owner))
			if r := w.next(t); r.Kind != coordination.ReplyPending {
				t.Fatalf("got %+v, %v", r, r.Refusal)
			}
		}
		for i, w := range append([]*testClient{owner}, clients...) {
			attend(clients[min(i, waiters):])
			w.askInRoom(t, 3, &coordination.Request{Kind: coordination.RequestRelease, Name: "lock"})
			if r := w.next(t); !r.Done {
				t.Fatalf("got %+v, %v", r, r.Refusal)
			}
			if i < waiters {
				if r := clients[i].next(t); !r.Done {
					t.Fatalf("got %+v, %v", r, r.Refusal)
				}
			}
		}
		eventually(t, "all credit to be back", func() bool {
			spent, waiting := g.streams.Budget.Used(), g.streams.Budget.Waiting()
			return spent == 0 && waiting == 0
		})
		g.streams.Budget.SetLimit(1 << 40)
	}
}

// TestCreditIsGivenBack ends streams in every way while their requests are under way.
func TestCreditIsGivenBack(t *testing.T) {
	g := openTest(t, nil)
	createNode(t, g, testNode)
	for name, end := range map[string]func(s *streams.Stream){
		"closed":    func(s *streams.Stream) { s.Close() },
		"failed":    func(s *streams.Stream) { s.End(coordination.LinkFailure) },
		"abandoned": func(s *streams.Stream) { s.Abandon() },
		"orphaned":  func(s *streams.Stream) { s.Follow(nil); s.Close() },
	} {
		client := openSession(t, g, 600_000)
		g.hold(g.turn.Lock())
		for i := range uint64(5) {
			client.askInRoom(t, i, take("lock"))
		}
		if spent := g.streams.Budget.Used(); spent < 5*(&coordination.Request{}).Bytes() {
			t.Errorf("%s: %d are spent on five requests", name, spent)
		}
		end(client.stream)
		if spent := g.streams.Budget.Used(); spent != 0 {
			t.Errorf("%s: %d are still spent", name, spent)
		}
		g.turn.Unlock()
		g.queue.bell.Ring()
	}
	client := openSession(t, g, 600_000)
	client.stream.AwaitRoom(t.Context(), &coordination.ClientMessage{Request: take("lock")})
	client.stream.Leave() // between the two
	if spent := g.streams.Budget.Used(); spent != 0 {
		t.Errorf("%d are spent by nobody", spent)
	}
}

// askInRoom is ask as the server does it.
func (c *testClient) askInRoom(t *testing.T, reqID uint64, r *coordination.Request) {
	t.Helper()
	m := coordination.ClientMessage{Kind: coordination.ClientSemaphore, ReqID: reqID, Request: r}
	c.stream.AwaitRoom(t.Context(), &m)
	c.stream.Receive(&m)
}
