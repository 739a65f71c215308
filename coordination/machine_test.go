package coordination

import (
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/scheme"
)

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("no panic: %s", what)
		}
	}()
	f()
}

type strangeCommand struct{ Command }

func TestBrokenContractsPanic(t *testing.T) {
	r := newRig(t)
	mustPanic(t, "the log goes back", func() { r.machine.Apply(r.index, r.term, nil) })
	mustPanic(t, "an unknown command", func() { r.machine.Apply(r.index+1, r.term, strangeCommand{}) })
	mustPanic(t, "a request without a kind", func() { new(Request).command(Origin{}) })
}

func TestDatabaseMustBeAPath(t *testing.T) {
	for _, database := range []string{"", "/", "/local/..", strings.Repeat("/a", 100)} {
		if _, err := NewMachine(database, DefaultLimits()); err == nil {
			t.Errorf("%q is accepted", database)
		}
		if _, err := NewRestorer(database, DefaultLimits()); err == nil {
			t.Errorf("%q is accepted by the restorer", database)
		}
	}
}

// Exactly the limit is accepted; the counts are those of what exists, not of what ever existed.
func TestCountLimits(t *testing.T) {
	r := newRig(t)
	r.machine.limits = StateLimits{Sessions: 2, Semaphores: 2}
	r.createNode("/local/a", NodeConfig{})
	first, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	second, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.applyAll()
	r.expect("3 end Too many sessions already exist")

	r.request(first, 1, createLock)
	r.request(first, 2, Request{Kind: RequestAcquire, Name: "e", Count: 1, Ephemeral: true})
	r.request(first, 3, Request{Kind: RequestCreate, Name: "third", Limit: 1})
	r.request(first, 4, Request{Kind: RequestAcquire, Name: "f", Count: 1, Ephemeral: true})
	// it is there already
	r.request(second, 1, Request{Kind: RequestAcquire, Name: "e", Count: 1, Ephemeral: true})
	r.request(second, 2, Request{Kind: RequestStop})
	r.request(first, 5, Request{Kind: RequestRelease, Name: "e"})
	r.request(first, 6, Request{Kind: RequestCreate, Name: "third", Limit: 1})
	r.applyAll()
	r.expect("1 #1 done false", "1 #2 done true", "1 #3 Too many semaphores already exist",
		"1 #4 Too many semaphores already exist", "2 #1 done true", "2 stopped 2", "1 #5 done true",
		"1 #6 done false")
	r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.applyAll()
	r.expect("4 attached 3")
}

// The checks of an attach that need no log, in their order (§2.3): each case passes all that come before it.
func TestAttachChecks(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	first, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, SeqNo: 5,
		ProtectionKey: "key"})
	r.leader.Detach(r.now, first)
	const a = "/local/a"
	long := strings.Repeat("x", MaxDescriptionBytes+1)
	for i, c := range []struct {
		start AttachRequest
		want  *Refusal
	}{
		{AttachRequest{Path: "", TimeoutMillis: Infinite}, PathEmpty},
		{AttachRequest{Path: "//", TimeoutMillis: Infinite}, PathEmpty},
		{AttachRequest{Path: "/local", TimeoutMillis: Infinite}, NodeNotFound},
		{AttachRequest{Path: "/local/b", TimeoutMillis: Infinite}, NodeNotFound},
		{AttachRequest{Path: a, TimeoutMillis: MaxSessionTimeoutMillis + 1, Description: long},
			SessionTimeoutRange},
		{AttachRequest{Path: a, Description: long, ProtectionKey: long},
			DescriptionTooLarge},
		{AttachRequest{Path: a, ProtectionKey: long[:MaxProtectionKeyBytes+1], Session: 99},
			ProtectionKeyTooLarge},
		{AttachRequest{Path: a, Session: 99, SeqNo: 1, ProtectionKey: "wrong"},
			SessionMissing},
		{AttachRequest{Path: a, Session: session, SeqNo: 4, ProtectionKey: "wrong"}, AttachOutOfSequence},
		{AttachRequest{Path: a, Session: session, SeqNo: 5, ProtectionKey: "wrong"}, ProtectionKeyMismatch},
		{AttachRequest{Path: a, Session: session, SeqNo: 5}, ProtectionKeyMismatch},
		{AttachRequest{Path: "local//a/", Session: session, SeqNo: 5, ProtectionKey: "key"}, nil},
		{AttachRequest{Path: a, TimeoutMillis: MaxSessionTimeoutMillis, Description: long[1:],
			ProtectionKey: long[:MaxProtectionKeyBytes]}, nil},
	} {
		r.open(c.start)
		refused := len(r.messages) > 0 && r.messages[0].Kind == MessageEnd
		if refused != (c.want != nil) || refused && r.messages[0].Refusal != c.want {
			t.Errorf("case %d: %q", i, r.said())
		}
		r.messages = nil
		r.applyAll()
		r.messages = nil
	}
}

// What the leader checked is checked again when the command is applied, against the state of that moment
// (§2.4).
func TestAttachIsCheckedAgain(t *testing.T) {
	r := newRig(t)
	node := r.createNode("/local/a", NodeConfig{})
	_, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, ProtectionKey: "key"})
	for _, c := range []struct {
		command Attach
		want    *Refusal
	}{
		{Attach{Node: node + 1}, NodeNotFound},
		{Attach{Node: node, Session: session + 1}, SessionExpired},
		{Attach{Node: node, Session: session, ProtectionKey: "wrong"}, ProtectionKeyMismatch},
	} {
		r.index++
		effects := r.machine.Apply(r.index, r.term, &c.command)
		if len(effects) != 1 || effects[0].Kind != EffectAttachRefused || effects[0].Refusal != c.want {
			t.Errorf("%+v: %+v", c.command, effects)
		}
		r.leader.Applied(r.now, r.term-1, &c.command, effects) // an older leader's: nobody waits for it here
		r.expect()
	}
}

