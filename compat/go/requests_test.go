package compat_test

import (
	"context"
	"testing"

	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
)

// create makes a semaphore and fails the test if it is not there afterwards.
func create(t *testing.T, s coordination.Session, name string, limit uint64,
	opts ...options.CreateSemaphoreOption) {
	t.Helper()
	if err := s.CreateSemaphore(testContext(t), name, limit, opts...); err != nil {
		t.Fatalf("create %q: %v", name, err)
	}
	if d := describe(t, s, name); d.Name != name || d.Limit != limit {
		t.Fatalf("create %q with limit %d: found %v", name, limit, d)
	}
}

// describe returns a semaphore with its owners and waiters; its name is empty if there is no such semaphore
// (and the tests use no semaphore with an empty name).
func describe(t *testing.T, s coordination.Session, name string) *coordination.SemaphoreDescription {
	t.Helper()
	d, err := s.DescribeSemaphore(testContext(t), name,
		options.WithDescribeOwners(true), options.WithDescribeWaiters(true))
	if err != nil {
		t.Fatalf("describe %q: %v", name, err)
	}
	return d
}

// acquire takes tokens that must be free, or wait for no longer than the test.
func acquire(
	t *testing.T, s coordination.Session, name string, count uint64, opts ...options.AcquireSemaphoreOption,
) coordination.Lease {
	t.Helper()
	lease, err := s.AcquireSemaphore(testContext(t), name, count, opts...)
	if err != nil {
		t.Fatalf("session %d acquires %d of %q: %v", s.SessionID(), count, name, err)
	}
	return lease
}

// release gives a lease back and checks that its context ends.
func release(t *testing.T, lease coordination.Lease) {
	t.Helper()
	if err := lease.Release(); err != nil {
		t.Fatalf("release: %v", err)
	}
	if lease.Context().Err() == nil {
		t.Error("the context of a released lease is still alive")
	}
}

// wait is an acquire that is expected to stand in the queue.
type wait struct {
	leases chan coordination.Lease
	errs   chan error
	cancel context.CancelFunc
}

// enqueue starts an acquire and returns when the semaphore shows it among its waiters.
func enqueue(
	t *testing.T, s coordination.Session, name string, count uint64, opts ...options.AcquireSemaphoreOption,
) *wait {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	w := &wait{leases: make(chan coordination.Lease, 1), errs: make(chan error, 1), cancel: cancel}
	go func() {
		lease, err := s.AcquireSemaphore(ctx, name, count, opts...)
		if err != nil {
			w.errs <- err
			return
		}
		w.leases <- lease
	}()
	eventually(t, "the acquire shows up in the queue", func() bool {
		select {
		case err := <-w.errs:
			t.Fatalf("session %d waits for %d of %q: %v", s.SessionID(), count, name, err)
		case <-w.leases:
			t.Fatalf("session %d got %d of %q at once and should have waited", s.SessionID(), count, name)
		default:
		}
		found := find(describe(t, s, name).Waiters, s)
		return found != nil && found.Count == count
	})
	return w
}

// granted waits for the lease.
func (w *wait) granted(t *testing.T) coordination.Lease {
	t.Helper()
	return receive(t, "the lease", w.leases)
}

// refused waits for the error.
func (w *wait) refused(t *testing.T) error {
	t.Helper()
	return receive(t, "the end of the wait", w.errs)
}

// find returns the entry of a session among owners or waiters, or nil.
func find(entries []*coordination.SemaphoreSession, s coordination.Session) *coordination.SemaphoreSession {
	for _, e := range entries {
		if e.SessionID == s.SessionID() {
			return e
		}
	}
	return nil
}

// sessions returns who owns or waits, in the order of the description.
func sessions(entries []*coordination.SemaphoreSession) []uint64 {
	ids := make([]uint64, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.SessionID)
	}
	return ids
}

// orderID returns the order id under which the session that asks owns the semaphore.
func orderID(t *testing.T, s coordination.Session, name string) uint64 {
	t.Helper()
	d := describe(t, s, name)
	owner := find(d.Owners, s)
	if owner == nil {
		t.Fatalf("session %d does not own %q: %v", s.SessionID(), name, d)
	}
	return owner.OrderID
}
