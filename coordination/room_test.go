package coordination

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// roomRig is a rig with a node and the session s, and how many bytes are used then.
func roomRig(t *testing.T) (r *rig, stream StreamID, n *node) {
	r = newRig(t)
	id := r.createNode("/local/a", relaxed)
	stream, _ = r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	return r, stream, r.machine.nodes[id]
}

// limit sets the limit of the state to what is used and some bytes more, or less.
func (r *rig) limit(more int64) {
	r.t.Helper()
	r.run(&SetLimits{Limits: StateLimits{State: r.machine.Used() + uint64(more)}})
}

// bound sets the quota of a path to what is used of it and some bytes more.
func (r *rig) bound(path string, more int64) {
	r.t.Helper()
	r.run(&SetQuota{Path: pathOf(path), Quota: scheme.Quota{Bytes: 1}})
	used := r.machine.tree.Account(pathOf(path)).Used.Bytes
	r.run(&SetQuota{Path: pathOf(path), Quota: scheme.Quota{Bytes: used + uint64(more)}})
}

// run makes a call that must succeed.
func (r *rig) run(c Command) {
	r.t.Helper()
	if answer := r.outcome(c); !answer.OK() {
		r.t.Fatalf("%#v: %s", c, answer)
	}
}

// outcome makes a call and returns what became of it.
func (r *rig) outcome(c Command) outcome.Outcome {
	r.t.Helper()
	r.calls = nil
	r.call(c)
	r.applyAll()
	if len(r.calls) != 1 {
		r.t.Fatalf("%#v: %d answers", c, len(r.calls))
	}
	return r.calls[0].Outcome
}

func pathOf(text string) scheme.Path { return scheme.SplitLoose(text) }

