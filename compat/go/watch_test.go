package compat_test

import (
	"testing"

	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
)

var (
	dataChanged   = options.SemaphoreWatchEvent{DataChanged: true}
	ownersChanged = options.SemaphoreWatchEvent{OwnersChanged: true}
	lost          = options.SemaphoreWatchEvent{Lost: true}
)

// watch describes the semaphore and returns the channel on which the one event of the watch arrives. Room for a second
// event lets tests see that only one comes.
func watch(
	t *testing.T, s coordination.Session, name string, flags options.SemaphoreWatchFlag,
) <-chan options.SemaphoreWatchEvent {
	t.Helper()
	events := make(chan options.SemaphoreWatchEvent, 2)
	d, err := s.DescribeSemaphore(testContext(t), name,
		options.WithSemaphoreWatch(flags, func(e options.SemaphoreWatchEvent) { events <- e }))
	if err != nil || d.Name != name {
		t.Fatalf("watch %q: %v, %v", name, d, err)
	}
	return events
}

func update(t *testing.T, s coordination.Session, name, data string) {
	t.Helper()
	if err := s.UpdateSemaphore(testContext(t), name, options.WithUpdateData([]byte(data))); err != nil {
		t.Fatalf("update %q: %v", name, err)
	}
}

func wantEvent(t *testing.T, events <-chan options.SemaphoreWatchEvent, want options.SemaphoreWatchEvent) {
	t.Helper()
	if got := receive(t, "the event of the watch", events); got != want {
		t.Fatalf("event %+v, want %+v", got, want)
	}
}

// A watch of the data is silent about owners and about an update that changes nothing, and speaks once.
func TestWatchData(t *testing.T) {
	c := newNode(t)
	watcher, other := c.session(), c.session()
	create(t, other, "semaphore", 5, options.WithCreateData([]byte("one")))
	first := watch(t, watcher, "semaphore", options.WatchData)

	release(t, acquire(t, other, "semaphore", 1))
	update(t, other, "semaphore", "one")
	update(t, other, "semaphore", "two")
	wantEvent(t, first, dataChanged) // and not what came before
	update(t, other, "semaphore", "three")

	// The next watch speaks of the next change; the first one has had its say.
	second := watch(t, watcher, "semaphore", options.WatchData)
	update(t, other, "semaphore", "four")
	wantEvent(t, second, dataChanged)
	if len(first) != 0 {
		t.Error("a one-shot watch spoke twice")
	}
}

// A watch of the owners is silent about data and about waiters, and hears of a grant to its own session too.
func TestWatchOwners(t *testing.T) {
	c := newNode(t)
	watcher, other := c.session(), c.session()
	create(t, other, "semaphore", 1)

	events := watch(t, watcher, "semaphore", options.WatchOwners)
	update(t, other, "semaphore", "data")
	held := acquire(t, other, "semaphore", 1)
	wantEvent(t, events, ownersChanged)

	events = watch(t, watcher, "semaphore", options.WatchOwners)
	waiting := enqueue(t, watcher, "semaphore", 1)
	if len(events) != 0 {
		t.Errorf("event %+v about a waiter", <-events)
	}
	release(t, held) // one step: the owner leaves and the waiter takes over
	wantEvent(t, events, ownersChanged)
	waiting.granted(t)

	// The data of an owner is part of the owners.
	events = watch(t, other, "semaphore", options.WatchOwners)
	acquire(t, watcher, "semaphore", 1)
	acquire(t, watcher, "semaphore", 1, options.WithAcquireData([]byte("here I am")))
	wantEvent(t, events, ownersChanged)
}

// A watch of both gets one event, for whatever changes first.
func TestWatchBoth(t *testing.T) {
	c := newNode(t)
	watcher, other := c.session(), c.session()
	create(t, other, "semaphore", 1)

	events := watch(t, watcher, "semaphore", options.WatchData|options.WatchOwners)
	update(t, other, "semaphore", "data")
	wantEvent(t, events, dataChanged)

	events = watch(t, watcher, "semaphore", options.WatchData|options.WatchOwners)
	acquire(t, other, "semaphore", 1)
	wantEvent(t, events, ownersChanged)
}

// A second watch of the same session on the same semaphore replaces the first, which is notified; a describe without a
// watch leaves it alone; deleting the semaphore ends it.
func TestWatchReplaced(t *testing.T) {
	c := newNode(t)
	watcher, other := c.session(), c.session()
	create(t, other, "semaphore", 5)

	first := watch(t, watcher, "semaphore", options.WatchOwners)
	second := watch(t, watcher, "semaphore", options.WatchOwners)
	wantEvent(t, first, lost)

	describe(t, watcher, "semaphore")
	if err := other.DeleteSemaphore(testContext(t), "semaphore"); err != nil {
		t.Fatal(err)
	}
	wantEvent(t, second, ownersChanged)
}

// The usual loop: a handler that gets a notice looks again and watches on, from inside itself.
func TestWatchFromHandler(t *testing.T) {
	c := newNode(t)
	watcher, other := c.session(), c.session()
	create(t, other, "semaphore", 1)

	ctx := testContext(t)
	states := make(chan string, 10)
	var look func(options.SemaphoreWatchEvent)
	look = func(options.SemaphoreWatchEvent) {
		d, err := watcher.DescribeSemaphore(ctx, "semaphore",
			options.WithSemaphoreWatch(options.WatchData, look))
		if err == nil {
			states <- string(d.Data)
		}
	}
	look(options.SemaphoreWatchEvent{})
	if got := receive(t, "the first state", states); got != "" {
		t.Fatalf("first state %q", got)
	}
	for _, want := range []string{"one", "two", "three"} {
		update(t, other, "semaphore", want)
		if got := receive(t, "the next state", states); got != want {
			t.Fatalf("state %q, want %q", got, want)
		}
	}
}

// When the stream breaks the SDK declares its watches lost; a new one works.
func TestWatchLostByReconnect(t *testing.T) {
	c := newNode(t)
	watcher, other := c.session(), c.session()
	create(t, other, "semaphore", 1)

	events := watch(t, watcher, "semaphore", options.WatchData)
	watcher.Reconnect()
	wantEvent(t, events, lost)

	events = watch(t, watcher, "semaphore", options.WatchData)
	update(t, other, "semaphore", "data")
	wantEvent(t, events, dataChanged)
}
