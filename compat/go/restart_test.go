package compat_test

import (
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"

	"github.com/coordd/coordd/compat/go/internal/testserver"
)

// longTimeout gives a server all the time it may need to come back on a busy machine.
var longTimeout = options.WithSessionTimeout(time.Minute)

// A server that is killed and started again on the same directory and port has forgotten nothing: the SDK
// restores its sessions, holders hold and waiters wait under the same order ids.
func TestKilledServer(t *testing.T) {
	restartUnderHolder(t, (*testserver.Server).Kill)
}

// The same after a clean stop, which must not wait for the sessions to leave.
func TestStoppedServer(t *testing.T) {
	restartUnderHolder(t, (*testserver.Server).Stop)
}

func restartUnderHolder(t *testing.T, end func(*testserver.Server)) {
	t.Parallel()
	server := startServer(t, "--data-dir", t.TempDir())
	c := open(t, server.Endpoint())
	c.createNode()
	holder, waiter := c.session(longTimeout), c.session(longTimeout)
	create(t, holder, "settings", 1, options.WithCreateData([]byte("kept")))
	lease := acquire(t, holder, "lock", coordination.Exclusive, ephemeral,
		options.WithAcquireData([]byte("mine")))
	holderID := orderID(t, holder, "lock")
	waiting := enqueue(t, waiter, "lock", coordination.Exclusive, ephemeral)
	waiterID := describe(t, waiter, "lock").Waiters[0].OrderID

	for range 2 {
		before := [2]int{c.seen.attachments(holder.SessionID()), c.seen.attachments(waiter.SessionID())}
		end(server)
		server.Start()
		eventually(t, "both sessions are restored", func() bool {
			return c.seen.attachments(holder.SessionID()) > before[0] &&
				c.seen.attachments(waiter.SessionID()) > before[1]
		})
		d := describe(t, holder, "lock")
		owner, queued := find(d.Owners, holder), find(d.Waiters, waiter)
		if owner == nil || owner.OrderID != holderID || string(owner.Data) != "mine" ||
			lease.Context().Err() != nil {
			t.Fatalf("lease %v, lock %v; want a live lease and session %d with order id %d",
				lease.Context().Err(), d, holder.SessionID(), holderID)
		}
		if queued == nil || queued.OrderID != waiterID {
			t.Fatalf("lock %v; want session %d to wait with order id %d", d, waiter.SessionID(), waiterID)
		}
		if d := describe(t, waiter, "settings"); string(d.Data) != "kept" || d.Limit != 1 {
			t.Fatalf("a semaphore after the restart: %v", d)
		}
	}

	release(t, lease)
	waiting.granted(t)
	fresh := c.session()
	if fresh.SessionID() <= waiter.SessionID() {
		t.Errorf("session id %d was given out before the restart", fresh.SessionID())
	}
	create(t, fresh, "new", 1)
	acquire(t, fresh, "new", 1)
	if id := orderID(t, fresh, "new"); id <= waiterID {
		t.Errorf("order id %d after %d: order ids went back", id, waiterID)
	}
}

// A server that stops under a holder and does not come back costs the holder its lease, no more.
func TestStoppedForGood(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	c := open(t, server.Endpoint())
	c.createNode()
	s := c.session(options.WithSessionTimeout(time.Second))
	lease := acquire(t, s, "lock", coordination.Exclusive, ephemeral)

	server.Stop()
	receive(t, "the end of the lease", lease.Context().Done())
	receive(t, "the end of the session", s.Context().Done())
}