// Each way in which the state grows is accepted at exactly the limit and refused one byte past it, without a
// trace; and so by the quota of a path above.
func TestStateLimit(t *testing.T) {
	request := func(q Request) func(*rig, StreamID) string {
		return func(r *rig, stream StreamID) string {
			r.said()
			r.request(stream, 9, q)
			r.applyAll()
			return strings.Join(r.said(), ", ")
		}
	}
	call := func(c Command) func(*rig, StreamID) string {
		return func(r *rig, _ StreamID) string { return r.outcome(c).String() }
	}
	start := func(a AttachRequest) func(*rig, StreamID) string {
		return func(r *rig, _ StreamID) string {
			r.said()
			r.open(a)
			r.applyAll()
			return strings.Join(r.said(), ", ")
		}
	}
	lock := Request{Kind: RequestCreate, Name: "lock", Limit: 1, Data: []byte("data")}
	for _, c := range []struct {
		what   string
		before []Request
		calls  []Command
		grow   func(*rig, StreamID) string
		bytes  int
	}{
		{"session", nil, nil, start(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Description: "three",
			ProtectionKey: "key", Identity: Identity{Kind: IdentityToken, Subject: "alice"}}),
			sessionRowBytes + 5 + 3 + 5},
		{"semaphore", nil, nil, request(lock), rowBytes + 4 + 4},
		{"data", []Request{lock}, nil, request(updateLock("longer")), 2},
		{"ephemeral semaphore and its owner", nil, nil,
			request(Request{Kind: RequestAcquire, Name: "e", Count: 1, Data: []byte("xy"),
				Ephemeral: true}), 2*rowBytes + 1 + 2},
		{"owner", []Request{lock}, nil, request(Request{Kind: RequestAcquire, Name: "lock", Count: 1,
			Data: []byte("xyz")}), rowBytes + 3},
		{"data of an owner", []Request{lock, {Kind: RequestAcquire, Name: "lock", Count: 1}}, nil,
			request(Request{Kind: RequestAcquire, Name: "lock", Count: 1, Data: []byte("xyz")}), 3},
		{"node", nil, nil, call(&CreateNode{Path: pathOf("/local/d/b"), Owner: "o"}),
			2*(rowBytes+1+1) + nodeRowBytes},
		{"directory", nil, nil, call(&MakeDirectory{Path: pathOf("/local/d/e"), Owner: "o"}),
			2 * (rowBytes + 1 + 1)},
		{"permission", nil, nil,
			call(&ModifyPermissions{Path: pathOf("/local/a"),
				Change: scheme.PermissionsChange{
					Actions: []scheme.Action{{Kind: scheme.Grant, Subject: "bob",
						Names: []string{"ydb.generic.read"}}}}}), 64 + 3 + 32 + 16},
		{"owner of a path", nil, nil, call(&ModifyPermissions{Path: pathOf("/local/a"),
			Change: scheme.PermissionsChange{
				Actions: []scheme.Action{{Kind: scheme.ChangeOwner, Subject: scheme.RootOwner + "s"}}}}), 1},
		{"user", nil, nil, call(&AddUser{Name: "bob", PasswordHash: "hash"}), rowBytes + 3 + 4},
		{"resource", nil, nil, call(&CreateResource{Path: pathOf("/local/a"), Resource: "res",
			ResourceProperties: ofRate(1, "ab", "c")}), rowBytes + 3 + 3},
		{"properties", nil, []Command{&CreateResource{Path: pathOf("/local/a"), Resource: "res",
			ResourceProperties: ofRate(1, "", "c")}},
			call(&AlterResource{Path: pathOf("/local/a"), Resource: "res",
				ResourceProperties: ofRate(1, "ab", "cd")}), 3},
		{"password", nil, []Command{&AddUser{Name: "bob", PasswordHash: "hash"}},
			call(&SetPassword{Name: "bob", PasswordHash: "hashes"}), 2},
	} {
		for past := range 2 {
			for quota, text := range map[bool]string{false: "Cluster state has no space left",
				true: "Quota of /local is used up"} {
				if quota && (c.what == "user" || c.what == "password") { // of no path
					continue
				}
				r, stream, n := roomRig(t)
				for i, q := range c.before {
					r.request(stream, Sequence(i+1), q)
				}
				for _, command := range c.calls {
					r.run(command)
				}
				r.applyAll()
				limit := r.machine.Used() + uint64(c.bytes-past)
				if quota {
					r.bound("/local", int64(c.bytes-past))
				} else {
					r.limit(int64(c.bytes - past))
				}
				before, digest := r.machine.Used(), r.machine.Digest()
				nextSession := n.nextSession
				answer := c.grow(r, stream)
				refused := strings.Contains(answer, text)
				used := r.machine.Used()
				switch {
				case past == 0 && (refused || used != before+uint64(c.bytes) || used != limit):
					t.Errorf("%s at the limit: %s, %d bytes, %d before", c.what, answer, used, before)
				case past == 1 && (!refused || used != before || r.machine.Digest() != digest ||
					n.nextSession != nextSession):
					t.Errorf("%s past the limit: %s, %d bytes, %d before", c.what, answer, used, before)
				}
				if err := r.machine.Check(); err != nil {
					t.Errorf("%s: %v", c.what, err)
				}
			}
		}
	}
}

// A waiter counts as well. One that asks again for too much goes on waiting; to become an owner takes no
// room.
func TestStateLimitOfWaiter(t *testing.T) {
	r, owner, _ := roomRig(t)
	waiter, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	third, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(owner, 1, tryLock)
	r.applyAll()
	r.limit(rowBytes)
	r.said()
	r.request(waiter, 1, waitLock)
	again := waitLock
	again.Data = []byte("x")
	r.request(waiter, 2, again)
	r.request(third, 1, waitLock)
	// a try makes nothing
	r.request(third, 2, Request{Kind: RequestAcquire, Name: "lock", Count: 1, Ephemeral: true})
	r.request(owner, 2, release)
	r.applyAll()
	const full = "Cluster state has no space left"
	r.expect("2 #1 pending", "2 #2 "+full, "3 #1 "+full, "3 #2 done false", "1 #2 done true",
		"2 #1 done true")
	r.request(third, 3, waitLock)
	r.applyAll()
	r.expect("3 #3 pending")
}

