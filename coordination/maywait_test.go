package coordination

import "testing"

// TestWhatMayWait has one client hold a lock and another wait for it. Of what a third one asks for, only an
// acquire may wait for company that would put its session into a queue and do nothing else.
func TestWhatMayWait(t *testing.T) {
	second := func(change func(*Request)) Request {
		r := waitLock
		change(&r)
		return r
	}
	for _, c := range []struct {
		name    string
		request Request
		waits   bool
	}{
		{"joins a queue", waitLock, true},
		{"joins a queue for ever", second(func(r *Request) { r.TimeoutMillis = Infinite }), true},
		{"joins a queue that nobody is in yet", second(func(r *Request) { r.Name = "held" }), true},
		{"only tries", tryLock, false},
		{"is granted", second(func(r *Request) { r.Name, r.Ephemeral, r.Count = "shared", false, 1 }), false},
		{"makes the semaphore", second(func(r *Request) { r.Name = "new" }), false},
		{"is refused: there is no semaphore", second(func(r *Request) { r.Name, r.Ephemeral = "new", false }), false},
		{"is refused: not of that kind", second(func(r *Request) { r.Ephemeral = false }), false},
		{"is refused: over the limit", second(func(r *Request) { r.Name, r.Ephemeral, r.Count = "shared", false, 5 }),
			false},
		{"is refused: no units", second(func(r *Request) { r.Count = 0 }), false},
		{"releases", release, false},
		{"creates", Request{Kind: RequestCreate, Name: "created", Limit: 1}, false},
		{"describes", Request{Kind: RequestDescribe, Name: "lock"}, false},
		{"stops", Request{Kind: RequestStop}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newContended(t)
			r.forward(r.third, Forward{Sequence: 1, Request: &c.request})
			if got := r.replica.MayWait(); got != c.waits {
				t.Errorf("may wait: %v", got)
			}
		})
	}
}

// contended is three clients: the first holds locks, the second waits for one of them.
type contended struct {
	*rig
	first, second, third StreamID
}

func newContended(t *testing.T) *contended {
	t.Helper()
	r := &contended{rig: newRig(t)}
	r.createNode("/local/n", relaxed)
	for _, stream := range []*StreamID{&r.first, &r.second, &r.third} {
		*stream, _ = r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 60_000})
	}
	held := tryLock
	held.Name = "held"
	r.request(r.first, 1, tryLock)
	r.request(r.first, 2, held)
	r.request(r.first, 3, Request{Kind: RequestCreate, Name: "shared", Limit: 4})
	r.request(r.second, 1, waitLock)
	r.applyAll()
	r.said()
	return r
}

// TestWaitForCompanyEnds makes an acquire wait for further commands. Any urgent command takes it along, ahead of
// itself; a command that is executed meanwhile, and a later describe, end the waiting.
func TestWaitForCompanyEnds(t *testing.T) {
	joined := func(t *testing.T) *contended {
		r := newContended(t)
		r.forward(r.third, Forward{Sequence: 1, Request: &waitLock})
		if work := r.replica.TakeAllButCommands(); len(work.Commands) != 0 || !r.replica.MayWait() {
			t.Fatalf("taken: %v, may wait: %v", work.Commands, r.replica.MayWait())
		}
		return r
	}
	goes := func(t *testing.T, r *contended, kinds ...RequestKind) {
		t.Helper()
		if r.replica.MayWait() {
			t.Error("it still waits")
		}
		commands := r.replica.Take().Commands
		if len(commands) != len(kinds) {
			t.Fatalf("commands %v, want %d", commands, len(kinds))
		}
		for i, c := range commands {
			_, acquires := c.(*AcquireSemaphore)
			if acquires != (kinds[i] == RequestAcquire) {
				t.Errorf("command %d is %T", i, c)
			}
		}
		if r.replica.MayWait() || len(r.replica.Take().Commands) > 0 {
			t.Error("something is left")
		}
	}
	t.Run("another joins", func(t *testing.T) {
		r := joined(t)
		held := waitLock
		held.Name = "held"
		r.forward(r.second, Forward{Sequence: 2, Request: &held})
		if !r.replica.MayWait() {
			t.Error("two that join queues do not wait")
		}
	})
	t.Run("release", func(t *testing.T) {
		r := joined(t)
		r.forward(r.first, Forward{Sequence: 4, Request: &release})
		goes(t, r, RequestAcquire, RequestRelease)
	})
	t.Run("then joins another", func(t *testing.T) {
		r := joined(t)
		r.forward(r.first, Forward{Sequence: 4, Request: &release})
		held := waitLock
		held.Name = "held"
		r.forward(r.second, Forward{Sequence: 2, Request: &held})
		goes(t, r, RequestAcquire, RequestRelease, RequestAcquire)
	})
	t.Run("describe", func(t *testing.T) {
		r := joined(t)
		r.forward(r.second, Forward{Sequence: 2, Request: &Request{Kind: RequestDescribe, Name: "lock"}})
		goes(t, r, RequestAcquire)
	})
	t.Run("something is executed", func(t *testing.T) {
		r := joined(t)
		r.index++
		r.replica.Committed(r.now, entryOf(r.index, r.term, &Mark{}))
		goes(t, r, RequestAcquire)
	})
	t.Run("what was executed before", func(t *testing.T) {
		r := newContended(t)
		r.index++
		r.replica.Committed(r.now, entryOf(r.index, r.term, &Mark{}))
		r.forward(r.third, Forward{Sequence: 1, Request: &waitLock})
		if !r.replica.MayWait() {
			t.Error("it does not wait, though nothing was executed since")
		}
	})
	t.Run("expiry", func(t *testing.T) {
		r := joined(t)
		r.leader.Detach(r.now, r.first)
		r.pass(1_000_000)
		r.replica.Tick(r.now)
		if r.replica.MayWait() {
			t.Error("it waits behind the end of the session that holds the lock")
		}
	})
	t.Run("another leader", func(t *testing.T) {
		r := joined(t)
		r.replica.Following()
		if r.replica.MayWait() || len(r.replica.Take().Commands) > 0 {
			t.Error("something is left of the leader before")
		}
	})
}
