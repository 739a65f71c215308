package coordination

import "testing"

// TestClaimIsConfirmed makes a stream wait for a leader and join it: it is silent from the first moment on until the
// leader has taken it over, also with a permit.
func TestClaimIsConfirmed(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	r.front.grace = 3000
	r.front.Orphan(r.now)
	r.front.Receive(&ClientMessage{Kind: ClientPing, Opaque: 5})
	for r.now = r.front.Wake(); r.millis() < 1000; r.now = r.front.Wake() { // as somebody with a permit would
		r.front.Tick(r.now)
		if r.expect(); r.front.Queued() != 0 {
			t.Fatal("something is queued without a leader")
		}
	}
	if forward := r.front.Rejoin(); forward.Roster == nil {
		t.Fatalf("forward %+v", forward)
	}
	r.front.Receive(&ClientMessage{Kind: ClientPing, Opaque: 6})
	if r.expect(); r.front.Queued() != 0 {
		t.Error("something is queued for a client that must not hear it")
	}
	r.front.Deliver(r.now, &Message{Kind: MessageResumed})
	r.expect(Reply{Kind: ReplyPong, Opaque: 5}, Reply{Kind: ReplyPong, Opaque: 6})
}

// TestReattachIsConfirmed starts a stream for an existing session while there is no leader: the stream sends nothing,
// not even a Failure, until a leader has answered.
func TestReattachIsConfirmed(t *testing.T) {
	for _, answer := range []Message{{Kind: MessageAttached, Session: 7},
		{Kind: MessageEnd, Refusal: SessionMissing}} {
		r := newFrontRig(t, PingPolicy{})
		r.front.Orphan(r.now)
		r.front.Receive(&ClientMessage{Kind: ClientStart,
			Start: &AttachRequest{Path: "/local/a", Session: 7, TimeoutMillis: 3000}})
		if forward := r.front.Rejoin(); forward.Attach == nil {
			t.Fatalf("forward %+v", forward)
		}
		if !r.front.quiet() {
			t.Error("it would speak before the leader has answered")
		}
		r.front.Deliver(r.now, &answer)
		if r.front.Queued() == 0 {
			t.Errorf("nothing is said after message %d", answer.Kind)
		}
	}
}

// TestHeldFailureAndTheNextLeader holds a Failure for lack of a permit and then loses the leader. The stream
// stays attached and keeps the Failure until the next leader has answered for the session, and detaches then.
func TestHeldFailureAndTheNextLeader(t *testing.T) {
	for _, test := range []struct {
		answer *Message // nil for none
		want   *Refusal
		ending Ending
	}{
		{&Message{Kind: MessageResumed}, PongMismatch, EndingOK},
		{&Message{Kind: MessageEnd, Refusal: SessionExpired}, SessionExpired, EndingOK},
		{&Message{Kind: MessageStopped}, PongMismatch, EndingOK},
		{nil, nil, EndingSilent},
	} {
		r := attached(t, PingPolicy{}, 3000, AllRights)
		r.front.Mute(true)
		if forward := r.pong(999); forward != (Forward{}) {
			t.Errorf("forward %+v although the stream may yet claim its session", forward)
		}
		r.front.Mute(false)
		r.front.Orphan(r.now)
		r.front.Tick(r.now)
		r.expect()
		if forward := r.front.Rejoin(); forward.Roster == nil || forward.Roster.Session != 7 {
			t.Fatalf("forward %+v", forward)
		}
		r.front.Tick(r.now)
		r.expect()
		if test.answer != nil {
			r.front.Deliver(r.now, test.answer)
		}
		detached := false
		for r.front.Ending() == EndingNone && r.front.Wake() != Never {
			r.now = max(r.front.Wake(), r.now)
			detached = r.front.Tick(r.now).Detach || detached
		}
		var want []Reply
		if test.want != nil {
			want = append(want, Reply{Kind: ReplyFailure, Refusal: test.want})
		}
		r.expect(want...)
		if r.front.Ending() != test.ending || !detached {
			t.Errorf("%+v: ending %d, detached %v", test.answer, r.front.Ending(), detached)
		}
	}
}

// TestRefusedStartAndTheNextLeader loses the leader while the Failure of a start is held: there is no session
// that the client could take for its own, so the next leader's permit is enough.
func TestRefusedStartAndTheNextLeader(t *testing.T) {
	for _, session := range []SessionID{0, 7} {
		r := newFrontRig(t, PingPolicy{HoldStartFailureMillis: 100})
		r.front.Receive(&ClientMessage{Kind: ClientStart,
			Start: &AttachRequest{Path: "/local/a", Session: session}})
		r.front.Deliver(r.now, &Message{Kind: MessageEnd, Refusal: DescriptionTooLarge})
		r.front.Orphan(r.now)
		if forward := r.front.Rejoin(); forward != (Forward{}) {
			t.Errorf("forward %+v", forward)
		}
		r.now = r.front.Wake()
		r.front.Tick(r.now)
		r.expect(Reply{Kind: ReplyFailure, Refusal: DescriptionTooLarge})
	}
}

