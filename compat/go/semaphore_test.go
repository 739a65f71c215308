package compat_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
)

// The whole life of a semaphore in the hands of one session.
func TestSemaphore(t *testing.T) {
	c := newNode(t)
	ctx := testContext(t)
	s := c.session()

	create(t, s, "semaphore", 20, options.WithCreateData([]byte{1, 2, 3, 0, 255}))
	d := describe(t, s, "semaphore")
	if !bytes.Equal(d.Data, []byte{1, 2, 3, 0, 255}) || d.Count != 0 || d.Ephemeral ||
		len(d.Owners)+len(d.Waiters) != 0 {
		t.Errorf("a new semaphore: %v", d)
	}

	lease := acquire(t, s, "semaphore", 10, options.WithAcquireData([]byte("mine")))
	d = describe(t, s, "semaphore")
	if d.Count != 10 || len(d.Owners) != 1 {
		t.Fatalf("after acquiring 10: %v", d)
	}
	if o := d.Owners[0]; o.SessionID != s.SessionID() || o.Count != 10 || string(o.Data) != "mine" ||
		o.OrderID == 0 || o.Timeout != 0 {
		t.Errorf("the owner: %v", o)
	}
	if lease.Context().Err() != nil || lease.Session() != s {
		t.Errorf("a new lease: context %v, session %d", lease.Context().Err(), lease.Session().SessionID())
	}

	release(t, lease)
	if d := describe(t, s, "semaphore"); d.Count != 0 || len(d.Owners) != 0 {
		t.Errorf("after the release: %v", d)
	}

	if err := s.UpdateSemaphore(ctx, "semaphore", options.WithUpdateData([]byte("new"))); err != nil {
		t.Fatal(err)
	}
	if d := describe(t, s, "semaphore"); string(d.Data) != "new" || d.Limit != 20 {
		t.Errorf("after the update: %v", d)
	}

	if err := s.DeleteSemaphore(ctx, "semaphore"); err != nil {
		t.Fatal(err)
	}
	if d := describe(t, s, "semaphore"); d.Name != "" {
		t.Errorf("after the delete: %v", d)
	}
}

// A semaphore outlives its creator; what a session owns does not outlive the session. (Close of SDK v3.156.1
// drops its stream before it has sent the SessionStop, so the server ends the session after its timeout.)
func TestSessionClose(t *testing.T) {
	c := newNode(t)
	first, second := c.session(options.WithSessionTimeout(time.Second)), c.session()
	create(t, first, "semaphore", 1)
	lease := acquire(t, first, "semaphore", 1)
	waiting := enqueue(t, second, "semaphore", 1)

	if err := first.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	waiting.granted(t)
	if lease.Context().Err() == nil || first.Context().Err() == nil {
		t.Error("the contexts of a closed session are still alive")
	}
	if d := describe(t, second, "semaphore"); !slices.Equal(sessions(d.Owners),
		[]uint64{second.SessionID()}) {
		t.Errorf("after the first session closed: %v", d)
	}
	if err := first.CreateSemaphore(testContext(t), "late", 1); !errors.Is(err,
		coordination.ErrSessionClosed) {
		t.Errorf("a call on a closed session: %v", err)
	}
}

// The queue is served first come, first served: a small request does not overtake a big one.
func TestQueue(t *testing.T) {
	c := newNode(t)
	first, second, third := c.session(), c.session(), c.session()
	create(t, first, "semaphore", 3)

	held := acquire(t, first, "semaphore", 2)
	big := enqueue(t, second, "semaphore", 2, options.WithAcquireData([]byte("big")),
		options.WithAcquireTimeout(time.Hour))
	small := enqueue(t, third, "semaphore", 1)

	d := describe(t, first, "semaphore")
	if d.Count != 2 || !slices.Equal(sessions(d.Waiters), []uint64{second.SessionID(), third.SessionID()}) {
		t.Fatalf("with two waiters: %v", d)
	}
	if w := d.Waiters[0]; w.Count != 2 || string(w.Data) != "big" || w.Timeout != time.Hour ||
		w.OrderID <= d.Owners[0].OrderID {
		t.Errorf("the first waiter: %v", w)
	}
	if w := d.Waiters[1]; w.Timeout != time.Duration(math.MaxInt64) || w.OrderID <= d.Waiters[0].OrderID {
		t.Errorf("the second waiter: %v", w)
	}

	release(t, held)
	big.granted(t)
	small.granted(t)
	after := describe(t, first, "semaphore")
	if after.Count != 3 || len(after.Waiters) != 0 ||
		find(after.Owners, second).OrderID != d.Waiters[0].OrderID ||
		find(after.Owners, third).OrderID != d.Waiters[1].OrderID {
		t.Errorf("after the release: %v, want both with the order ids they waited with", after)
	}
}