// Above its limit a state loads, goes on, and lets everything be done that does not make it larger.
func TestStateAboveItsLimit(t *testing.T) {
	r, stream, n := roomRig(t)
	described := AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Description: "a description"}
	second, sessionOfSecond := r.attach(described)
	third, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	for i, q := range []Request{createLock, updateLock("data"),
		{Kind: RequestCreate, Name: "other", Limit: 3, Data: []byte("data")},
		{Kind: RequestAcquire, Name: "other", Count: 2, Data: []byte("owner")}, tryLockOf("e1"),
		tryLockOf("e2")} {
		r.request(stream, Sequence(i+1), q)
	}
	r.request(second, 1, Request{Kind: RequestAcquire, Name: "e1", Count: 1, Ephemeral: true,
		TimeoutMillis: 500, Data: []byte("waiter")})
	r.request(third, 1, Request{Kind: RequestAcquire, Name: "e2", Count: 1, Ephemeral: true,
		TimeoutMillis: Infinite})
	r.applyAll()
	r.run(&CreateNode{Path: pathOf("/local/dir/b")})
	r.run(&MakeDirectory{Path: pathOf("/local/empty")})
	r.run(&ModifyPermissions{Path: pathOf("/local/a"), Change: scheme.PermissionsChange{
		Actions: []scheme.Action{{Kind: scheme.Grant, Subject: "bob", Names: []string{"ydb.generic.read"}}}}})
	r.run(&AddUser{Name: "root", PasswordHash: "hash"})
	r.run(&AddUser{Name: "bob", PasswordHash: "hash"})
	r.run(&SetLimits{Limits: StateLimits{State: 1}})
	if answer := r.outcome(&MakeDirectory{Path: pathOf("/local/more")}); answer.Status != outcome.PreconditionFailed {
		t.Errorf("a directory more: %s", answer)
	}
	r.start(reread(t, r.machine))
	n = r.machine.nodes[n.id]
	if r.machine.limits.State != 1 {
		t.Fatalf("the limit is %d", r.machine.limits.State)
	}

	less := func(what string, do func()) {
		t.Helper()
		before := r.machine.Used()
		do()
		r.applyAll()
		if used := r.machine.Used(); used >= before {
			t.Errorf("%s: %d bytes are used, %d before", what, used, before)
		}
		if err := r.machine.Check(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	again := func(session SessionID, a AttachRequest) StreamID {
		t.Helper()
		r.said()
		a.Session, a.SeqNo = session, uint64(r.index)
		stream := r.open(a)
		r.applyAll()
		r.expect(fmt.Sprintf("%d attached %d", stream, session))
		return stream
	}
	stream = again(1, AttachRequest{Path: "/local/a", TimeoutMillis: 2000})
	longer := described
	longer.TimeoutMillis, longer.Description = 1000, "a longer description than it was"
	second = again(sessionOfSecond, longer)
	if s := n.sessions[sessionOfSecond]; s.description != "a description" || s.timeoutMillis != 1000 {
		t.Errorf("the session is described as %q", s.description)
	}
	r.leader.Detach(r.now, second)
	less("a shorter description", func() {
		second = again(sessionOfSecond, AttachRequest{Path: "/local/a", TimeoutMillis: 60_000,
			Description: "d"})
	})
	less("shorter data", func() { r.request(stream, 11, updateLock("dat")) })
	less("fewer tokens, less data", func() {
		r.request(stream, 12, Request{Kind: RequestAcquire, Name: "other", Count: 1, Data: []byte("o")})
	})
	less("a wait that runs out", func() {
		r.pass(1000)
		r.tick()
	})
	r.said()
	r.request(stream, 13, Request{Kind: RequestDescribe, Name: "other", IncludeOwners: true, WatchData: true})
	r.expect(fmt.Sprintf("%d #13 described", stream))
	less("release", func() { r.request(stream, 14, Request{Kind: RequestRelease, Name: "e1"}) })
	less("release that lets a waiter in", func() {
		r.request(stream, 15, Request{Kind: RequestRelease, Name: "e2"})
	})
	less("delete", func() { r.request(stream, 16, Request{Kind: RequestDelete, Name: "lock"}) })
	less("delete by force", func() {
		r.request(stream, 17, Request{Kind: RequestDelete, Name: "other", Force: true})
	})
	less("stop", func() { r.request(second, 11, Request{Kind: RequestStop}) })
	r.leader.Detach(r.now, stream)
	less("expiry", func() {
		r.pass(100_000)
		r.tick()
	})
	if len(n.sessions) != 0 {
		t.Errorf("%d sessions are left", len(n.sessions))
	}
	r.said()
	less("fewer permissions", func() {
		r.run(&ModifyPermissions{Path: pathOf("/local/a"), Change: scheme.PermissionsChange{Clear: true}})
	})
	less("a node less", func() { r.run(&DropNode{Path: pathOf("/local/dir/b")}) })
	less("a directory less", func() { r.run(&RemoveDirectory{Path: pathOf("/local/empty")}) })
	less("a user less", func() { r.run(&RemoveUser{Name: "bob"}) })
	r.run(&SetPassword{Name: "root", PasswordHash: "same"})
	r.run(&AlterNode{Path: pathOf("/local/a"), Config: NodeConfig{SessionGracePeriodMillis: 5000}})
	r.run(&CreateNode{Path: pathOf("/local/a")})      // it is there
	r.run(&MakeDirectory{Path: pathOf("/local/dir")}) // the same
	r.run(&RotateSigningKey{Secret: []byte("secret")})
	r.run(&RotateSigningKey{Secret: []byte("secret"), After: accounts.Position{Index: uint64(r.index)},
		DropBeforeMillis: Infinite})
	r.run(&SetLimits{Limits: StateLimits{State: 1 << 20}})
	r.run(&MakeDirectory{Path: pathOf("/local/more")})
}

func tryLockOf(name string) Request {
	return Request{Kind: RequestAcquire, Name: name, Count: Infinite, Ephemeral: true}
}

// reread is a machine that was read from all rows of another.
func reread(t *testing.T, m *Machine) *Machine {
	t.Helper()
	restored := restoredFrom(t, m.AllRows())
	if restored.Used() != m.Used() {
		t.Fatalf("restored with %d bytes, it had %d", restored.Used(), m.Used())
	}
	return restored
}

// Whatever comes, when it is gone nothing of it is counted.
func TestNothingStaysCounted(t *testing.T) {
	r := newRig(t)
	empty := r.machine.Used()
	if want := uint64(2*rowBytes + len("local") + len(scheme.RootOwner)); empty != want {
		t.Errorf("an empty state counts %d bytes, want %d", empty, want)
	}
	r.createNode("/local/a", relaxed)
	stream, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Description: "d",
		ProtectionKey: "k"})
	r.request(stream, 1, createLock)
	r.request(stream, 2, tryLock)
	r.applyAll()
	r.run(&DropNode{Path: pathOf("/local/a")})
	if used := r.machine.Used(); used != empty {
		t.Errorf("%d bytes are counted, %d at first", used, empty)
	}
}

