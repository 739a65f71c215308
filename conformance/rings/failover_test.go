package rings

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
)

var (
	failOverSeeds = flag.Int("failover-seeds", 100, "how many seeds TestFailOver runs")
	failOverSeed  = flag.Uint64("failover-seed", 0, "the only seed to run, 0 for many")
)

// TestFailOver changes the leader again and again while requests are in flight: some of the commands survive,
// some are lost, and the answers to all of them are. Every request must get its one result all the same, in
// its own arm, behind at most one Pending, and no stream may break but those with a describe that cannot be
// answered any more: a later request of the stream was executed, and its effect would show.
func TestFailOver(t *testing.T) {
	first, last := uint64(1), uint64(*failOverSeeds)
	if *failOverSeed != 0 {
		first, last = *failOverSeed, *failOverSeed
	}
	for seed := first; seed <= last; seed++ {
		if err := failOverRun(seed); err != nil {
			t.Fatalf("-failover-seed=%d: %v", seed, err)
		}
	}
}

// failOverClient checks what one stream is told.
type failOverClient struct {
	stream   *Stream
	sent     map[uint64]coordination.RequestKind // open requests
	pending  map[uint64]bool
	watching map[uint64]bool
	next     uint64
	written  uint64 // the last one that is not a describe
	started  bool
	ended    bool // because of a describe that was overtaken

	// A semaphore that only this client uses, as it must be once the requests sent so far are executed, each
	// once.
	own      string
	exists   bool
	held     bool
	expected map[uint64]result
}

type result struct {
	refusal *coordination.Refusal
	done    bool
}

func openFailOverClient(w *World, own string) *failOverClient {
	c := &failOverClient{stream: w.Open(1), sent: map[uint64]coordination.RequestKind{},
		pending: map[uint64]bool{}, watching: map[uint64]bool{}, own: own, expected: map[uint64]result{}}
	c.stream.Send(coordination.ClientMessage{Kind: coordination.ClientStart,
		Start: &coordination.AttachRequest{Path: "/local/n", TimeoutMillis: 5000}})
	return c
}

func failOverRun(seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 1))
	w, err := New(Options{Check: true, Batch: func(n int) int { return 1 + random.IntN(n) }})
	if err != nil {
		return err
	}
	w.Call(func(call coordination.CallID) coordination.Command {
		return &coordination.CreateNode{CallID: call, Path: []string{"local", "n"}}
	})
	clients := make([]*failOverClient, 4)
	opened := 0
	w.Hold()
	for range 60 {
		at := random.IntN(len(clients))
		if clients[at] == nil || clients[at].ended {
			opened++
			clients[at] = openFailOverClient(w, fmt.Sprint("own-", opened))
		}
		c := clients[at]
		switch random.IntN(8) {
		case 0:
			w.FailOver(random.IntN(5))
			w.Hold()
		case 1:
			w.Release()
			w.Hold()
		case 2:
			w.Advance(time.Duration(random.IntN(1000)) * time.Millisecond)
		default:
			c.ask(random)
		}
		if err := listen(clients); err != nil {
			return err
		}
	}
	w.FailOver(random.IntN(5))
	w.Release()
	clients = slices.DeleteFunc(clients, func(c *failOverClient) bool { return c == nil })
	for _, c := range clients { // whoever still waits gets in when the others leave
		c.release("a")
		c.release("b")
	}
	if err := listen(clients); err != nil {
		return err
	}
	for i, c := range clients {
		if len(c.sent) > 0 && !c.ended {
			return fmt.Errorf("client %d never had an answer to %v", i, c.sent)
		}
	}
	return nil
}

func (c *failOverClient) ask(random *rand.Rand) {
	if !c.started {
		return
	}
	if random.IntN(2) == 0 {
		c.askOwn(random)
		return
	}
	name := []string{"a", "b", "c"}[random.IntN(3)]
	r := &coordination.Request{Name: name}
	switch random.IntN(7) {
	case 0:
		r.Kind, r.Limit = coordination.RequestCreate, uint64(1+random.IntN(2))
	case 1:
		r.Kind, r.Data = coordination.RequestUpdate, []byte{byte(random.IntN(3))}
	case 2:
		r.Kind, r.WatchData, r.WatchOwners = coordination.RequestDescribe, random.IntN(2) == 0,
			random.IntN(2) == 0
	case 3:
		r.Kind = coordination.RequestRelease
	case 4:
		r.Kind, r.Force = coordination.RequestDelete, random.IntN(2) == 0
	default:
		r.Kind, r.Count, r.TimeoutMillis = coordination.RequestAcquire, 1,
			[]uint64{0, 1000, coordination.Infinite}[random.IntN(3)]
		r.Ephemeral = name == "c"
	}
	c.send(r)
}

