package coordination

import "testing"

// TestClaimIsConfirmed has a stream join a new leader: nothing is said until the leader has taken it over, also with the
// leave of the server that leads.
func TestClaimIsConfirmed(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	r.front.Orphan(r.now)
	r.front.Receive(&ClientMessage{Kind: ClientPing, Opaque: 5})
	r.expect(Reply{Kind: ReplyPong, Opaque: 5}) // the last leader's leave is still good
	if forward := r.front.Rejoin(); forward.Roster == nil {
		t.Fatalf("forward %+v", forward)
	}
	r.front.Receive(&ClientMessage{Kind: ClientPing, Opaque: 6})
	if r.expect(); r.front.Queued() != 0 {
		t.Error("something is queued for a client that must not hear it")
	}
	r.front.Deliver(r.now, &Message{Kind: MessageResumed})
	r.expect(Reply{Kind: ReplyPong, Opaque: 6})
}

// TestRefusedClaim has a new leader end the stream instead. What was kept is dropped: it sounds as if the session lived.
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

// TestFailureWaitsForLeave keeps a Failure that comes while nothing may be said, for as long as it may be of use.
func TestFailureWaitsForLeave(t *testing.T) {
	for _, soon := range []bool{true, false} {
		r := newFrontRig(t, PingPolicy{})
		r.front.Receive(&ClientMessage{Kind: ClientStart, Start: &AttachRequest{Path: "/local/a", Session: 7}})
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

// TestFailureAtTheLastMoment lets a held Failure be said at the moment at which it would be given up.
func TestFailureAtTheLastMoment(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	r.front.Mute(true)
	if forward := r.pong(999); !forward.Detach {
		t.Fatalf("forward %+v", forward)
	}
	r.front.Tick(r.now)
	r.front.Mute(false)
	r.front.Tick(r.now.After(heldMillis))
	r.expect(Reply{Kind: ReplyFailure, Refusal: PongMismatch})
}

// TestPutBack returns what was taken and may no longer be said, and gives it again later, in its order.
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
	r.expect(Reply{Kind: ReplyPong, Opaque: 2}, Reply{Kind: ReplyPong, Opaque: 3}, Reply{Kind: ReplyPong, Opaque: 4})
}

// TestStartWithoutALeader starts a stream while nobody leads: it waits for a while, then the link has failed (§2.3 11).
func TestStartWithoutALeader(t *testing.T) {
	for _, test := range []struct {
		session SessionID
		mute    bool
		ending  Ending
		replies []Reply
	}{
		{0, false, EndingOK, []Reply{{Kind: ReplyFailure, Refusal: LinkFailure}}},
		{0, true, EndingOK, []Reply{{Kind: ReplyFailure, Refusal: LinkFailure}}},
		{7, false, EndingOK, []Reply{{Kind: ReplyFailure, Refusal: LinkFailure}}},
		{7, true, EndingSilent, nil}, // any message would be a sign that the session lives
	} {
		r := newFrontRig(t, PingPolicy{})
		r.front.Orphan(r.now)
		r.front.Mute(test.mute)
		start := &AttachRequest{Path: "/local/a", Session: test.session}
		if forward := r.front.Receive(&ClientMessage{Kind: ClientStart, Start: start}); forward != (Forward{}) {
			t.Fatalf("forward %+v", forward)
		}
		for r.front.Ending() == EndingNone && r.front.Wake() != Never {
			r.now = max(r.front.Wake(), r.now)
			r.front.Tick(r.now)
		}
		r.front.Mute(test.mute)
		r.expect(test.replies...)
		if r.front.Ending() != test.ending || r.millis() != defaultGraceMillis {
			t.Errorf("session %d, mute %v: after %d ms ending %v", test.session, test.mute, r.millis(), r.front.Ending())
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
