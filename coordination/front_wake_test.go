package coordination

import (
	"math/rand/v2"
	"testing"
)

// TestEndedFrontNeverWakes ends a stream whose ping nobody has taken, and has it taken late: its clock stands
// still. So does that of a stream which has ended before it is opened.
func TestEndedFrontNeverWakes(t *testing.T) {
	for name, end := range map[string]func(r *frontRig){
		"by the leader": func(r *frontRig) {
			r.front.Deliver(r.now, &Message{Kind: MessageEnd, Refusal: SessionExpired})
		},
		"by the client": func(r *frontRig) { r.front.Close() },
		"by the server": func(r *frontRig) { r.front.End(LinkFailure) },
	} {
		r := attached(t, PingPolicy{}, 3000, AllRights)
		r.expect() // what there was is sent
		r.pong(101)
		r.tickAt(1000)
		r.at(1000 + 5*tardyMillis)
		end(r)
		r.front.PingTaken(r.now)
		r.front.Take(nil)
		r.front.Read(r.now)
		if wake := r.front.Wake(); wake != Never {
			t.Errorf("ended %s, it wakes at %v", name, wake)
		}
	}
	r := newFrontRig(t, PingPolicy{FirstMessageMillis: 1000})
	r.front.End(LinkFailure)
	r.front.Open(r.now)
	if wake := r.front.Wake(); wake != Never {
		t.Errorf("opened after its end, it wakes at %v", wake)
	}
}

// TestTickMakesProgress does to Fronts whatever may be done to them, in any order. A Tick that is due leaves
// nothing due at the same moment, and a stream that has ended never wakes.
func TestTickMakesProgress(t *testing.T) {
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := newFrontRig(t, PingPolicy{FirstMessageMillis: 3000, HoldStartFailureMillis: seed % 2 * 100,
			MaxIntervalMillis: seed % 3 * 500})
		anything := anythingTo(r, random)
		for range 200 {
			what := random.IntN(len(anything))
			anything[what]()
			if r.front.Wake() <= r.now {
				r.front.Tick(r.now)
			}
			if wake := r.front.Wake(); wake <= r.now || r.front.Ending() != EndingNone && wake != Never {
				t.Fatalf("seed %d: after action %d at %v it wakes at %v", seed, what, r.now, wake)
			}
		}
	}
}

// anythingTo lists all that may be done to a Front; frequent actions are listed more than once.
func anythingTo(r *frontRig, random *rand.Rand) []func() {
	var taken []Reply
	say := func(m ClientMessage) func() { return func() { r.front.Receive(&m) } }
	hear := func(m Message) func() { return func() { r.front.Deliver(r.now, &m) } }
	pass := func() { r.now = r.now.After(random.Uint64N(1500)) }
	take := func() {
		if r.front.PingWaits() {
			r.front.PingTaken(r.now)
		}
		taken = r.front.Take(nil)
	}
	return []func(){
		pass, pass, pass, take, take,
		say(ClientMessage{Kind: ClientStart, Start: &AttachRequest{TimeoutMillis: 3000}}),
		say(ClientMessage{Kind: ClientStart, Start: &AttachRequest{TimeoutMillis: 3000, Session: 7}}),
		say(ClientMessage{Kind: ClientSemaphore, Request: &Request{Kind: RequestDescribe}}),
		func() { r.pong(r.front.opaque) }, func() { r.pong(r.front.opaque) },
		func() {
			if r.front.state == frontAttaching {
				r.front.Deliver(r.now, &Message{Kind: MessageAttached, Session: 7, GraceMillis: 3000})
			}
		},
		hear(Message{Kind: MessageResumed}),
		hear(Message{Kind: MessageDescribed, Sequence: 1}),
		func() { r.front.Mute(true) }, func() { r.front.Mute(false) }, func() { r.front.Mute(false) },
		func() { r.front.NotRead(r.now) }, func() { r.front.Read(r.now) },
		func() { r.front.Orphan(r.now) }, func() { r.front.Rejoin() }, func() { r.front.Rejoin() },
		func() { r.front.Open(r.now) }, func() { r.front.Remind(r.now) },
		func() {
			if len(taken) > 0 {
				r.front.PutBack(taken)
				taken = nil
			}
		},
		func() {
			switch random.IntN(12) { // not too soon
			case 0:
				r.front.End(LinkFailure)
			case 1:
				r.front.Close()
			case 2:
				r.front.Receive(&ClientMessage{Kind: ClientStop})
			case 3:
				hear(Message{Kind: MessageEnd, Refusal: SessionExpired})()
			case 4:
				hear(Message{Kind: MessageStopped, Session: 7})()
			}
		},
	}
}
