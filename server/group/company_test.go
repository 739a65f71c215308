package group

import (
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
)

// contend has one client hold a lock and another ask for it, which does nothing but queue up. It returns both
// and the entry before.
func contend(t *testing.T, g *Group) (holder, waiter *testClient, index coordination.Index) {
	t.Helper()
	createNode(t, g, testNode)
	holder, waiter = openSession(t, g, 600_000), openSession(t, g, 600_000)
	holder.ask(1, take("lock"))
	if r := holder.next(t); !r.Done {
		t.Fatalf("got %+v", r)
	}
	g.hold(g.turn.Lock())
	defer g.turn.Unlock()
	waiter.ask(1, take("lock"))
	return holder, waiter, g.core.replica.Machine().Index()
}

// kept reports whether commands wait for company.
func kept(g *Group) bool {
	g.hold(g.turn.Lock())
	defer g.turn.Unlock()
	return g.core.companyUntil != coordination.Never
}

// TestQueueingSharesAnEntry has an acquire that only queues up wait for the release that it waits for. Both
// come to the log in one entry, and the lock changes hands with it.
func TestQueueingSharesAnEntry(t *testing.T) {
	g := openTest(t, func(config *Config) { config.patience = waitMax })
	holder, waiter, index := contend(t, g)
	g.queue.bell.Ring()
	eventually(t, "the acquire to wait for company", func() bool { return kept(g) })
	if waits := g.Still().Waits; waits == "" {
		t.Error("the group is still, though a command waits")
	}
	holder.ask(2, &coordination.Request{Kind: coordination.RequestRelease, Name: "lock"})
	if r := holder.next(t); r.Kind != coordination.ReplyResult || !r.Done {
		t.Errorf("the holder got %+v", r)
	}
	// The turn that answers the holder goes on with the waiter. Once it is over, a Pending that nobody has taken is
	// no news any more.
	g.hold(g.turn.Lock())
	now, until := g.core.replica.Machine().Index(), g.core.companyUntil
	g.turn.Unlock()
	if r := waiter.next(t); r.Kind != coordination.ReplyResult || !r.Done {
		t.Errorf("the waiter got %+v", r)
	}
	if now != index+1 || until != coordination.Never {
		t.Errorf("%d entries; waiting for company until %v", now-index, until)
	}
}

// TestQueueingWaitsNotLong has an acquire queue up that gets no company.
func TestQueueingWaitsNotLong(t *testing.T) {
	for name, patience := range map[string]time.Duration{"as usual": 0, "hardly": time.Nanosecond} {
		t.Run(name, func(t *testing.T) {
			g := openTest(t, func(config *Config) { config.patience = patience })
			_, waiter, _ := contend(t, g)
			g.queue.bell.Ring()
			if r := waiter.next(t); r.Kind != coordination.ReplyPending {
				t.Errorf("got %+v", r)
			}
			if kept(g) {
				t.Error("something waits for company still")
			}
		})
	}
}
