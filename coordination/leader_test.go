package coordination

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// A relaxed attach leaves no entry if it changes nothing durable and no other stream can claim the session
// (§4.5).
func TestUnloggedAttach(t *testing.T) {
	start := AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Description: "d", Server: 1}
	end := func(r *rig) { r.leader.Detach(r.now, 1) }
	change := func(change func(*AttachRequest)) AttachRequest {
		again := start
		change(&again)
		return again
	}
	for name, c := range map[string]struct {
		config NodeConfig
		before func(r *rig) // the first stream and its leader
		again  AttachRequest
		logged bool
	}{
		"nothing changes":         {relaxed, end, start, false},
		"a later sequence number": {relaxed, end, change(func(a *AttachRequest) { a.SeqNo = 7 }), false},
		"a strict node":           {NodeConfig{AttachConsistencyMode: ConsistencyStrict}, end, start, true},
		"a node without a mode":   {NodeConfig{}, end, start, true},
		"another timeout":         {relaxed, end, change(func(a *AttachRequest) { a.TimeoutMillis = 1001 }), true},
		"another description":     {relaxed, end, change(func(a *AttachRequest) { a.Description = "e" }), true},
		"a request in flight":     {relaxed, func(r *rig) { r.request(1, 1, tryLock); end(r) }, start, true},
		"a request of the past": {relaxed, func(r *rig) { r.request(1, 1, tryLock); r.applyAll(); end(r) },
			start, false},
		"a describe": {relaxed,
			func(r *rig) { r.request(1, 1, Request{Kind: RequestDescribe, Name: "lock"}); end(r) }, start, false},
		"another stream has it": {relaxed, func(*rig) {}, start, true},
		"its relay is lost":     {relaxed, func(r *rig) { r.forward(1, Forward{Lost: true}) }, start, true},
		"its relay is lost, then it ends": {relaxed,
			func(r *rig) { r.forward(1, Forward{Lost: true}); end(r) }, start, true},
		"it was turned away":    {relaxed, func(r *rig) { r.leader.TurnAway(r.now, 1, DiskFull) }, start, true},
		"under the next leader": {relaxed, func(r *rig) { r.lead() }, start, true},
		"resumed there, and ended": {relaxed, func(r *rig) {
			roster := r.roster(1)
			r.lead()
			r.leader.Resume(r.now, 1, roster)
			end(r)
		}, start, false},
		"attached there, and ended": {relaxed, func(r *rig) {
			r.lead()
			stream, _ := r.attach(change(func(a *AttachRequest) { a.Session = 1 }))
			r.leader.Detach(r.now, stream)
		}, start, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.createNode("/local/a", c.config)
			_, c.again.Session = r.attach(start)
			c.before(r)
			r.said()
			before := len(r.inFlight)
			r.open(c.again)
			if logged := len(r.inFlight) > before; logged != c.logged {
				t.Fatalf("logged: %v", logged)
			}
			r.applyAll()
			if said := r.said(); said[len(said)-1] != fmt.Sprint(r.streams, " attached 1") {
				t.Errorf("said %q", said)
			}
			if c.again.SeqNo > 0 {
				c.again.SeqNo--
				r.open(c.again)
				r.expect("3 end Attach request is out of sequence")
			}
		})
	}
}

// While the end of a session is in flight nobody may attach past the log: the session would be gone under the
// stream.
func TestAttachBehindAnExpiry(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", relaxed)
	stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.leader.Detach(r.now, stream)
	r.pass(1000)
	if r.tick() != 1 {
		t.Fatal("no expiry")
	}
	r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session})
	r.expect()
	r.applyAll()
	r.expect("2 end Session has expired")
}

// An attach that was proposed first makes the expiry void.
func TestExpiryBehindAnAttach(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.leader.Detach(r.now, stream)
	r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session})
	r.pass(1000)
	if r.tick() != 1 {
		t.Fatal("no expiry")
	}
	r.applyAll()
	r.expect("2 attached 1")
	r.request(2, 1, tryLock)
	r.applyAll()
	r.expect("2 #1 done true")
}

