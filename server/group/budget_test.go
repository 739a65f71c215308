package group

import (
	"context"
	"testing"

	"github.com/coordd/coordd/coordination"
)

// TestBudget spends to the limit and a byte more. Who waits is served in line; what is larger than all there
// is passes alone; who goes away does not hold up those behind.
func TestBudget(t *testing.T) {
	var b budget
	b.limit(100)
	if b.wishFor(60) != nil || b.wishFor(40) != nil {
		t.Fatal("credit is refused below the limit")
	}
	one, large, last := b.wishFor(1), b.wishFor(500), b.wishFor(10)
	granted := func(w *wish) bool {
		select {
		case <-w.granted:
			return true
		default:
			return false
		}
	}
	if one == nil || granted(one) || granted(large) || granted(last) {
		t.Fatal("credit is given beyond the limit")
	}
	b.change(-40)
	if !granted(one) || granted(large) || granted(last) {
		t.Fatal("the line is not kept")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if b.await(gone, large) || !granted(last) {
		t.Error("who goes away is in the way")
	}
	b.change(-71)
	if b.wishFor(500) != nil {
		t.Error("what is larger than the limit does not pass alone")
	}
	if w := b.wishFor(1); w == nil {
		t.Error("something passes beside it")
	}
	b.limit(1000)
	if spent, waiting := b.held(); spent != 501 || waiting != 0 {
		t.Errorf("%d are spent, %d wait", spent, waiting)
	}
}

// TestStreamBytes shows when a stream is not read because of what it has asked: at the limit.
func TestStreamBytes(t *testing.T) {
	for under := range 2 {
		s, _ := unreadStream(0)
		defer s.stopTimers()
		s.group.streams = newStreamSet()
		request := &coordination.Request{Kind: coordination.RequestUpdate}
		request.Data = make([]byte, maxStreamBytes-request.Bytes()-under)
		if paused := s.receive(&coordination.ClientMessage{Kind: coordination.ClientSemaphore,
			Request: request}) != nil; paused != (under == 0) {
			t.Errorf("%d below the limit: paused %v", under, paused)
		}
	}
}

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
		g.streams.budget.limit(2048) // a few requests
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
			spent, waiting := g.streams.budget.held()
			return spent == 0 && waiting == 0
		})
		g.streams.budget.limit(maxRelayBytes)
	}
}

// TestCreditIsGivenBack ends streams in every way while their requests are under way.
func TestCreditIsGivenBack(t *testing.T) {
	g := openTest(t, nil)
	createNode(t, g, testNode)
	for name, end := range map[string]func(s *Stream){
		"closed":    func(s *Stream) { s.Close() },
		"failed":    func(s *Stream) { s.End(coordination.LinkFailure) },
		"abandoned": func(s *Stream) { s.Abandon() },
		"orphaned":  func(s *Stream) { s.follow(nil); s.Close() },
	} {
		client := openSession(t, g, 600_000)
		g.turn.Lock()
		for i := range uint64(5) {
			client.askInRoom(t, i, take("lock"))
		}
		if spent, _ := g.streams.budget.held(); spent < 5*(&coordination.Request{}).Bytes() {
			t.Errorf("%s: %d are spent on five requests", name, spent)
		}
		end(client.stream)
		if spent, _ := g.streams.budget.held(); spent != 0 {
			t.Errorf("%s: %d are still spent", name, spent)
		}
		g.turn.Unlock()
		g.queue.bell.Ring()
	}
	client := openSession(t, g, 600_000)
	client.stream.AwaitRoom(t.Context(), &coordination.ClientMessage{Request: take("lock")})
	client.stream.Leave() // between the two
	if spent, _ := g.streams.budget.held(); spent != 0 {
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
