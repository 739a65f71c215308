package compat_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/balancers"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
)

// reconnect breaks the session's stream and waits until the SDK has restored the session on a new one.
func reconnect(t *testing.T, c *client, s coordination.Session) {
	t.Helper()
	before := c.seen.attachments(s.SessionID())
	s.Reconnect()
	eventually(t, "the session is restored",
		func() bool { return c.seen.attachments(s.SessionID()) > before })
}

// A holder keeps its lease over new streams, and the semaphore remembers it under the same order id.
func TestReconnectHolder(t *testing.T) {
	c := newNode(t)
	holder, other := c.session(), c.session()
	lease := acquire(t, holder, "lock", coordination.Exclusive, ephemeral,
		options.WithAcquireData([]byte("mine")))
	before := orderID(t, holder, "lock")
	waiting := enqueue(t, other, "lock", coordination.Exclusive, ephemeral)

	for range 3 {
		reconnect(t, c, holder)
		d := describe(t, holder, "lock") // over the new stream
		owner := find(d.Owners, holder)
		if owner == nil || owner.OrderID != before || string(owner.Data) != "mine" || len(d.Waiters) != 1 {
			t.Fatalf("after the reconnect: %v, want session %d with order id %d", d, holder.SessionID(),
				before)
		}
	}
	if err := lease.Context().Err(); err != nil {
		t.Errorf("the lease did not survive: %v", err)
	}
	release(t, lease)
	waiting.granted(t)
}

// A waiter keeps its place: the SDK repeats the request, and the server recognises it.
func TestReconnectWaiter(t *testing.T) {
	c := newNode(t)
	holder, first, second := c.session(), c.session(), c.session()
	create(t, holder, "semaphore", 1)
	held := acquire(t, holder, "semaphore", 1)
	waiting := enqueue(t, first, "semaphore", 1)
	behind := enqueue(t, second, "semaphore", 1)
	before := describe(t, holder, "semaphore").Waiters

	reconnect(t, c, first)
	after := describe(t, first, "semaphore").Waiters
	if !slices.Equal(sessions(after), sessions(before)) || after[0].OrderID != before[0].OrderID {
		t.Errorf("queue %v after the reconnect, want %v", after, before)
	}

	release(t, held)
	taken := waiting.granted(t)
	release(t, taken)
	behind.granted(t)
}

// A waiter whose turn comes while its stream is down finds out when it is back.
func TestGrantedWhileReconnecting(t *testing.T) {
	c := newNode(t)
	holder, waiter := c.session(), c.session()
	create(t, holder, "semaphore", 1)
	held := acquire(t, holder, "semaphore", 1)
	waiting := enqueue(t, waiter, "semaphore", 1)

	waiter.Reconnect()
	release(t, held)
	waiting.granted(t)
	if find(describe(t, waiter, "semaphore").Owners, waiter) == nil {
		t.Error("the waiter was told that it owns the semaphore and does not")
	}
}

// When the connection goes without a goodbye the server waits for the session timeout, ends the session and
// lets the next in; the SDK ends the old lease.
func TestLostConnection(t *testing.T) {
	for name, cut := range map[string]func(*proxy){"closed": (*proxy).close, "silent": (*proxy).mute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t)
			between := startProxy(t, server.Address)
			near := open(t, server.Endpoint())
			far := open(t, between.dsn(), ydb.WithBalancer(balancers.SingleConn()))
			near.createNode()

			other := near.session()
			create(t, other, "semaphore", 1)
			lonely := far.session(
				options.WithSessionTimeout(3*time.Second),
				options.WithSessionKeepAliveTimeout(2*time.Second),
				options.WithSessionStartTimeout(500*time.Millisecond),
			)
			lease := acquire(t, lonely, "semaphore", 1)
			before := orderID(t, lonely, "semaphore")
			waiting := enqueue(t, other, "semaphore", 1)

			cut(between)
			waiting.granted(t)
			d := describe(t, other, "semaphore")
			if !slices.Equal(sessions(d.Owners), []uint64{other.SessionID()}) ||
				d.Owners[0].OrderID <= before {
				t.Errorf("after the cut: %v, want session %d with an order id over %d", d, other.SessionID(),
					before)
			}
			receive(t, "the end of the lost lease", lease.Context().Done())
		})
	}
}

// A break shorter than the session timeout is nobody's business.
func TestShortBreak(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	near := open(t, server.Endpoint())
	near.createNode()
	other := near.session()
	create(t, other, "semaphore", 1)

	between := startProxy(t, server.Address)
	far := open(t, between.dsn(), ydb.WithBalancer(balancers.SingleConn()))
	travelling := far.session(options.WithSessionTimeout(time.Minute))
	lease := acquire(t, travelling, "semaphore", 1)
	before := orderID(t, travelling, "semaphore")

	between.reset()
	eventually(t, "the session is restored",
		func() bool { return far.seen.attachments(travelling.SessionID()) > 1 })
	if id := orderID(t, travelling, "semaphore"); id != before || lease.Context().Err() != nil {
		t.Errorf("order id %d, lease %v; want %d and a live lease", id, lease.Context().Err(), before)
	}
	release(t, lease)
}
