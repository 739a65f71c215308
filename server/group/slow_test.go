package group

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/group/slowest"
)

// asked sends a request as a server does, and returns what is kept of it. between is called before the answer counts as
// sent.
func (c *testClient) asked(t *testing.T, g *Group, r *coordination.Request, between func()) *slowest.Record {
	t.Helper()
	c.askTimed(t, r)
	return c.recorded(t, g, r, between)
}

// askTimed sends a request as a server does.
func (c *testClient) askTimed(t *testing.T, r *coordination.Request) {
	m := coordination.ClientMessage{Kind: coordination.ClientSemaphore, ReqID: 1, Request: r}
	c.stream.AwaitRoom(t.Context(), &m)
	c.stream.Receive(&m)
}

// recorded waits for the answer to a request, and returns what is kept of it.
func (c *testClient) recorded(t *testing.T, g *Group, r *coordination.Request, between func()) *slowest.Record {
	t.Helper()
	reply := c.next(t)
	if reply.Kind != coordination.ReplyResult || !reply.Done {
		t.Fatalf("got %+v", reply)
	}
	between()
	c.stream.Sent(&reply)
	for _, w := range slices.Backward(g.Slow.Windows()) {
		for i := range w.Records {
			if q := &w.Records[i]; q.Kind == r.Kind && q.Name == r.Name {
				return q
			}
		}
	}
	return nil
}

// TestWhereRequestsAreSlow delays requests in one place after the other, and wants that place named.
func TestWhereRequestsAreSlow(t *testing.T) {
	const pause = 100 * time.Millisecond
	var delayed atomic.Int64 // a slowest.Stage
	delay := func(s slowest.Stage) {
		if slowest.Stage(delayed.Load()) == s {
			time.Sleep(pause)
		}
	}
	config := testConfig(t)
	config.Log.Dir = t.TempDir()
	config.Log.Slow = func(step string) {
		switch step {
		case "write log":
			delay(slowest.Write)
		case "sync log":
			delay(slowest.Sync)
		}
	}
	config.Executing = func(*coordination.Machine, *coordination.Entry) { delay(slowest.Apply) }
	g := startTest(t, config)
	defer stopTest(t, g)
	createNode(t, g, testNode)
	client := openSession(t, g, 600_000)
	for _, stage := range []slowest.Stage{slowest.Write, slowest.Sync, slowest.Apply, slowest.Turn, slowest.Send} {
		tries := 0
		eventually(t, stage.String()+" to be what is slow", func() bool { // something else may be slow as well
			tries++
			eventually(t, "nothing to be under way", func() bool { return !g.store.Writing() && !g.busy.Load() })
			delayed.Store(int64(stage))
			defer delayed.Store(-1)
			over := make(chan struct{})
			if close(over); stage == slowest.Turn {
				over = holdTurn(t, g, pause)
			}
			q := client.asked(t, g, take(fmt.Sprint(stage, tries)), func() { delay(slowest.Send) })
			<-over
			if q == nil {
				t.Fatal("a slow request is not kept")
			}
			most, sum := slowest.Room, slowest.Micros(0)
			for s, took := range q.Stages {
				if sum += took; took > q.Stages[most] {
					most = slowest.Stage(s)
				}
			}
			if q.Stages[stage] < slowest.MicrosOf(pause) || sum > q.Total ||
				sum+slowest.Micros(slowest.Stages) < q.Total ||
				q.Session == 0 || q.Node == 0 {
				t.Fatalf("%s is delayed, and this is kept: %+v", stage, q)
			}
			return most == stage
		})
	}
}

// holdTurn holds the group's turn until a request has waited for so long. It returns when it is held.
func holdTurn(t *testing.T, g *Group, pause time.Duration) (over chan struct{}) {
	held, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		_, _ = g.Read(context.Background(), func(*coordination.Machine) outcome.Outcome {
			close(held)
			for g.Queued() == 0 {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(pause)
			return outcome.Done()
		})
	}()
	<-held
	return over
}