// The same, but the newcomer went away: the session gets its whole timeout again and then ends.
func TestExpiryBehindAnAbandonedAttach(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.leader.Detach(r.now, stream)
	newcomer := r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 3000, Session: session})
	r.leader.Detach(r.now, newcomer)
	r.pass(1000)
	r.tick()
	r.applyAll()
	r.expect()
	if got, want := r.leader.NextDeadline(), r.now.After(3000); got != want {
		t.Errorf("next deadline %d, want %d", got, want)
	}
	r.pass(3000)
	r.tick()
	r.applyAll()
	if len(r.machine.nodes[1].sessions) != 0 {
		t.Error("the session lives")
	}
}

// Decisions of an older leader do not count, even if they reach the log in time.
func TestExpiriesOfAnotherTermAreVoid(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	owner, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(owner, 1, tryLock)
	waiter, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 10_000})
	r.request(waiter, 1, waitLock)
	r.applyAll()
	r.leader.Detach(r.now, owner)
	r.pass(5000)
	r.tick()
	late := r.inFlight
	if len(late) != 2 {
		t.Fatalf("in flight: %v", late)
	}
	r.said()
	r.lead()
	slices.Reverse(late) // the wait first: the session's end would make it an ownership
	for _, c := range late {
		r.applyForeign(r.term, c) // the older term's word in an entry of this term
	}
	n := r.machine.nodes[1]
	if len(n.sessions) != 2 || n.semaphores["lock"].waiters.length != 1 {
		t.Error("an older leader's expiry was carried out")
	}
	for _, c := range late {
		switch c := c.(type) {
		case *ExpireSession:
			c.Term = r.term
		case *ExpireWaiter:
			c.Term = r.term
		}
		r.applyForeign(r.term, c)
	}
	if len(n.sessions) != 1 || len(n.semaphores) != 0 {
		t.Error("this leader's expiry was not carried out")
	}
}

// A wait that has become another one, an ownership, or nothing, is not ended by the old wait's deadline.
func TestVoidExpiriesOfWaits(t *testing.T) {
	again := waitLock
	again.TimeoutMillis = 7000
	cases := []struct {
		name string
		then func(r *rig, owner, waiter StreamID)
		want []string
	}{
		{"superseded", func(r *rig, _, waiter StreamID) { r.request(waiter, 2, again) },
			[]string{"2 #1 Operation superseded by another request", "2 #2 pending"}},
		{"granted", func(r *rig, owner, _ StreamID) { r.request(owner, 2, release) },
			[]string{"1 #2 done true", "2 #1 done true"}},
		{"left", func(r *rig, _, waiter StreamID) { r.request(waiter, 2, release) },
			[]string{"2 #1 Operation superseded by another request", "2 #2 done true"}},
		{"left and queued again", func(r *rig, _, waiter StreamID) {
			r.request(waiter, 2, release)
			r.request(waiter, 3, again)
		},
			[]string{"2 #1 Operation superseded by another request", "2 #2 done true", "2 #3 pending"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.createNode("/local/a", NodeConfig{})
			owner, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 60_000})
			r.request(owner, 1, tryLock)
			waiter, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 60_000})
			r.request(waiter, 1, waitLock)
			r.applyAll()
			r.said()
			c.then(r, owner, waiter) // in flight when the deadline comes
			r.pass(5000)
			if r.tick() != 1 {
				t.Fatal("no expiry")
			}
			r.applyAll()
			r.expect(c.want...)
		})
	}
}

// A wait that runs out is answered "not acquired", and lets those behind it in.
func TestWaitRunsOut(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	a, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 60_000})
	r.request(a, 1, Request{Kind: RequestCreate, Name: "door", Limit: 3})
	r.request(a, 2, Request{Kind: RequestAcquire, Name: "door", Count: 2})
	b, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 60_000})
	r.request(b, 1, Request{Kind: RequestAcquire, Name: "door", Count: 2, TimeoutMillis: 1000})
	c, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 60_000})
	r.request(c, 1, Request{Kind: RequestAcquire, Name: "door", Count: 1, TimeoutMillis: 2000})
	r.applyAll()
	r.said()
	r.pass(1000)
	r.tick()
	r.applyAll()
	r.expect("2 #1 done false", "3 #1 done true")
	if r.leader.NextDeadline() != Never {
		t.Error("a deadline is left")
	}
}

