package compat_test

import (
	"errors"
	"testing"

	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
)

var ephemeral = options.WithEphemeral(true)

// An exclusive ephemeral lock passes from one session to the other and is gone after the last.
func TestExclusiveLock(t *testing.T) {
	c := newNode(t)
	first, second := c.session(), c.session()

	held := acquire(t, first, "lock", coordination.Exclusive, ephemeral)
	d := describe(t, second, "lock")
	if !d.Ephemeral || d.Limit != coordination.MaxSemaphoreLimit || d.Count != coordination.Exclusive ||
		len(d.Data) != 0 {
		t.Errorf("a held lock: %v", d)
	}
	firstID := orderID(t, first, "lock")
	_, err := second.AcquireSemaphore(testContext(t), "lock", coordination.Shared, ephemeral,
		options.WithAcquireTimeout(0))
	if !errors.Is(err, coordination.ErrAcquireTimeout) {
		t.Errorf("share an exclusive lock: %v", err)
	}

	waiting := enqueue(t, second, "lock", coordination.Exclusive, ephemeral)
	release(t, held)
	taken := waiting.granted(t)
	if id := orderID(t, second, "lock"); id <= firstID {
		t.Errorf("order id %d after %d: no use for fencing", id, firstID)
	}
	release(t, taken)
	if d := describe(t, first, "lock"); d.Name != "" {
		t.Errorf("a lock that nobody holds: %v", d)
	}
}

// Readers share a lock; a writer waits for all of them, and later readers wait behind the writer.
func TestSharedLock(t *testing.T) {
	c := newNode(t)
	reader1, reader2, writer, reader3 := c.session(), c.session(), c.session(), c.session()

	lease1 := acquire(t, reader1, "lock", coordination.Shared, ephemeral)
	lease2 := acquire(t, reader2, "lock", coordination.Shared, ephemeral)
	if d := describe(t, reader1, "lock"); d.Count != 2 || len(d.Owners) != 2 {
		t.Errorf("with two readers: %v", d)
	}
	writing := enqueue(t, writer, "lock", coordination.Exclusive, ephemeral)
	reading := enqueue(t, reader3, "lock", coordination.Shared, ephemeral)

	release(t, lease1)
	if d := describe(t, reader1, "lock"); d.Count != 1 || len(d.Waiters) != 2 {
		t.Errorf("with one reader left: %v", d)
	}
	release(t, lease2)
	written := writing.granted(t)
	if d := describe(t, reader1, "lock"); d.Count != coordination.Exclusive || len(d.Waiters) != 1 {
		t.Errorf("with the writer: %v", d)
	}
	release(t, written)
	reading.granted(t)
}

// A holder may turn an exclusive lock into a shared one and let a reader in; the way back is barred.
func TestLockDowngrade(t *testing.T) {
	c := newNode(t)
	first, second := c.session(), c.session()
	acquire(t, first, "lock", coordination.Exclusive, ephemeral)
	waiting := enqueue(t, second, "lock", coordination.Shared, ephemeral)

	acquire(t, first, "lock", coordination.Shared, ephemeral)
	waiting.granted(t)
	_, err := first.AcquireSemaphore(testContext(t), "lock", coordination.Exclusive, ephemeral)
	if !errors.Is(err, coordination.ErrAcquireTimeout) {
		t.Errorf("make a shared lock exclusive: %v, want a refusal", err)
	}
	if d := describe(t, first, "lock"); d.Count != 2 || len(d.Owners) != 2 {
		t.Errorf("two readers: %v", d)
	}
}

// Ephemeral locks cannot be created, deleted or mixed with semaphores, but they can carry data.
func TestLockIsNoSemaphore(t *testing.T) {
	c := newNode(t)
	ctx := testContext(t)
	s := c.session()
	held := acquire(t, s, "lock", coordination.Exclusive, ephemeral)

	if err := s.CreateSemaphore(ctx, "lock", 1); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteSemaphore(ctx, "lock", options.WithForceDelete(true)); err != nil {
		t.Fatal(err)
	}
	update(t, s, "lock", "data")
	if d := describe(t, s, "lock"); !d.Ephemeral || len(d.Owners) != 1 || string(d.Data) != "data" {
		t.Errorf("after create, delete and update: %v", d)
	}
	release(t, held)

	create(t, s, "lock", 1) // the name is free again, for either kind
}