func TestSetLimits(t *testing.T) {
	r := newRig(t)
	want := func(limits StateLimits) {
		t.Helper()
		if got := r.machine.Limits(); got != limits {
			t.Errorf("limits %+v, want %+v", got, limits)
		}
	}
	want(StateLimits{})
	first := &SetLimits{Limits: StateLimits{State: 5000, Sessions: 3}, OnlyFirst: true}
	r.run(first)
	want(StateLimits{State: 5000, Sessions: 3})
	r.run(&SetLimits{Limits: StateLimits{State: 6000}, OnlyFirst: true}) // as another server is configured
	want(StateLimits{State: 5000, Sessions: 3})
	r.run(&SetLimits{Limits: StateLimits{State: 7000, NodeBytes: 4, Semaphores: 2}})
	want(StateLimits{State: 7000, NodeBytes: 4, Sessions: 3, Semaphores: 2})
	r.start(reread(t, r.machine))
	want(StateLimits{State: 7000, NodeBytes: 4, Sessions: 3, Semaphores: 2})
	r.run(&AddUser{Name: "root", PasswordHash: "hash"})
	r.run(&AddUser{Name: "bob", PasswordHash: "hash"})
	for subject, status := range map[string]outcome.Status{"": outcome.Unauthorized,
		"bob": outcome.Unauthorized, "root": outcome.Success} {
		answer := r.outcome(&SetLimits{Caller: Caller{Subject: subject, Enforced: true},
			Limits: StateLimits{State: 8000}})
		if answer.Status != status {
			t.Errorf("set by %q: %s", subject, answer)
		}
	}
	want(StateLimits{State: 8000, NodeBytes: 4, Sessions: 3, Semaphores: 2})
	// the limit of links came later than the others
	r.run(&SetLimits{Limits: StateLimits{State: 9000, Links: 5}, OnlyFirst: true})
	want(StateLimits{State: 8000, NodeBytes: 4, Sessions: 3, Semaphores: 2, Links: 5})
	r.run(&SetLimits{Limits: StateLimits{Links: 6}, OnlyFirst: true})
	want(StateLimits{State: 8000, NodeBytes: 4, Sessions: 3, Semaphores: 2, Links: 5})
	r.start(reread(t, r.machine))
	want(StateLimits{State: 8000, NodeBytes: 4, Sessions: 3, Semaphores: 2, Links: 5})
}