// A client that went away before it knew its new session leaves none behind (§2.9).
func TestAbandonedNewSession(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	stream := r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.leader.Detach(r.now, stream)
	r.applyOne()
	if len(r.machine.nodes[1].sessions) != 1 || len(r.inFlight) != 1 {
		t.Fatalf("%d sessions, in flight: %v", len(r.machine.nodes[1].sessions), r.inFlight)
	}
	r.applyAll()
	r.expect()
	if len(r.machine.nodes[1].sessions) != 0 || len(r.leader.attaching) != 0 || len(r.leader.streams) != 0 ||
		r.leader.NextDeadline() != Never {
		t.Error("something is left of it")
	}
}

// A refusal that no stream waits for any more is not sent.
func TestAbandonedRefusedAttach(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	first, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(first, 1, Request{Kind: RequestStop})
	second := r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session, Server: 2})
	r.leader.Detach(r.now, second)
	r.applyAll()
	r.expect("1 stopped 1")
	if len(r.leader.attaching) != 0 {
		t.Error("the attachment is remembered")
	}
}

// Of two streams that want the same session while the first attach is still in the log's pipeline, the older
// sequence number loses at once, the newer one takes over (§2.5).
func TestAttachWhileAnotherIsAttaching(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	_, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session, SeqNo: 5})
	r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session, SeqNo: 4})
	r.expect("3 end Attach request is out of sequence")
	r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session, SeqNo: 6, Server: 9})
	r.applyAll()
	r.expect("1 end Session stolen by another local client", "2 attached 1",
		"2 end Session stolen by another remote client", "4 attached 1")
}

// While a session is being stopped, a stream of the same server and path is refused at once, and one of another server
// gets the outcome of its command.
func TestAttachWhileStopping(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	first, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(first, 1, Request{Kind: RequestStop})
	r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session})
	r.expect("2 end Session is already being destroyed")
	r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session, Server: 2})
	r.applyAll()
	r.expect("1 stopped 1", "3 end Session has expired")
}

// A session that another stream took over before the stop was carried out does not end (§2.5, session
// checks).
func TestStopBehindATheft(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	first, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session, Server: 2})
	r.request(first, 1, Request{Kind: RequestStop})
	r.applyAll()
	r.expect("1 end Session stolen by another remote client", "2 attached 1")
	if len(r.machine.nodes[1].sessions) != 1 {
		t.Error("the session is gone")
	}
}

// A node that is dropped takes its streams with it, those still attaching included (§1.3).
func TestDropWhileAttaching(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	attached, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(attached, 1, tryLock)
	detached, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.leader.Detach(r.now, detached)
	r.applyAll()
	r.said()
	r.call(&DropNode{Path: scheme.SplitLoose("/local/a")})
	r.request(attached, 2, release)
	r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session})
	gone := r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.leader.Detach(r.now, gone)
	r.applyAll()
	r.expect("1 end Link failure", "3 end Kesus not found", "4 end Kesus not found")
	if r.leader.NextDeadline() != Never ||
		len(r.leader.nodes)+len(r.leader.streams)+len(r.leader.attaching) != 0 {
		t.Error("something is left")
	}
	r.leader.Detach(r.now, attached) // its Front may still say so
	r.request(attached, 3, tryLock)
	r.expect()
	r.open(AttachRequest{Path: "/local/a"})
	r.expect("6 end Kesus not found")
}

func TestCallsAreAnswered(t *testing.T) {
	r := newRig(t)
	first, second := CallID{1}, CallID{2}
	r.call(&MakeDirectory{CallID: first, Path: scheme.SplitLoose("/local/d")})
	r.call(&RemoveDirectory{CallID: second, Path: scheme.SplitLoose("/local/e")})
	r.applyAll()
	if len(r.calls) != 2 || r.calls[0].Call != first || !r.calls[0].Outcome.OK() ||
		r.calls[1].Call != second || r.calls[1].Outcome.OK() {
		t.Errorf("%+v", r.calls)
	}
	r.applyForeign(r.term, nil) // an entry without a command
	if r.leader.Term() != r.term {
		t.Error("wrong term")
	}
}

