package server

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/internal/testmode"
)

// queued has so many sessions wait for the lock behind one that owns it. Their streams are gone, but the
// sessions live.
func (c *testCluster) queued(n int) {
	c.t.Helper()
	const atOnce = 8
	leads, follows := c.leader()
	line := func(conn *grpc.ClientConn) {
		ctx, cancel := context.WithCancel(c.t.Context())
		defer cancel()
		stream := openTest(c.t, ctx, conn, start(600_000))
		if m := next(c.t, stream); m.GetSessionStarted() == nil {
			c.t.Errorf("got %v", m)
		}
		send(c.t, stream, wait(1, "lock"))
		if m := next(c.t, stream); m.GetAcquireSemaphorePending() == nil &&
			m.GetAcquireSemaphoreResult() == nil {
			c.t.Errorf("got %v", m)
		}
	}
	line(c.conns[leads])
	var lines sync.WaitGroup
	for i := range atOnce {
		lines.Go(func() {
			for j := i; j < n; j += atOnce {
				line(c.conns[[]int{leads, follows}[i%2]])
			}
		})
	}
	lines.Wait()
}

// TestLongDescriptions describes a lock that more sessions wait for than a turn looks at.
func TestLongDescriptions(t *testing.T) {
	testmode.WithoutRace(t)
	describeWhileOthersQueueUp(t, 600)
}

// TestDescriptionsWhileOthersQueueUp is the same with a few, for the race detector.
func TestDescriptionsWhileOthersQueueUp(t *testing.T) { describeWhileOthersQueueUp(t, 10) }

// describeWhileOthersQueueUp describes a lock that so many sessions wait for, through the leader and through
// another server, while others queue up and leave again. Each description is whole and in order.
func describeWhileOthersQueueUp(t *testing.T, waiting int) {
	t.Helper()
	const rounds = 8
	c := startCluster(t, 3)
	leads, follows := c.leader()
	c.createNode(leads, testNode)
	c.queued(waiting)

	conns := []*grpc.ClientConn{c.conns[leads], c.conns[follows]}
	over := make(chan struct{})
	var clients, others sync.WaitGroup
	for i := range 6 {
		others.Go(func() {
			stream := openTest(t, t.Context(), conns[i%2], start(600_000))
			next(t, stream)
			for reqID := uint64(1); ; reqID += 2 {
				select {
				case <-over:
					return
				default:
				}
				send(t, stream, wait(reqID, "lock"))
				if m := next(t, stream); m.GetAcquireSemaphorePending() == nil {
					t.Errorf("got %v", m)
				}
				send(t, stream, release(reqID+1, "lock"))
				next(t, stream)
				next(t, stream)
			}
		})
	}
	for i := range 4 {
		clients.Go(func() {
			stream := openTest(t, t.Context(), conns[i%2], start(600_000))
			next(t, stream)
			for round := range rounds {
				send(t, stream,
					&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
						DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: uint64(
							round), Name: "lock", IncludeOwners: true, IncludeWaiters: true}}})
				if err := isWhole(next(t, stream).GetDescribeSemaphoreResult(), waiting,
					waiting+6); err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	close(over)
	others.Wait()
}

// isWhole wants one owner, and waiters in their order.
func isWhole(r *Ydb_Coordination.SessionResponse_DescribeSemaphoreResult, fewest, most int) error {
	d := r.GetSemaphoreDescription()
	if r.GetStatus() != Ydb.StatusIds_SUCCESS || len(d.GetOwners()) != 1 || len(d.GetWaiters()) < fewest ||
		len(d.GetWaiters()) > most {
		return fmt.Errorf("%v: %d owners, %d waiters", r.GetStatus(), len(d.GetOwners()), len(d.GetWaiters()))
	}
	last := d.GetOwners()[0].GetOrderId()
	for i, w := range d.GetWaiters() {
		if w.GetOrderId() <= last || w.GetTimeoutMillis() != 1<<64-1 || w.GetSessionId() == 0 {
			return fmt.Errorf("waiter %d is %v, behind order id %d", i, w, last)
		}
		last = w.GetOrderId()
	}
	return nil
}