// TestSlowOnAFollower: a server that does not lead keeps its own requests, and the time that the leader took.
func TestSlowOnAFollower(t *testing.T) {
	c := openCluster(t, 3)
	c.leader()
	createNode(t, c.groups[0], testNode)
	tries := 0
	eventually(t, "requests on all servers under one leader", func() bool {
		tries++
		leader, _ := c.leader()
		for i, g := range c.groups {
			q := openSession(t, g, 600_000).asked(t, g, take(fmt.Sprint(tries, " of ", i)), func() {})
			if q == nil {
				t.Fatalf("nothing is kept on server %d", i)
			}
			if (q.Stages[slowest.Leader] > 0) == q.Led {
				t.Errorf("server %d: %+v", i, q)
			}
			if q.Led != (i == leader) || q.NewLeader {
				return false
			}
		}
		return true
	})
}

// TestSlowOverALeaderChange: two servers cannot write, so the leader cannot commit what their clients ask for. It is
// stopped, and one of the others answers. No request took longer than its stages, nor a stage longer than the request,
// and the time under the old leader is charged to no turn. So it is with requests of the old leader after it was
// started anew.
func TestSlowOverALeaderChange(t *testing.T) {
	var stuck [3]atomic.Bool
	goOn := make(chan struct{})
	c := openClusterWith(t, 3, func(i int, config *Config) {
		config.Log.Slow = func(step string) {
			if step == "write log" && stuck[i].Load() {
				<-goOn
			}
		}
	})
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release)
	old, _ := c.leader()
	createNode(t, c.groups[old], testNode)
	clients, begun := make(map[int]*testClient), time.Now()
	for i, g := range c.groups {
		if i != old {
			clients[i] = openSession(t, g, 600_000)
		}
	}
	for i := range clients {
		stuck[i].Store(true)
	}
	for i, client := range clients {
		client.askTimed(t, take(fmt.Sprint("lock-", i)))
	}
	eventually(t, "a request to be in the leader's log", func() bool {
		core := c.groups[old].hold(c.groups[old].turn.Lock())
		defer c.groups[old].turn.Unlock()
		return core.inFlight > 0 || core.replica.Reign() == 0
	})
	led := c.groups[old].Leads() // a busy machine may have lost it before the requests came
	stopTest(t, c.groups[old])
	release()
	sane := func(i int, q *slowest.Record) {
		t.Helper()
		if q == nil {
			t.Fatalf("server %d keeps nothing", i)
		}
		sum := slowest.Micros(0)
		for _, took := range q.Stages {
			sum += took
		}
		if sum > q.Total || sum+slowest.Micros(slowest.Stages) < q.Total ||
			q.Total > slowest.MicrosOf(time.Since(begun)) {
			t.Errorf("server %d: %v of %d", i, q.Stages, q.Total)
		}
	}
	for i, client := range clients {
		q := client.recorded(t, c.groups[i], take(fmt.Sprint("lock-", i)), func() {})
		if sane(i, q); led && (!q.NewLeader || q.Stages[slowest.Leader] == 0) {
			t.Errorf("server %d: %+v", i, q)
		}
	}
	c.open(old)
	begun = time.Now()
	sane(old, openSession(t, c.groups[old], 600_000).asked(t, c.groups[old], take("anew"), func() {}))
}

// TestRecordingAllocatesNothing compares requests that are recorded with those whose times are not known.
func TestRecordingAllocatesNothing(t *testing.T) {
	g := openTest(t, nil)
	createNode(t, g, testNode)
	client := openSession(t, g, 600_000)
	requests := []*coordination.Request{take("lock"), {Kind: coordination.RequestRelease, Name: "lock"}}
	const pairs = 1000
	measure := func(timed bool) (least uint64) {
		least = math.MaxUint64
		for range 3 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range pairs {
				for _, r := range requests {
					m := coordination.ClientMessage{Kind: coordination.ClientSemaphore, ReqID: 1, Request: r}
					if timed {
						client.stream.AwaitRoom(t.Context(), &m)
					}
					client.stream.Receive(&m)
					reply := client.next(t)
					client.stream.Sent(&reply)
				}
			}
			runtime.ReadMemStats(&after)
			least = min(least, after.Mallocs-before.Mallocs)
		}
		return least
	}
	// other goroutines allocate something now and then
	if with, without := measure(true), measure(false); max(with, without)-min(with, without) > pairs/2 {
		t.Errorf("%d pairs allocate %d times, without recording %d times", pairs, with, without)
	}
}
