package rings

import (
	"fmt"
	"testing"
	"time"

	"github.com/coordd/coordd/conformance/linear"
	"github.com/coordd/coordd/coordination"
)

// TestTurnsAreLinear goes through each path of a turn that looks at links, streams, watches, sessions or rows.
func TestTurnsAreLinear(t *testing.T) {
	linear.Test(t, "github.com/coordd/coordd/coordination,github.com/coordd/coordd/scheme", turns)
}

// turns are these paths. Each is one command, one message of a stream, one leader change or one tick.
var turns = []linear.Row{
	{Name: "resume a session with waits", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		l.attach().hold(n)
		l.attach().await(n)
		return func() { l.FailOver(0) }
	}},
	{Name: "resume a session that holds and waits", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		c := l.attach()
		c.hold(n)
		other := l.attach()
		for i := range n {
			other.acquire("other", i, 0)
			c.acquire("other", i, coordination.Infinite)
		}
		return func() { l.FailOver(0) }
	}},
	{Name: "resume a session with watches", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		l.attach().hold(n)
		l.attach().watch(n)
		return func() { l.FailOver(0) }
	}},
	{Name: "resume a session with answers", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		l.attach().acquire("first", 0, 0)
		c := l.attach()
		c.acquire("first", 0, coordination.Infinite)
		c.hold(n)
		return func() { l.FailOver(0) }
	}},
	{Name: "resume many sessions", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		for i := range n {
			l.attach().acquire("e", i, 0)
		}
		return func() { l.FailOver(0) }
	}},
	{Name: "propose what a leader left undone", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		c := l.attach()
		l.Hold()
		c.hold(n)
		return func() { l.FailOver(0) }
	}},
	{Name: "grant all that a session waits for", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		holder := l.attach()
		holder.hold(n)
		l.attach().await(n)
		return holder.stop
	}},
	{Name: "grant it from the middle outwards", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		holder, other := l.attach(), l.attach()
		for i := range n {
			holder.acquire("e", middleOut(i, n), 0)
		}
		other.await(n)
		return holder.stop
	}},
	{Name: "grant it from the end", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		holder := l.attach()
		for i := range n {
			holder.acquire("e", n-1-i, 0)
		}
		l.attach().await(n)
		return holder.stop
	}},
	{Name: "let many sessions into a semaphore", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		l.create("door", uint64(n))
		holder := l.attach()
		holder.request(coordination.Request{Kind: coordination.RequestAcquire, Name: "door", Count: uint64(n)})
		for range n {
			l.attach().request(waitForDoor)
		}
		return func() {
			holder.request(coordination.Request{Kind: coordination.RequestRelease, Name: "door"})
		}
	}},
	{Name: "expire a session with locks and waits", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		l.attach().hold(n)
		c := l.attach()
		c.await(n)
		for i := range n {
			c.acquire("own", i, 0)
		}
		c.watch(n)
		c.Close()
		return func() { l.Advance(11 * time.Second) }
	}},
	{Name: "end a session as an administrator", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		c := l.attach()
		c.hold(n)
		return func() {
			l.Call(func(call coordination.CallID) coordination.Command {
				return &coordination.EndSession{CallID: call, Node: 1, Session: c.session}
			})
		}
	}},
	{Name: "leave a session with watches", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		l.attach().hold(n)
		c := l.attach()
		c.watch(n)
		return c.Close
	}},
	{Name: "steal a session with watches", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		l.attach().hold(n)
		c := l.attach()
		c.watch(n)
		return func() { l.attachTo(c.session) }
	}},
	{Name: "delete a semaphore with waiters", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		l.create("door", 1)
		c := l.attach()
		c.request(waitForDoor)
		for range n {
			l.attach().request(waitForDoor)
		}
		return c.deleteDoor
	}},
	{Name: "delete a semaphore with owners", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		l.create("door", coordination.Infinite)
		c := l.attach()
		for range n {
			l.attach().request(waitForDoor)
		}
		return c.deleteDoor
	}},
	{Name: "describe a semaphore with owners", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		l.create("door", coordination.Infinite)
		c := l.attach()
		for range n {
			l.attach().request(waitForDoor)
		}
		return func() {
			c.request(coordination.Request{Kind: coordination.RequestDescribe, Name: "door", IncludeOwners: true})
		}
	}},
	{Name: "fire all watches of a semaphore", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		l.create("door", coordination.Infinite)
		for range n {
			l.attach().watchDoor()
		}
		c := l.attach()
		return func() { c.request(waitForDoor) }
	}},
	{Name: "drop a node", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		l.create("door", coordination.Infinite)
		for range n {
			c := l.attach()
			c.request(waitForDoor)
			c.watchDoor()
		}
		return func() {
			l.Call(func(call coordination.CallID) coordination.Command {
				return &coordination.DropNode{CallID: call, Path: []string{"local", "n"}}
			})
		}
	}},
	{Name: "take over sessions and waits", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		l.create("door", 1)
		for range n {
			l.attach().request(waitForDoor)
		}
		return func() {
			l.Restart()
			for l.replica.NextDeadline() <= l.now {
				l.replica.Tick(l.now)
			}
		}
	}},
	{Name: "expire waits", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		l.attach().hold(n)
		c := l.attach()
		for i := range n {
			c.acquire("e", i, 60_000)
		}
		return func() { l.replica.Tick(l.now.After(61_000)) }
	}},
	{Name: "answer describes behind a command", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		l.create("door", 1)
		c := l.attach()
		l.Hold()
		c.request(waitForDoor)
		for range n {
			c.watchDoor()
		}
		return l.Release
	}},
	{Name: "recheck the rights of streams", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		for range n {
			l.attach()
		}
		return func() { l.replica.RecheckAccess(l.now) }
	}},
	{Name: "alter a node with resources", Prepare: func(t *testing.T, n int) func() {
		l := newLinear(t, n)
		for i := range n {
			l.Call(func(call coordination.CallID) coordination.Command {
				return &coordination.CreateResource{CallID: call, Path: []string{"local", "n"},
					Resource: fmt.Sprint("r", i), ResourceProperties: rated}
			})
		}
		return func() {
			l.Call(func(call coordination.CallID) coordination.Command {
				return &coordination.AlterNode{CallID: call, Path: []string{"local", "n"},
					Config: coordination.NodeConfig{RateLimiterCountersMode: coordination.CountersDetailed}}
			})
		}
	}},
}