// If a session ends otherwise than by its stream's wish, the stream is notified.
func TestSessionEndsUnderItsStream(t *testing.T) {
	r := newRig(t)
	node := r.createNode("/local/a", NodeConfig{})
	r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	epoch := r.machine.nodes[node].sessions[1].attachEpoch
	r.applyForeign(r.term, &ExpireSession{Node: node, Session: 1, AttachEpoch: epoch, Term: r.term - 1})
	r.expect()
	r.applyForeign(r.term, &ExpireSession{Node: node + 5, Session: 1, AttachEpoch: epoch, Term: r.term})
	r.expect()
	r.applyForeign(r.term, &ExpireSession{Node: node, Session: 1, AttachEpoch: epoch, Term: r.term})
	r.expect("1 end Session has expired")

	foreign := Epoch{Term: r.term, Counter: 1 << 40}
	r.applyForeign(r.term, &Attach{Node: node, Epoch: foreign})
	r.applyForeign(r.term, &StopSession{Origin: Origin{Node: node, Session: 2, Address: Address{Epoch: foreign}}})
	r.expect() // the leader never knew of it
}

// Semaphores that exist in the other mode.
func TestModesOfSemaphores(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	stream, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(stream, 1, tryLock)
	r.request(stream, 2, createLock)
	r.request(stream, 3, takeLock)
	r.request(stream, 4, Request{Kind: RequestDelete, Name: "lock", Force: true})
	r.request(stream, 5, release)
	r.request(stream, 6, takeLock)
	r.request(stream, 7, createLock)
	r.request(stream, 8, createLock)
	r.request(stream, 9, tryLock)
	r.applyAll()
	r.expect("1 #1 done true", "1 #2 Cannot create semaphore due to ephemeral locks",
		"1 #3 Semaphore ephemeral mode mismatch", "1 #4 Cannot delete ephemeral semaphores", "1 #5 done true",
		"1 #6 Semaphore does not exist", "1 #7 done false", "1 #8 Semaphore already exists",
		"1 #9 Semaphore ephemeral mode mismatch")
}

// The stored configuration and the tree can be read from outside.
func TestReading(t *testing.T) {
	r := newRig(t)
	config := NodeConfig{SelfCheckPeriodMillis: 7}
	id := r.createNode("/local/a", config)
	if got, found := r.machine.Config(id); !found || got != config {
		t.Errorf("%+v, %v", got, found)
	}
	if _, found := r.machine.Config(id + 1); found {
		t.Error("a node that is not there")
	}
	if _, found := r.machine.Tree().Lookup(scheme.SplitLoose("/local/a")); !found ||
		r.machine.Index() != r.index {
		t.Error("tree or index")
	}
}

// Commands say what they are about; those about the path tree are about no node and no session.
func TestSubjects(t *testing.T) {
	origin := Origin{Node: 3, Session: 4}
	for _, c := range []Command{
		&Attach{Node: 3, Session: 4}, &StopSession{Origin: origin}, &ExpireSession{Node: 3, Session: 4},
		&ExpireWaiter{Node: 3, Session: 4},
		&CreateSemaphore{Origin: origin}, &UpdateSemaphore{Origin: origin}, &DeleteSemaphore{Origin: origin},
		&AcquireSemaphore{Origin: origin}, &ReleaseSemaphore{Origin: origin},
	} {
		if node, session := c.subject(); node != 3 || session != 4 {
			t.Errorf("%T is about %d and %d", c, node, session)
		}
	}
	for _, c := range []Command{&CreateNode{}, &AlterNode{}, &DropNode{}, &MakeDirectory{},
		&RemoveDirectory{}, &ModifyPermissions{}} {
		if node, session := c.subject(); node != 0 || session != 0 {
			t.Errorf("%T is about %d and %d", c, node, session)
		}
	}
}

// Ends of a session: what it owns first, then what it waits for, each in ascending order id; a wait of its
// own in front of others lets those in (§3.9).
func TestOrderOfASessionsEnd(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	a, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	b, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	c, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	acquire := func(name string, count uint64) Request {
		return Request{Kind: RequestAcquire, Name: name, Count: count, TimeoutMillis: Infinite}
	}
	for i, name := range []string{"x", "y", "z"} {
		r.request(a, Sequence(i+1), Request{Kind: RequestCreate, Name: name, Limit: 3})
	}
	r.request(b, 1, acquire("y", 2)) // b owns tokens of y: c fits, a does not
	r.request(a, 4, acquire("y", 3)) // a waits in front
	r.request(c, 1, acquire("y", 1)) // c waits behind
	r.request(a, 5, acquire("z", 3))
	r.request(c, 2, acquire("z", 1))
	r.request(a, 6, acquire("x", 3))
	r.request(c, 3, acquire("x", 1))
	r.applyAll()
	r.said()
	r.request(a, 7, Request{Kind: RequestStop})
	r.applyAll()
	r.expect("1 stopped 1", "3 #2 done true", "3 #3 done true", "3 #1 done true")
	var orders []OrderID
	for l := r.machine.nodes[1].sessions[3].links.first; l != nil; l = l.nextOfSession {
		orders = append(orders, l.order)
	}
	if !slices.IsSorted(orders) || len(orders) != 3 {
		t.Errorf("order ids %v", orders)
	}
}