// A try is answered at once, a bounded wait after its time, and neither leaves a trace.
func TestAcquireTimeout(t *testing.T) {
	c := newNode(t)
	first, second, third := c.session(), c.session(), c.session()
	create(t, first, "semaphore", 2)
	held := acquire(t, first, "semaphore", 1)

	for _, timeout := range []time.Duration{0, 50 * time.Millisecond} {
		_, err := second.AcquireSemaphore(testContext(t), "semaphore", 2, options.WithAcquireTimeout(timeout))
		if !errors.Is(err, coordination.ErrAcquireTimeout) {
			t.Errorf("acquire for at most %v: %v, want a timeout", timeout, err)
		}
		if d := describe(t, first, "semaphore"); len(d.Waiters) != 0 || d.Count != 1 {
			t.Errorf("after a wait of %v: %v", timeout, d)
		}
	}

	// A try fails while anybody waits, even if its own token is free.
	waiting := enqueue(t, second, "semaphore", 2)
	_, err := third.AcquireSemaphore(testContext(t), "semaphore", 1, options.WithAcquireTimeout(0))
	if !errors.Is(err, coordination.ErrAcquireTimeout) {
		t.Errorf("try behind a waiter: %v, want a timeout", err)
	}
	release(t, held)
	waiting.granted(t)
}

// Cancelling the context of a waiting acquire takes it out of the queue.
func TestCancelledWait(t *testing.T) {
	c := newNode(t)
	first, second, third := c.session(), c.session(), c.session()
	create(t, first, "semaphore", 2)
	held := acquire(t, first, "semaphore", 1)

	blocking := enqueue(t, second, "semaphore", 2)
	behind := enqueue(t, third, "semaphore", 1)
	blocking.cancel()
	if err := blocking.refused(t); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled wait: %v", err)
	}
	behind.granted(t) // nothing is in its way any more
	if d := describe(t, first, "semaphore"); len(d.Waiters) != 0 || d.Count != 2 {
		t.Errorf("after the cancellation: %v", d)
	}

	// The session may come back.
	again := enqueue(t, second, "semaphore", 1)
	release(t, held)
	again.granted(t)
}

// An owner may hand back a part of its tokens by acquiring fewer, but not take more.
func TestReacquire(t *testing.T) {
	c := newNode(t)
	first, second := c.session(), c.session()
	create(t, first, "semaphore", 10)
	acquire(t, first, "semaphore", 8)
	before := orderID(t, first, "semaphore")
	waiting := enqueue(t, second, "semaphore", 5)

	_, err := first.AcquireSemaphore(testContext(t), "semaphore", 9)
	if !errors.Is(err, coordination.ErrAcquireTimeout) {
		t.Errorf("acquire more: %v, want a refusal", err)
	}
	if d := describe(t, first, "semaphore"); find(d.Owners, first).Count != 8 || len(d.Waiters) != 1 {
		t.Errorf("after trying to take more: %v", d)
	}

	acquire(t, first, "semaphore", 5, options.WithAcquireData([]byte("less")))
	waiting.granted(t)
	d := describe(t, first, "semaphore")
	if owner := find(d.Owners, first); owner.Count != 5 || string(owner.Data) != "less" ||
		owner.OrderID != before {
		t.Errorf("after taking less: %v, want 5 with order id %d", owner, before)
	}
}

// A later acquire of the same session replaces its waiting one, which ends, and keeps its place.
func TestSupersededWait(t *testing.T) {
	c := newNode(t)
	first, second, third := c.session(), c.session(), c.session()
	create(t, first, "semaphore", 10)
	held := acquire(t, first, "semaphore", 10)

	old := enqueue(t, second, "semaphore", 7)
	place := find(describe(t, first, "semaphore").Waiters, second).OrderID
	enqueue(t, third, "semaphore", 9)
	replacing := enqueue(t, second, "semaphore", 6)
	if err := old.refused(t); !errors.Is(err, coordination.ErrAcquireTimeout) {
		t.Errorf("the replaced wait: %v, want a refusal", err)
	}

	d := describe(t, first, "semaphore")
	if !slices.Equal(sessions(d.Waiters), []uint64{second.SessionID(), third.SessionID()}) ||
		d.Waiters[0].OrderID != place {
		t.Errorf("queue %v, want session %d first with order id %d", d.Waiters, second.SessionID(), place)
	}
	release(t, held)
	replacing.granted(t)
}