// Answers go to the stream that asked, or to nobody: not to the stream that has taken the session over.
func TestAnswersToAStolenSession(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	owner, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(owner, 1, tryLock)
	waiter, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(waiter, 1, waitLock)
	r.applyAll()
	r.said()
	thief := r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session})
	r.request(owner, 2, release)
	r.applyAll()
	r.expect("2 end Session stolen by another local client", "3 attached 2", "1 #2 done true")
	r.request(thief, 1, tryLock)
	r.applyAll()
	r.expect("3 #1 done true")
	if got := r.machine.nodes[1].semaphores["lock"].owners.first.order; got != 2 {
		t.Errorf("order id %d, want the waiter's", got)
	}
}

// Requests that fail their immediate checks leave no entry (§3.2 to §3.4).
func TestImmediateChecks(t *testing.T) {
	long := string(slices.Repeat([]byte("n"), MaxSemaphoreNameBytes+1))
	data := make([]byte, MaxSemaphoreDataBytes+1)
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	stream, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	for i, c := range []struct {
		request Request
		want    *Refusal
	}{
		{Request{Kind: RequestCreate, Name: "s"}, LimitZero},
		{Request{Kind: RequestCreate, Name: long, Limit: 1}, NameTooLong},
		{Request{Kind: RequestCreate, Name: "s", Limit: 1, Data: data}, SemaphoreDataTooLarge},
		{Request{Kind: RequestUpdate, Name: long}, NameTooLong},
		{Request{Kind: RequestUpdate, Name: "s", Data: data}, SemaphoreDataTooLarge},
		{Request{Kind: RequestAcquire, Name: "s"}, CountZero},
		{Request{Kind: RequestAcquire, Name: "s", Count: 1, TimeoutMillis: MaxAcquireTimeoutMillis + 1},
			AcquireTimeoutRange},
		{Request{Kind: RequestAcquire, Name: "s", Count: 1,
			TimeoutMillis: Infinite - 1}, AcquireTimeoutRange},
		{Request{Kind: RequestAcquire, Name: "s", Count: 1, Data: data}, AcquireDataTooLarge},
		{Request{Kind: RequestCreate, Name: long[1:], Limit: 1, Data: data[1:]}, nil},
		{Request{Kind: RequestUpdate, Name: long[1:], Data: data[1:]}, nil},
		{Request{Kind: RequestAcquire, Name: long[1:], Count: 1, TimeoutMillis: MaxAcquireTimeoutMillis,
			Data: data[1:]}, nil},
		{Request{Kind: RequestAcquire, Name: long, Count: 1,
			TimeoutMillis: Infinite, Ephemeral: true}, nil},
		{Request{Kind: RequestDelete, Name: long + "n"}, SemaphoreMissing},
	} {
		r.request(stream, Sequence(i+1), c.request)
		r.applyAll()
		if len(r.messages) == 0 || r.messages[0].Refusal != c.want {
			t.Errorf("case %d: %q", i, r.said())
		}
		r.messages = nil
	}
}

// A stream that is turned away ends, and its session goes on as when the stream breaks; one that was
// attaching leaves no session behind.
func TestTurnAway(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	refusal := &Refusal{outcome.Unavailable, "full"}
	stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.leader.TurnAway(r.now, stream, refusal)
	r.applyAll()
	r.expect("1 end full")
	if r.leader.NextDeadline() == Never || len(r.machine.nodes[1].sessions) != 1 {
		t.Error("the session does not run out, or is gone at once")
	}
	r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session, SeqNo: 1})
	r.applyAll()
	r.expect("2 attached 1")
	attaching := r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.leader.TurnAway(r.now, attaching, refusal)
	r.applyAll()
	r.expect("3 end full")
	r.leader.TurnAway(r.now, 4, refusal) // before it was attached
	r.applyAll()
	r.expect("4 end full")
	if len(r.machine.nodes[1].sessions) != 1 || len(r.leader.streams) != 1 || len(r.leader.attaching) != 0 {
		t.Error("something is left of the streams")
	}
}
