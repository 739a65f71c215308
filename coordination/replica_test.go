package coordination

import (
	"slices"
	"testing"

	"github.com/coordd/coordd/scheme"
)

// follower is a rig whose server does not lead, with a node.
func follower(t *testing.T) *rig {
	r := newRig(t)
	r.createNode("/local/n", relaxed)
	r.replica.Following()
	r.take()
	return r
}

// commit passes the next entry of the log to the replica.
func (r *rig) commit(term Term, c Command) {
	r.index++
	r.replica.Committed(r.now, entryOf(r.index, term, c))
}

// A server serves once it has applied the first entry of its own term, and not on one that an earlier leader
// has left. Each time it serves is another reign.
func TestServesBehindItsOwnEntry(t *testing.T) {
	r := follower(t)
	if r.replica.Reign() != 0 || r.replica.Term() != 0 || r.replica.NextDeadline() != Never {
		t.Fatal("it serves before it leads")
	}
	r.replica.Leading(7, 0)
	r.commit(6, &MakeDirectory{Path: scheme.SplitLoose("/local/left")})
	if r.replica.Reign() != 0 || !r.replica.Elected() {
		t.Fatal("it serves on an entry of another term")
	}
	r.commit(7, nil)
	if r.replica.Reign() != 2 || r.replica.Term() != 7 || r.replica.Elected() {
		t.Fatalf("reign %d of term %d behind its own entry", r.replica.Reign(), r.replica.Term())
	}
	r.replica.Leading(8, 0)
	r.replica.Following()
	r.commit(8, nil)
	if r.replica.Reign() != 0 {
		t.Fatal("it serves although it follows")
	}
}

// A log that was restored moves the counters before anything else of the term.
func TestLineageComesFirst(t *testing.T) {
	r := follower(t)
	r.replica.Leading(7, 99)
	r.commit(7, nil)
	r.replica.Call(r.now, CallID{1}, makeA(1), r.index, false)
	commands := r.replica.Take().Commands
	if len(commands) != 2 || commands[0].(*BeginLineage).Lineage != 99 {
		t.Errorf("proposed %v", commands)
	}
}

// A message for an earlier leader is void, and so is one without a leader; the answers of one go nowhere.
func TestVoidReign(t *testing.T) {
	r := follower(t)
	attach := Forward{Attach: &AttachRequest{Path: "/local/n", TimeoutMillis: 5000}}
	r.replica.Forward(r.now, 0, 1, 1, attach)
	r.lead()
	r.replica.Forward(r.now, r.replica.Reign()-1, 2, 2, attach)
	r.replica.Forward(r.now, r.replica.Reign()+1, 3, 3, attach)
	r.replica.Forward(r.now, 0, 4, 4, attach)
	if r.take(); len(r.inFlight) != 0 || len(r.messages) != 0 {
		t.Fatalf("in flight: %v, said: %v", r.inFlight, r.messages)
	}
	r.forward(5, attach)
	r.replica.Following()
	r.lead()
	if _, known := r.replica.Sink(&Message{Stream: 5, Kind: MessageAttached}); known {
		t.Error("a stream of an earlier reign is known")
	}
}

// A stream's sink is known from its start to its end.
func TestSinks(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(r *rig)
		kind MessageKind
	}{
		"ended":    {func(*rig) {}, MessageEnd},
		"stopped":  {func(*rig) {}, MessageStopped},
		"detached": {func(r *rig) { r.forward(1, Forward{Detach: true}) }, 0},
	} {
		r := newRig(t)
		r.createNode("/local/n", relaxed)
		r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
		known := func(kind MessageKind) bool {
			sink, known := r.replica.Sink(&Message{Stream: 1, Kind: kind})
			return known && sink == 1
		}
		if !known(MessageResult) || !known(MessagePending) {
			t.Errorf("%s: a stream that goes on is not known", name)
		}
		if test.end(r); test.kind != 0 && !known(test.kind) {
			t.Errorf("%s: the last message goes nowhere", name)
		}
		if known(MessageResult) {
			t.Errorf("%s: still known", name)
		}
	}
}

// ends takes the answers to calls, as they end.
func (r *rig) ends() (ends []CallEnd, waiters []CallID) {
	for _, a := range r.replica.Take().Answers {
		ends, waiters = append(ends, a.End), append(waiters, a.Waiter)
	}
	return ends, waiters
}

