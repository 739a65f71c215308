package coordination

import "testing"

// A stream without a SessionStart ends when its time is up, and not before; one that starts in time is not
// hurried.
func TestFirstMessageDeadline(t *testing.T) {
	policy := PingPolicy{FirstMessageMillis: 30_000}
	r := newFrontRig(t, policy)
	r.front.Open(r.now)
	if forward := r.tickAt(30_000); forward != (Forward{}) {
		t.Fatalf("the leader is told %+v of a stream it does not know", forward)
	}
	if r.front.Ending() != EndingStartOverdue || r.front.Wake() != Never {
		t.Fatalf("ends with %v, wakes at %v", r.front.Ending(), r.front.Wake())
	}
	r.expect()

	r = newFrontRig(t, policy)
	r.front.Open(r.now)
	r.now = r.now.After(29_999)
	r.front.Receive(&ClientMessage{Kind: ClientStart,
		Start: &AttachRequest{Path: "/local/a", TimeoutMillis: 1000}})
	if r.front.Wake() != Never || r.front.Ending() != EndingNone {
		t.Fatalf("wakes at %v, ends with %v", r.front.Wake(), r.front.Ending())
	}
}

// What counts as in flight: requests until their first message is taken. What waits behind a Pending or a
// watch does not.
func TestInFlight(t *testing.T) {
	r := attached(t, PingPolicy{}, 1000, AllRights)
	want := func(number int, when string) {
		t.Helper()
		if got := r.front.InFlight(); got != number {
			t.Fatalf("%s: %d in flight, want %d", when, got, number)
		}
	}
	want(0, "idle")
	acquire := r.send(RequestAcquire, 1)
	describe := r.send(RequestDescribe, 2)
	want(2, "two asked")
	r.front.Receive(&ClientMessage{Kind: ClientPing, Opaque: 5})
	want(3, "a pong waits")
	r.front.Deliver(r.now, &Message{Kind: MessagePending, Sequence: acquire})
	r.front.Deliver(r.now, &Message{Kind: MessageDescribed, Sequence: describe, Request: RequestDescribe,
		WatchAdded: true})
	want(3, "all are answered, nothing is taken")
	r.front.Take(nil)
	want(0, "an acquire and a watch wait")
	r.front.Deliver(r.now, &Message{Kind: MessageResult, Sequence: acquire, Request: RequestAcquire,
		Done: true})
	r.front.Deliver(r.now, &Message{Kind: MessageChanged, Sequence: describe})
	want(2, "two messages more")
	r.front.Take(nil)
	want(0, "all is taken")
	r.send(RequestRelease, 3)
	r.front.Close()
	want(0, "ended")
}

// A request that is answered is forgotten with its data, however long the stream stays idle then.
func TestAnsweredRequestIsForgotten(t *testing.T) {
	r := attached(t, PingPolicy{}, 1000, AllRights)
	for _, sequence := range []Sequence{r.send(RequestAcquire, 1), r.send(RequestRelease, 2)} {
		r.front.Deliver(r.now, &Message{Kind: MessageResult, Sequence: sequence})
	}
	for i, open := range r.front.open.list[:cap(r.front.open.list)] {
		if open != (openRequest{}) {
			t.Errorf("place %d still has %+v", i, open)
		}
	}
}
