package group

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
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
	m := coordination.ClientMessage{Kind: coordination.ClientSemaphore, ReqID: 1, Request: r}
	c.stream.AwaitRoom(t.Context(), &m)
	c.stream.Receive(&m)
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