// Links come back to a session's account when they end, in whatever way.
func TestLinksOfASession(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/n", relaxed)
	holder, _ := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 10_000})
	stream, _ := r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 10_000})
	r.request(holder, 1, Request{Kind: RequestCreate, Name: "door", Limit: 1})
	r.request(holder, 2, Request{Kind: RequestAcquire, Name: "door", Count: 1})
	r.applyAll()
	r.request(stream, 1, Request{Kind: RequestAcquire, Name: "door", Count: 1, TimeoutMillis: 5000})
	r.request(stream, 2, tryLock)
	r.applyAll()
	r.run(&SetLimits{Limits: StateLimits{Links: 1}}) // the session keeps what is above the limit
	r.said()
	other := Request{Kind: RequestAcquire, Name: "other", Count: 1, Ephemeral: true}
	refused := func(sequence Sequence, text string) {
		t.Helper()
		r.request(stream, sequence, other)
		r.applyAll()
		r.expect(fmt.Sprintf("%d #%d %s", stream, sequence, text))
	}
	refused(3, TooManyLinks.Text)
	r.request(holder, 3, Request{Kind: RequestDelete, Name: "door", Force: true})
	r.applyAll()
	r.said()
	refused(4, TooManyLinks.Text)
	r.request(stream, 5, release)
	r.applyAll()
	r.said()
	refused(6, "done true")
}

// Two servers with other limits of their own that execute the same log have the same state.
func TestOwnLimitsDecideNothing(t *testing.T) {
	small, err := NewMachine("/local", Limits{State: 1, Sessions: 1, Semaphores: 1, Bytes: 1, Described: 1})
	if err != nil {
		t.Fatal(err)
	}
	usual, err := NewMachine("/local", DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	origin := func(session SessionID) Origin {
		return Origin{Node: 1, Session: session, Address: Address{Epoch: Epoch{1, uint64(session)}}}
	}
	for i, c := range []Command{
		&CreateNode{Path: pathOf("/local/a")}, &Attach{Node: 1, Epoch: Epoch{1, 1}},
		&Attach{Node: 1, Epoch: Epoch{1, 2}},
		&CreateSemaphore{Origin: origin(1), Name: "a", Limit: 1, Data: []byte("data")},
		&CreateSemaphore{Origin: origin(1), Name: "b", Limit: 1},
		&AcquireSemaphore{Origin: origin(2), Name: "c", Count: 1, Ephemeral: true},
		&AddUser{Name: "root", PasswordHash: "hash"}, &SetLimits{Limits: StateLimits{State: 4000}},
		&MakeDirectory{Path: pathOf("/local/d")},
	} {
		one, other := fmt.Sprint(small.Apply(Index(i+1), 1, c)), fmt.Sprint(usual.Apply(Index(i+1), 1, c))
		if one != other || small.Digest() != usual.Digest() || small.Used() != usual.Used() {
			t.Fatalf("%#v: one server says %s, the other %s", c, one, other)
		}
	}
	if n := usual.nodes[1]; len(n.sessions) != 2 || len(n.semaphores) != 3 {
		t.Errorf("%d sessions, %d semaphores", len(n.sessions), len(n.semaphores))
	}
}

// What a server is configured with is proposed where it is not what counts anyway.
func TestProposedLimits(t *testing.T) {
	if got := DefaultLimits().Proposed(); got != (StateLimits{}) {
		t.Errorf("by default %+v", got)
	}
	limits := Limits{State: 9, Links: 5, Sessions: 1, Semaphores: 2, Bytes: 3, Described: 4}
	if got, want := limits.Proposed(), (StateLimits{State: 9, NodeBytes: 3, Sessions: 1,
		Semaphores: 2, Links: 5}); got != want {
		t.Errorf("%+v gives %+v, want %+v", limits, got, want)
	}
}