// askOwn knows what the answer must be: a request that is executed twice, or not at all, gives another.
func (c *failOverClient) askOwn(random *rand.Rand) {
	r := &coordination.Request{Name: c.own}
	var want result
	switch random.IntN(5) {
	case 0:
		r.Kind, r.Limit = coordination.RequestCreate, 1
		if c.exists {
			want.refusal = coordination.SemaphoreExists
		}
		c.exists = true
	case 1:
		r.Kind = coordination.RequestDelete
		switch {
		case !c.exists:
			want.refusal = coordination.SemaphoreMissing
		case c.held:
			want.refusal = coordination.SemaphoreNotEmpty
		default:
			c.exists = false
		}
	case 2:
		r.Kind, r.Count = coordination.RequestAcquire, 1
		if want.done = c.exists; !c.exists {
			want.refusal = coordination.SemaphoreMissing
		}
		c.held = c.exists
	case 3:
		r.Kind = coordination.RequestRelease
		want.done, c.held = c.held, false
	case 4:
		r.Kind, r.WatchData = coordination.RequestDescribe, random.IntN(2) == 0
		if !c.exists {
			want.refusal = coordination.SemaphoreNotFound
		}
	}
	c.expected[c.next+1] = want
	c.send(r)
}

func (c *failOverClient) release(name string) {
	c.send(&coordination.Request{Kind: coordination.RequestRelease, Name: name})
}

func (c *failOverClient) send(r *coordination.Request) {
	c.next++
	c.sent[c.next] = r.Kind
	if r.Kind != coordination.RequestDescribe {
		c.written = c.next
	}
	c.watching[c.next] = r.WatchData || r.WatchOwners
	c.stream.Send(coordination.ClientMessage{Kind: coordination.ClientSemaphore, ReqID: c.next, Request: r})
}

func listen(clients []*failOverClient) error {
	for again := true; again; {
		again = false
		for i, c := range clients {
			if c == nil || c.ended {
				continue
			}
			for _, r := range c.stream.Replies() {
				again = true
				if err := c.hear(&r); err != nil {
					return fmt.Errorf("client %d: %w", i, err)
				}
			}
		}
	}
	return nil
}

func (c *failOverClient) hear(r *coordination.Reply) error {
	switch r.Kind {
	case coordination.ReplyStarted:
		if c.started {
			return fmt.Errorf("started twice")
		}
		c.started = true
	case coordination.ReplyPing:
		c.stream.Send(coordination.ClientMessage{Kind: coordination.ClientPong, Opaque: r.Opaque})
	case coordination.ReplyPending:
		if c.sent[r.ReqID] != coordination.RequestAcquire || c.pending[r.ReqID] {
			return fmt.Errorf("request %d: unexpected Pending", r.ReqID)
		}
		c.pending[r.ReqID] = true
	case coordination.ReplyResult:
		if c.sent[r.ReqID] != r.Request {
			return fmt.Errorf("request %d of kind %d got a result of kind %d", r.ReqID, c.sent[r.ReqID],
				r.Request)
		}
		if want, known := c.expected[r.ReqID]; known && want != (result{r.Refusal, r.Done}) {
			return fmt.Errorf("request %d of kind %d: want %v, got %v %v", r.ReqID, r.Request, want,
				r.Refusal, r.Done)
		}
		delete(c.sent, r.ReqID)
		c.watching[r.ReqID] = c.watching[r.ReqID] && r.WatchAdded
	case coordination.ReplyChanged:
		if !c.watching[r.ReqID] {
			return fmt.Errorf("request %d: unexpected Changed", r.ReqID)
		}
		delete(c.watching, r.ReqID)
	case coordination.ReplyNone:
	case coordination.ReplyFailure:
		if r.Refusal != coordination.LinkFailure || !c.overtaken() {
			return fmt.Errorf("the stream failed: %v", r.Refusal)
		}
		c.ended = true
	default:
		return fmt.Errorf("got reply %d, %v", r.Kind, r.Refusal)
	}
	return nil
}

// overtaken reports whether there is a describe without an answer, and behind it a request that is written.
func (c *failOverClient) overtaken() bool {
	first := c.next
	for id, kind := range c.sent {
		if kind == coordination.RequestDescribe {
			first = min(first, id)
		}
	}
	return c.written > first
}
