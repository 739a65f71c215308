package coordination

import "testing"

// TestRemind pings a client although no time passes, but only one that has answered, and never gives it up.
func TestRemind(t *testing.T) {
	r := attached(t, PingPolicy{}, 6000, RightRead)
	if r.front.RemindMillis() != 2000 || r.front.Unanswered() != 101 {
		t.Fatalf("reminded every %d ms, unanswered %d", r.front.RemindMillis(), r.front.Unanswered())
	}
	for range 10 {
		r.front.Remind(r.now)
	}
	r.expect()
	r.front.Receive(&ClientMessage{Kind: ClientPong, Opaque: 101})
	if r.front.Unanswered() != 0 {
		t.Error("an answered ping is not answered")
	}
	r.front.Remind(r.now)
	r.expect(Reply{Kind: ReplyPing, Opaque: 102})
	r.front.Receive(&ClientMessage{Kind: ClientPong, Opaque: 102})
	r.front.Mute(true)
	r.front.Remind(r.now)
	r.front.Mute(false)
	r.expect()
}

// TestRemindTellsAHeldFailure: the client waits for it by the real clock.
func TestRemindTellsAHeldFailure(t *testing.T) {
	r := newFrontRig(t, PingPolicy{HoldStartFailureMillis: 100})
	if r.front.RemindMillis() != 0 {
		t.Error("somebody is to be reminded before there is a start")
	}
	r.front.Receive(&ClientMessage{Kind: ClientStart,
		Start: &AttachRequest{Path: "/local/a", TimeoutMillis: 1000}})
	if !r.front.Awaits() {
		t.Error("nobody has to answer the start")
	}
	r.front.Deliver(r.now, &Message{Kind: MessageEnd, Refusal: LinkFailure})
	r.expect()
	if r.front.RemindMillis() != 100 || r.front.Awaits() {
		t.Errorf("told after %d ms, awaits %v", r.front.RemindMillis(), r.front.Awaits())
	}
	r.front.Remind(r.now)
	r.expect(Reply{Kind: ReplyFailure, Refusal: LinkFailure})
	if r.front.Ending() != EndingOK || r.front.RemindMillis() != 0 || r.front.Unanswered() != 0 {
		t.Error("the stream has not ended")
	}
}