// TestAnswersBeforeStopped delivers answers while the Front is silent, and then the end that the client asked for: the
// answers are sent before it.
func TestAnswersBeforeStopped(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	r.front.Receive(&ClientMessage{Kind: ClientSemaphore, ReqID: 1,
		Request: &Request{Kind: RequestCreate, Name: "s", Limit: 1}})
	r.front.Receive(&ClientMessage{Kind: ClientStop})
	r.front.Mute(true)
	r.front.Deliver(r.now, &Message{Kind: MessageResult, Sequence: 1, Request: RequestCreate})
	r.expect()
	r.front.Deliver(r.now, &Message{Kind: MessageStopped, Session: 7})
	r.expect(Reply{Kind: ReplyResult, Request: RequestCreate, ReqID: 1},
		Reply{Kind: ReplyStopped, Session: 7})
}

// TestRefusedClaim has a new leader end the stream instead. What was kept is dropped: it sounds as if the
// session lived.
func TestRefusedClaim(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	r.front.Orphan(r.now)
	r.front.Rejoin()
	r.front.Receive(&ClientMessage{Kind: ClientPing, Opaque: 6})
	r.front.Deliver(r.now, &Message{Kind: MessageEnd, Refusal: SessionExpired})
	r.expect(Reply{Kind: ReplyFailure, Refusal: SessionExpired})
	if r.front.Ending() != EndingOK {
		t.Errorf("ending %v", r.front.Ending())
	}
}

// TestFailureWaitsForAPermit keeps a Failure that comes while the Front is mute, for as long as it may be of use.
func TestFailureWaitsForAPermit(t *testing.T) {
	for _, soon := range []bool{true, false} {
		r := newFrontRig(t, PingPolicy{})
		r.front.Receive(&ClientMessage{Kind: ClientStart,
			Start: &AttachRequest{Path: "/local/a", Session: 7}})
		r.front.Mute(true)
		r.front.Deliver(r.now, &Message{Kind: MessageEnd, Refusal: DescriptionTooLarge})
		for r.millis() < 100 {
			r.now = max(r.front.Wake(), r.now)
			r.front.Tick(r.now)
			if r.expect(); r.front.Ending() != EndingNone {
				t.Fatalf("after %d ms: ending %v", r.millis(), r.front.Ending())
			}
		}
		if soon {
			r.front.Mute(false)
			r.now = r.front.Wake()
			r.front.Tick(r.now)
			r.expect(Reply{Kind: ReplyFailure, Refusal: DescriptionTooLarge})
			continue
		}
		for r.front.Ending() == EndingNone {
			r.now = r.front.Wake()
			r.front.Tick(r.now)
		}
		if r.expect(); r.front.Ending() != EndingSilent || r.millis() != heldMillis {
			t.Errorf("after %d ms: ending %v", r.millis(), r.front.Ending())
		}
	}
}

// TestFailureAtTheLastMoment sends a held Failure at the moment at which it would be given up.
func TestFailureAtTheLastMoment(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	r.front.Mute(true)
	r.pong(999)
	r.front.Tick(r.now)
	r.front.Mute(false)
	r.front.Tick(r.now.After(heldMillis))
	r.expect(Reply{Kind: ReplyFailure, Refusal: PongMismatch})
}

// TestPutBack returns replies that were taken and may no longer be sent, and gives them again later, in their order.
func TestPutBack(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	for opaque := uint64(1); opaque <= 3; opaque++ {
		r.front.Receive(&ClientMessage{Kind: ClientPing, Opaque: opaque})
	}
	taken := r.front.Take(nil)
	if r.front.PutBack(taken[1:]) {
		t.Fatal("put back what may be said")
	}
	r.front.Mute(true)
	r.front.Receive(&ClientMessage{Kind: ClientPing, Opaque: 4})
	if !r.front.PutBack(taken[1:]) {
		t.Fatal("not put back")
	}
	r.expect()
	r.front.Mute(false)
	r.expect(Reply{Kind: ReplyPong, Opaque: 2}, Reply{Kind: ReplyPong, Opaque: 3},
		Reply{Kind: ReplyPong, Opaque: 4})
}