// middleOut are the places of n things from the middle outwards.
func middleOut(i, n int) int {
	if i%2 == 0 {
		return n/2 + i/2
	}
	return (n+1)/2 - 1 - i/2
}

// linearWorld is a World with a node at /local/n.
type linearWorld struct {
	*World
	t *testing.T
}

func newLinear(t *testing.T, n int) *linearWorld {
	w, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Call(func(call coordination.CallID) coordination.Command {
		return &coordination.CreateNode{CallID: call, Path: []string{"local", "n"},
			Config: coordination.NodeConfig{AttachConsistencyMode: coordination.ConsistencyRelaxed,
				ReadConsistencyMode: coordination.ConsistencyRelaxed}}
	})
	return &linearWorld{w, t}
}

// linearClient is a client with a session.
type linearClient struct {
	*Stream
	session coordination.SessionID
	last    uint64
}

var waitForDoor = coordination.Request{Kind: coordination.RequestAcquire, Name: "door", Count: 1,
	TimeoutMillis: coordination.Infinite}

func (l *linearWorld) attach() *linearClient { return l.attachTo(0) }

func (l *linearWorld) attachTo(session coordination.SessionID) *linearClient {
	c := &linearClient{Stream: l.Open(1)}
	c.Send(coordination.ClientMessage{Kind: coordination.ClientStart,
		Start: &coordination.AttachRequest{Path: "/local/n", Session: session, TimeoutMillis: 10_000, SeqNo: 1}})
	for _, r := range c.Replies() {
		if r.Kind == coordination.ReplyStarted {
			c.session = r.Session
		}
	}
	if c.session == 0 {
		l.t.Fatal("no session")
	}
	return c
}

func (l *linearWorld) create(name string, limit uint64) {
	l.attach().request(coordination.Request{Kind: coordination.RequestCreate, Name: name, Limit: limit})
}

func (c *linearClient) request(r coordination.Request) {
	c.last++
	c.Send(coordination.ClientMessage{Kind: coordination.ClientSemaphore, ReqID: c.last, Request: &r})
}

// acquire asks for one of many locks, for ever or not at all.
func (c *linearClient) acquire(name string, i int, timeout uint64) {
	c.request(coordination.Request{Kind: coordination.RequestAcquire, Name: fmt.Sprint(name, i), Ephemeral: true,
		Count: coordination.Infinite, TimeoutMillis: timeout})
}

// hold takes n locks, which await waits for.
func (c *linearClient) hold(n int) {
	for i := range n {
		c.acquire("e", i, 0)
	}
}

func (c *linearClient) await(n int) {
	for i := range n {
		c.acquire("e", i, coordination.Infinite)
	}
}

// watch watches the n locks.
func (c *linearClient) watch(n int) {
	for i := range n {
		c.request(coordination.Request{Kind: coordination.RequestDescribe, Name: fmt.Sprint("e", i),
			WatchData: true, WatchOwners: true})
	}
}

func (c *linearClient) watchDoor() {
	c.request(coordination.Request{Kind: coordination.RequestDescribe, Name: "door", WatchOwners: true})
}

func (c *linearClient) deleteDoor() {
	c.request(coordination.Request{Kind: coordination.RequestDelete, Name: "door", Force: true})
}

func (c *linearClient) stop() { c.Send(coordination.ClientMessage{Kind: coordination.ClientStop}) }

var rated = coordination.ResourceProperties{MaxUnitsPerSecond: coordination.RealOf(1)}