// Delete refuses a semaphore in use; with force it sends the waiters away and takes it from the owner.
func TestDeleteInUse(t *testing.T) {
	c := newNode(t)
	ctx := testContext(t)
	first, second, third := c.session(), c.session(), c.session()
	create(t, first, "semaphore", 1)
	lease := acquire(t, first, "semaphore", 1)
	waiting := enqueue(t, second, "semaphore", 1)

	if err := third.DeleteSemaphore(ctx, "semaphore"); err != nil {
		t.Fatal(err)
	}
	if d := describe(t, first, "semaphore"); d.Count != 1 || len(d.Waiters) != 1 {
		t.Fatalf("after a delete without force: %v", d)
	}

	if err := third.DeleteSemaphore(ctx, "semaphore", options.WithForceDelete(true)); err != nil {
		t.Fatal(err)
	}
	if err := waiting.refused(t); !errors.Is(err, coordination.ErrAcquireTimeout) {
		t.Errorf("the wait for a deleted semaphore: %v, want a refusal", err)
	}
	if d := describe(t, first, "semaphore"); d.Name != "" {
		t.Errorf("after a forced delete: %v", d)
	}
	release(t, lease) // of something that is gone: no error
}

// Refused requests change nothing and leave the session in order.
func TestRefusedRequests(t *testing.T) {
	c := newNode(t)
	ctx := testContext(t)
	s := c.session()
	create(t, s, "semaphore", 5, options.WithCreateData([]byte("old")))

	for what, err := range map[string]error{
		"limit 0": s.CreateSemaphore(ctx, "none", 0),
		"an existing name": s.CreateSemaphore(ctx, "semaphore", 7,
			options.WithCreateData([]byte("other"))),
		"data too large": s.UpdateSemaphore(ctx, "semaphore",
			options.WithUpdateData(make([]byte, 1<<20+1))),
		"update of no such":   s.UpdateSemaphore(ctx, "none", options.WithUpdateData([]byte("x"))),
		"delete of no such":   s.DeleteSemaphore(ctx, "none"),
		"name of 1,025 bytes": s.CreateSemaphore(ctx, string(bytes.Repeat([]byte("n"), 1025)), 1),
	} {
		if err != nil {
			t.Errorf("%s: %v; the SDK used to swallow this", what, err)
		}
	}
	for what, acquire := range map[string]func() (coordination.Lease, error){
		"count 0":    func() (coordination.Lease, error) { return s.AcquireSemaphore(ctx, "semaphore", 0) },
		"over limit": func() (coordination.Lease, error) { return s.AcquireSemaphore(ctx, "semaphore", 6) },
		"no such":    func() (coordination.Lease, error) { return s.AcquireSemaphore(ctx, "none", 1) },
		"wrong kind": func() (coordination.Lease, error) {
			return s.AcquireSemaphore(ctx, "semaphore", 1, options.WithEphemeral(true))
		},
		"over a day": func() (coordination.Lease, error) {
			return s.AcquireSemaphore(ctx, "semaphore", 1,
				options.WithAcquireTimeout(24*time.Hour+time.Millisecond))
		},
	} {
		if _, err := acquire(); !errors.Is(err, coordination.ErrAcquireTimeout) {
			t.Errorf("acquire, %s: %v, want a refusal", what, err)
		}
	}

	d := describe(t, s, "semaphore")
	if d.Limit != 5 || string(d.Data) != "old" || d.Count != 0 || len(d.Owners)+len(d.Waiters) != 0 {
		t.Errorf("after all refusals: %v", d)
	}
	if d := describe(t, s, "none"); d.Name != "" {
		t.Errorf("a refused create left %v", d)
	}
	if n := c.seen.attachments(s.SessionID()); n != 1 {
		t.Errorf("the stream was opened %d times, want once", n)
	}
}

// The largest name and the largest data come back whole.
func TestLargest(t *testing.T) {
	c := newNode(t)
	s := c.session()
	name := string(bytes.Repeat([]byte("n"), 1024))
	data := bytes.Repeat([]byte{0, 1, 2, 255}, 1<<18)
	create(t, s, name, coordination.MaxSemaphoreLimit, options.WithCreateData(data))
	acquire(t, s, name, coordination.Exclusive, options.WithAcquireData(data),
		options.WithAcquireTimeout(24*time.Hour))
	d := describe(t, s, name)
	if !bytes.Equal(d.Data, data) || len(d.Owners) != 1 || !bytes.Equal(d.Owners[0].Data, data) ||
		d.Count != math.MaxUint64 {
		t.Error("a megabyte of data did not come back as it was sent")
	}
}