// TestPutBackAfterTheEnd ends a stream while its client's writer still has replies. Where the stream drops its unsent
// replies, the writer's go as well; where it has more to say, they are sent before that.
func TestPutBackAfterTheEnd(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(r *frontRig)
		drops bool
		says  []Reply
	}{
		"silently":                   {func(r *frontRig) { r.front.Orphan(r.now); r.front.Tick(Never - 1) }, true, nil},
		"abandoned while it is mute": {func(r *frontRig) { r.front.Mute(true); r.front.Close() }, true, nil},
		"abandoned":                  {func(r *frontRig) { r.front.Close() }, false, nil},
		"by the leader while it is mute": {func(r *frontRig) {
			r.front.Mute(true)
			r.front.Deliver(r.now, &Message{Kind: MessageEnd, Refusal: SessionExpired})
			r.front.Mute(false)
			r.front.Tick(r.now)
		}, true, []Reply{{Kind: ReplyFailure, Refusal: SessionExpired}}},
		"by the leader": {func(r *frontRig) {
			r.front.Deliver(r.now, &Message{Kind: MessageEnd, Refusal: SessionExpired})
			r.front.Mute(true)
			r.front.Deliver(r.now, &Message{Kind: MessageEnd, Refusal: SessionExpired})
		}, false, []Reply{{Kind: ReplyFailure, Refusal: SessionExpired}}},
	} {
		r := attached(t, PingPolicy{}, 3000, AllRights)
		r.front.Receive(&ClientMessage{Kind: ClientPing, Opaque: 1})
		taken := r.front.Take(nil)
		test.end(r)
		if r.front.Ending() == EndingNone || r.front.PutBack(taken) != test.drops {
			t.Errorf("%s: ending %v, the writer's replies are not %v", name, r.front.Ending(), test.drops)
		}
		r.expect(test.says...)
	}
}

// TestStartWithoutALeader starts a stream while nobody leads: it waits for a while, then the link has failed
// (§2.3 11).
func TestStartWithoutALeader(t *testing.T) {
	for _, test := range []struct {
		session SessionID
		mute    bool
		ending  Ending
		replies []Reply
	}{
		{0, false, EndingOK, []Reply{{Kind: ReplyFailure, Refusal: LinkFailure}}},
		{0, true, EndingOK, []Reply{{Kind: ReplyFailure, Refusal: LinkFailure}}},
		{7, false, EndingSilent, nil},
		{7, true, EndingSilent, nil}, // any message would be a sign that the session lives
	} {
		r := newFrontRig(t, PingPolicy{})
		r.front.Orphan(r.now)
		r.front.Mute(test.mute)
		start := &AttachRequest{Path: "/local/a", Session: test.session}
		if forward := r.front.Receive(&ClientMessage{Kind: ClientStart,
			Start: start}); forward != (Forward{}) {
			t.Fatalf("forward %+v", forward)
		}
		for r.front.Ending() == EndingNone && r.front.Wake() != Never {
			r.now = max(r.front.Wake(), r.now)
			r.front.Tick(r.now)
		}
		r.front.Mute(test.mute)
		r.expect(test.replies...)
		if r.front.Ending() != test.ending || r.millis() != defaultGraceMillis {
			t.Errorf("session %d, mute %v: after %d ms ending %v", test.session, test.mute, r.millis(),
				r.front.Ending())
		}
	}
}

// TestClosedWhileSilent drops what was kept from a client that leaves.
func TestClosedWhileSilent(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	r.front.Mute(true)
	r.front.Receive(&ClientMessage{Kind: ClientPing, Opaque: 5})
	r.front.Close()
	r.expect()
}

// The time of a ping that could not be sent when it was made begins with its sending: whether no writer had taken it,
// or one has put it back, and although the writer was busy with earlier replies. It has that time once.
func TestWithheldPing(t *testing.T) {
	for _, putBack := range []bool{false, true} {
		for _, busy := range []bool{false, true} {
			r := attached(t, PingPolicy{}, 3000, AllRights)
			if !busy {
				r.expect()
			}
			r.pong(101)
			r.tickAt(1000)
			var taken []Reply
			if putBack {
				taken = r.front.Take(nil)
			}
			// Nobody tries to take it while the Front must be silent: the stream knows that there is nothing
			// to have.
			r.front.Mute(true)
			if putBack && !r.front.PutBack(taken) {
				t.Fatal("it may be said")
			}
			r.now = frontStart.After(1999)
			r.front.Mute(false)
			r.take(Reply{Kind: ReplyPing, Opaque: 102})
			if forward := r.tickAt(2999); !forward.Detach {
				t.Errorf("forward %+v", forward)
			}
			r.expect(Reply{Kind: ReplyFailure, Refusal: PingTimeout})
		}
	}
}

// A client that holds up the writer itself is not excused for ever because the Front had to be silent for a
// moment.
func TestWithheldPingBehindASlowClient(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	r.pong(101)
	r.tickAt(1000) // the writer is still busy with what came before, and stays so
	r.front.Mute(true)
	r.front.Mute(false)
	r.front.Tick(r.at(2000))
	if forward := r.front.Tick(r.at(3000)); !forward.Detach {
		t.Errorf("forward %+v", forward)
	}
	r.expect(Reply{Kind: ReplyPing, Opaque: 102}, Reply{Kind: ReplyFailure, Refusal: PingTimeout})
}
