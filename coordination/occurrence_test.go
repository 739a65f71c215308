package coordination

import (
	"fmt"
	"slices"
	"testing"
)

// occurred returns the occurrences since the last call, in short words.
func (r *rig) occurred() (words []string) {
	names := map[OccurrenceKind]string{OccurSessionStarted: "started", OccurSessionAttached: "attached",
		OccurSessionDetached: "detached", OccurSessionStopped: "stopped", OccurSessionExpired: "expired",
		OccurSessionEnded: "ended", OccurLockGranted: "granted", OccurLockAwaited: "awaited",
		OccurLockLost: "lost", OccurWaitEnded: "gave up", OccurSemaphoreDeleted: "deleted",
		OccurNodeDropped: "dropped"}
	for _, o := range r.machine.Occurred() {
		word := fmt.Sprintf("%d %s", o.Session, names[o.Kind])
		if o.Semaphore != "" {
			word += fmt.Sprintf(" %s %d", o.Semaphore, o.Order)
		}
		if o.Kind == OccurNodeDropped {
			word = fmt.Sprintf("node %d dropped with %d at %s by %s", o.Node, o.Count, o.More.Path,
				o.More.User)
		} else if o.More != nil {
			word += fmt.Sprintf(" by %s: %s", o.More.User, o.More.Reason)
		}
		words = append(words, word)
	}
	return words
}

// Occurrences are the events, in their order, each once.
func TestOccurrences(t *testing.T) {
	r := newRig(t)
	r.machine.Observe()
	want := func(what string, want ...string) {
		t.Helper()
		r.applyAll()
		if got := r.occurred(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	r.createNode("/local/n", relaxed)
	one := r.open(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	two := r.open(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	want("starts", "1 started", "2 started")
	r.request(one, 1, tryLock)
	r.request(two, 1, waitLock)
	want("a lock", "1 granted lock 1", "2 awaited lock 2")
	r.request(two, 2, waitLock)
	want("it goes on waiting")
	r.request(one, 2, release)
	want("handed on", "1 lost lock 1", "2 granted lock 2")
	r.request(one, 3, waitLock)
	r.request(one, 4, release)
	want("given up", "1 awaited lock 3", "1 gave up lock 3")
	r.request(one, 5, waitLock)
	r.applyAll()
	r.occurred()
	r.pass(5000)
	r.tick()
	want("timed out", "1 gave up lock 4")
	r.leader.Detach(r.now, two)
	want("detached", "2 detached")
	two = r.open(AttachRequest{Path: "/local/n", Session: 2, TimeoutMillis: 5000})
	want("attached without the log", "2 attached")
	r.leader.Detach(r.now, two)
	r.open(AttachRequest{Path: "/local/n", Session: 2, TimeoutMillis: 6000})
	want("attached with it", "2 detached", "2 attached")
	r.call(&EndSession{Caller: Caller{Subject: "root"}, Node: 1, Session: 2, Reason: "why not"})
	want("ended", "2 ended by root: why not", "2 lost lock 2")
	r.request(one, 6, Request{Kind: RequestCreate, Name: "s", Limit: 1})
	r.request(one, 7, Request{Kind: RequestAcquire, Name: "s", Count: 1})
	r.request(one, 8, Request{Kind: RequestDelete, Name: "s", Force: true})
	want("a semaphore", "1 granted s 5", "1 lost s 5", "0 deleted s 0")
	r.request(one, 9, Request{Kind: RequestStop})
	want("stopped", "1 stopped")
	three := r.open(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	r.applyAll()
	r.leader.Detach(r.now, three)
	r.pass(5000)
	r.tick()
	want("expired", "3 started", "3 detached", "3 expired")
	r.open(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	holder := r.open(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	r.applyAll()
	r.request(holder, 10, Request{Kind: RequestAcquire, Name: "held", Count: 1, Ephemeral: true})
	r.applyAll()
	r.occurred()
	r.call(&DropNode{Caller: Caller{Subject: "root"}, Path: pathOf("/local/n")})
	want("dropped", "node 1 dropped with 2 at /local/n by root")
}

// What a lock costs in allocations is the same whether somebody observes or not.
func TestOccurrencesDoNotAllocate(t *testing.T) {
	cost := func(observed bool) float64 {
		m := busyNode(t, 1, 1)
		if observed {
			m.Observe()
		}
		acquire := &AcquireSemaphore{Origin: Origin{Node: 1, Session: 1, Address: Address{Epoch{1, 1}, 1}},
			Name: "x", Count: 1, Ephemeral: true}
		give := &ReleaseSemaphore{Origin: acquire.Origin, Name: "x"}
		return testing.AllocsPerRun(200, func() {
			m.Apply(m.index+1, 1, acquire)
			m.Apply(m.index+1, 1, give)
			m.Occurred()
		})
	}
	if without, with := cost(false), cost(true); with > without {
		t.Errorf("%v allocations with an observer, %v without", with, without)
	}
}