// Each waiter of a call gets its end once, whatever it is, in a deterministic order.
func TestEndsOfCalls(t *testing.T) {
	r := follower(t)
	r.replica.Call(r.now, CallID{9}, makeA(9), r.index, false)
	if ends, _ := r.ends(); !slices.Equal(ends, []CallEnd{CallNotLed}) {
		t.Errorf("without a leader: %v", ends)
	}
	r.lead()
	var want []CallID
	for nonce := uint64(40); nonce > 0; nonce-- {
		r.replica.Call(r.now, CallID{nonce}, makeA(nonce), r.index, false)
		want = append([]CallID{{nonce}}, want...)
	}
	r.replica.Call(r.now, CallID{1}, makeA(1), r.index, false) // somebody else waits, too
	want = append([]CallID{{1}}, want...)
	r.replica.Following()
	ends, waiters := r.ends()
	if !slices.Equal(waiters, want) || slices.ContainsFunc(ends,
		func(e CallEnd) bool { return e != CallLost }) {
		t.Errorf("lost: %v of %v", ends, waiters)
	}
	r.lead()
	if ends, _ := r.ends(); ends != nil {
		t.Errorf("told twice: %v", ends)
	}
}

// What cannot be read by every server, or makes a state larger for which there is no room, is refused; what
// was executed before is still answered, and what makes the state smaller is done.
func TestAdmission(t *testing.T) {
	start := func() *rig {
		r := newRig(t)
		r.replica.admission.formats = Formats{Version: 2, Since: func(c Command) uint64 {
			if _, is := c.(*CreateSemaphore); is {
				return 2
			}
			return 1
		}}
		r.replica.Admit(2, false)
		r.createNode("/local/n", relaxed)
		r.attach(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
		return r
	}
	create := Request{Kind: RequestCreate, Name: "s", Limit: 1}
	describe := Request{Kind: RequestDescribe, Name: "s"}
	for _, test := range []struct {
		readable uint64
		crowded  bool
		request  Request
		refusal  *Refusal
	}{
		{2, false, create, nil}, {1, false, create, NotYetReadable}, {1, false, tryLock, nil},
		{1, true, create, NotYetReadable},
		{0, false, create, ReadabilityUnknown}, {0, false, tryLock, nil},
		{0, true, create, ReadabilityUnknown}, {0, true, tryLock, DiskFull}, {2, true, create, DiskFull},
		{2, true, tryLock, DiskFull}, {2, true, release, nil}, {1, true, describe, nil},
		{2, true, Request{Kind: RequestUpdate}, DiskFull}, {2, true, Request{Kind: RequestDelete}, nil},
		{2, true, Request{Kind: RequestStop}, nil},
	} {
		r := start()
		r.replica.Admit(test.readable, test.crowded)
		r.request(1, 1, test.request)
		away := len(r.messages) == 1 && r.messages[0].Kind == MessageEnd
		if away != (test.refusal != nil) || away && r.messages[0].Refusal != test.refusal {
			t.Errorf("%+v: %v", test, r.messages)
		}
	}
	r := start()
	r.answers()
	since := r.index
	r.call(makeA(1))
	r.applyAll()
	r.replica.Admit(2, true)
	r.call(makeA(2))
	r.repeat(makeA(1), since)
	r.call(removeA(3))
	r.applyAll()
	r.wantAnswers("1 SUCCESS", "2 UNAVAILABLE", "1 SUCCESS", "3 SUCCESS")
	r.open(AttachRequest{Path: "/local/n"})
	r.expect("2 end " + DiskFull.Text)
	r.open(AttachRequest{Path: "/local/n", Session: 1, TimeoutMillis: 5000})
	r.applyAll()
	r.expect("1 end "+StolenByLocalClient.Text, "3 attached 1")
}

// Entries that are part of another member's state are passed over; those behind it are not, and a log that
// goes back is a broken invariant.
func TestRestoredState(t *testing.T) {
	ahead := newRig(t)
	ahead.createNode("/local/n", relaxed)
	r := newRig(t)
	r.replica.Following()
	r.replica.Restored(ahead.machine)
	if last := ahead.machine.Index(); !r.replica.Covered(last) || r.replica.Covered(last+1) {
		t.Fatal("another part of the log is covered than what came")
	}
	if effects := r.replica.Committed(r.now, entryOf(2, 1, makeA(1))); effects != nil ||
		ahead.machine.Index() != r.replica.Machine().Index() {
		t.Error("an entry was executed that is part of the state")
	}
	r.replica.Committed(r.now, entryOf(ahead.index+1, 1, makeA(1)))
	defer func() {
		if recover() == nil {
			t.Error("an entry that came twice was passed over")
		}
	}()
	r.replica.Committed(r.now, entryOf(ahead.index+1, 1, makeA(1)))
}
