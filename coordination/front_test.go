package coordination

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// frontRig is a Front in the hands of a test. Pings are numbered 101, 102, ...
type frontRig struct {
	t     *testing.T
	front *Front
	now   Instant
	pings uint64
}

const frontStart Instant = 1_000_000_000

func newFrontRig(t *testing.T, policy PingPolicy) *frontRig {
	r := &frontRig{t: t, now: frontStart, pings: 100}
	policy.Opaque = func() uint64 { r.pings++; return r.pings }
	r.front = NewFront(&policy)
	return r
}

// attached returns a rig whose start has been answered, the first ping taken.
func attached(t *testing.T, policy PingPolicy, timeoutMillis uint64, rights Rights) *frontRig {
	t.Helper()
	r := newFrontRig(t, policy)
	forward := r.front.Receive(&ClientMessage{Kind: ClientStart,
		Start: &AttachRequest{Path: "/local/a", TimeoutMillis: timeoutMillis}})
	if forward.Attach == nil || !r.front.Attaching() || r.front.Wake() != Never {
		t.Fatalf("forward %+v, attaching %v", forward, r.front.Attaching())
	}
	r.front.Deliver(r.now, &Message{Kind: MessageAttached, Session: 7, Rights: rights})
	r.expect(Reply{Kind: ReplyStarted, Session: 7}, Reply{Kind: ReplyPing, Opaque: 101})
	return r
}

// expect compares the replies since the last call; those that say nothing are left out.
func (r *frontRig) expect(want ...Reply) {
	r.t.Helper()
	got := slices.DeleteFunc(r.front.Take(nil), func(reply Reply) bool { return reply.Kind == ReplyNone })
	if !slices.Equal(got, want) {
		r.t.Fatalf("at %d ms: replies %+v\nwant %+v", r.millis(), got, want)
	}
}

func (r *frontRig) millis() int64 { return int64(r.now-frontStart) / 1_000_000 }

// tickAt demands that the Front wakes at the given millisecond, and ticks it there.
func (r *frontRig) tickAt(millis uint64) Forward {
	r.t.Helper()
	if want := frontStart.After(millis); r.front.Wake() != want {
		r.t.Fatalf("wakes at %d ms, want %d", int64(r.front.Wake()-frontStart)/1_000_000, millis)
	}
	r.now = r.front.Wake() - 1
	if forward := r.front.Tick(r.now); forward != (Forward{}) || r.front.Queued() > 0 {
		r.t.Fatalf("something happens before its time: %+v", forward)
	}
	r.now++
	return r.front.Tick(r.now)
}

func (r *frontRig) pong(opaque uint64) Forward {
	return r.front.Receive(&ClientMessage{Kind: ClientPong, Opaque: opaque})
}

func (r *frontRig) send(kind RequestKind, reqID uint64) Sequence {
	r.t.Helper()
	forward := r.front.Receive(&ClientMessage{Kind: ClientSemaphore, ReqID: reqID,
		Request: &Request{Kind: kind}})
	if forward.Request == nil || forward.Request.Kind != kind {
		r.t.Fatalf("forward %+v", forward)
	}
	return forward.Sequence
}

// The interval is a third of the timeout, between 10 ms and 5 s; the next ping comes at its end, pong or no
// pong before (§2.7).
func TestPingSchedule(t *testing.T) {
	for _, c := range []struct{ timeout, interval uint64 }{
		{0, 10}, {30, 10}, {32, 10}, {33, 11}, {3000, 1000}, {14_999, 4999}, {15_000, 5000},
		{1_800_000, 5000}, {Infinite, 5000},
	} {
		r := attached(t, PingPolicy{}, c.timeout, AllRights)
		for i := range uint64(3) {
			if r.pong(101+i) != (Forward{}) {
				t.Fatal("a pong is forwarded")
			}
			r.expect()
			r.tickAt((i + 1) * c.interval)
			r.expect(Reply{Kind: ReplyPing, Opaque: 102 + i})
		}
		forward := r.tickAt(4 * c.interval)
		r.expect(Reply{Kind: ReplyFailure, Refusal: PingTimeout})
		if !forward.Detach || r.front.Ending() != EndingOK || r.front.Wake() != Never {
			t.Errorf("timeout %d: forward %+v, ending %d", c.timeout, forward, r.front.Ending())
		}
		if r.front.Tick(Never) != (Forward{}) || r.front.Queued() > 0 {
			t.Error("the dead Front speaks")
		}
	}
}

// A client that gives up after 3 s of silence is pinged every 2 s, and has its full interval to answer.
func TestPingScheduleOfAnImpatientClient(t *testing.T) {
	policy := PingPolicy{MaxIntervalMillis: 2000}
	r := attached(t, policy, 60_000, AllRights)
	r.pong(101)
	r.tickAt(2000)
	r.expect(Reply{Kind: ReplyPing, Opaque: 102})
	r.tickAt(4000) // not answered yet, silent
	r.expect()
	r.pong(102) // late for the interval, so the next ping is due at once
	r.now = frontStart.After(5000)
	if r.front.Wake() > r.now {
		t.Fatalf("wakes at %d", r.front.Wake())
	}
	r.front.Tick(r.now)
	r.expect(Reply{Kind: ReplyPing, Opaque: 103})
	r.tickAt(7000)
	r.expect()
	if forward := r.tickAt(10_000); !forward.Detach {
		t.Errorf("forward %+v", forward)
	}
	r.expect(Reply{Kind: ReplyFailure, Refusal: PingTimeout})

	short := attached(t, policy, 3000, AllRights)
	short.pong(101)
	short.tickAt(1000) // its own interval is shorter
	short.expect(Reply{Kind: ReplyPing, Opaque: 102})
}

// A ping of the client is answered, and counts as a pong only if it carries the outstanding number.
func TestClientPing(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	ping := func(opaque uint64) {
		t.Helper()
		if forward := r.front.Receive(&ClientMessage{Kind: ClientPing,
			Opaque: opaque}); forward != (Forward{}) {
			t.Errorf("forward %+v", forward)
		}
		r.expect(Reply{Kind: ReplyPong, Opaque: opaque})
	}
	ping(5)
	ping(101)
	r.tickAt(1000)
	r.expect(Reply{Kind: ReplyPing, Opaque: 102})
	ping(101)
	r.tickAt(2000)
	r.expect(Reply{Kind: ReplyFailure, Refusal: PingTimeout})
}

func TestPongs(t *testing.T) {
	for _, c := range []struct {
		name  string
		pongs []uint64
		fails bool
	}{
		{"right", []uint64{101}, false},
		{"right, then zero", []uint64{101, 0, 0}, false},
		{"right twice", []uint64{101, 101}, true},
		{"wrong", []uint64{102}, true},
		{"zero while one is outstanding", []uint64{0}, true},
	} {
		r := attached(t, PingPolicy{}, 3000, AllRights)
		detached := false
		for _, opaque := range c.pongs {
			detached = r.pong(opaque).Detach
		}
		if detached != c.fails {
			t.Errorf("%s: fails %v", c.name, detached)
		}
		if c.fails {
			r.expect(Reply{Kind: ReplyFailure, Refusal: PongMismatch})
		} else {
			r.expect()
		}
	}
}

// Pending is sent once it is true, and not at all if the result is there before the client has read it.
func TestPendingIsSkipped(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	first, second := r.send(RequestAcquire, 11), r.send(RequestAcquire, 12)
	pending := func(sequence Sequence) {
		r.front.Deliver(r.now, &Message{Kind: MessagePending, Sequence: sequence})
	}
	result := func(sequence Sequence) {
		r.front.Deliver(r.now, &Message{Kind: MessageResult, Sequence: sequence, Request: RequestAcquire,
			Done: true})
	}
	acquired := func(reqID uint64) Reply {
		return Reply{Kind: ReplyResult, Request: RequestAcquire, ReqID: reqID, Done: true}
	}
	pending(first)
	r.expect(Reply{Kind: ReplyPending, ReqID: 11})
	pending(second)
	result(first)
	result(second)
	r.expect(acquired(11), acquired(12))

	third, fourth := r.send(RequestAcquire, 13), r.send(RequestAcquire, 14)
	pending(third)
	pending(fourth)
	result(third)
	r.expect(Reply{Kind: ReplyPending, ReqID: 14}, acquired(13))
	result(fourth)
	r.expect(acquired(14))
	result(fourth) // nobody waits for it any more
	pending(99)
	r.expect()
}

// With many acquires in flight and replies taken at any time, each request is answered once, and its Pending
// comes before the result or not at all.
func TestPendingAtRandom(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		r := attached(t, PingPolicy{}, 3000, AllRights)
		var open []Sequence
		waits := make(map[Sequence]bool)
		reqIDs := make(map[Sequence]uint64)
		state := make(map[uint64]ReplyKind)
		look := func() {
			for _, reply := range r.front.Take(nil) {
				switch was := state[reply.ReqID]; {
				case reply.Kind == ReplyNone:
				case was == ReplyResult, was == ReplyPending && reply.Kind != ReplyResult:
					t.Fatalf("seed %d: %d after %d for request %d", seed, reply.Kind, was, reply.ReqID)
				default:
					state[reply.ReqID] = reply.Kind
				}
			}
		}
		for step := range uint64(300) {
			switch pick := random.IntN(8); {
			case pick < 3:
				sequence := r.send(RequestAcquire, 1000+step)
				open = append(open, sequence)
				reqIDs[sequence] = 1000 + step
			case pick < 7 && len(open) > 0:
				at := random.IntN(len(open))
				sequence := open[at]
				if !waits[sequence] && random.IntN(2) == 0 {
					waits[sequence] = true
					r.front.Deliver(r.now, &Message{Kind: MessagePending, Sequence: sequence})
					continue
				}
				open = slices.Delete(open, at, at+1)
				r.front.Deliver(r.now, &Message{Kind: MessageResult, Sequence: sequence,
					Request: RequestAcquire})
			default:
				look()
			}
		}
		look()
		for sequence, reqID := range reqIDs {
			if answered := state[reqID] == ReplyResult; answered == slices.Contains(open, sequence) {
				t.Fatalf("seed %d: request %d answered: %v", seed, reqID, answered)
			}
		}
	}
}

// A describe with a watch stays open until the change is notified; one without is done with its answer.
func TestDescribesAndChanges(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	plain, watching := r.send(RequestDescribe, 21), r.send(RequestDescribe, 22)
	about := &SemaphoreDescription{Name: "lock"}
	r.front.Deliver(r.now, &Message{Kind: MessageDescribed, Sequence: watching, Description: about,
		WatchAdded: true})
	r.front.Deliver(r.now, &Message{Kind: MessageDescribed, Sequence: plain, Refusal: SemaphoreNotFound})
	for range 2 {
		r.front.Deliver(r.now, &Message{Kind: MessageChanged, Sequence: plain, DataChanged: true})
		r.front.Deliver(r.now, &Message{Kind: MessageChanged, Sequence: watching, OwnersChanged: true})
	}
	r.expect(Reply{Kind: ReplyResult, Request: RequestDescribe, ReqID: 22, Description: about,
		WatchAdded: true}, Reply{Kind: ReplyResult, Request: RequestDescribe, ReqID: 21,
		Refusal: SemaphoreNotFound}, Reply{Kind: ReplyChanged, ReqID: 22, OwnersChanged: true})
}

// A request without the right for it is refused on the spot; the stream goes on (§2.6).
func TestRights(t *testing.T) {
	needs := map[RequestKind]struct {
		right   Rights
		refusal *Refusal
	}{
		RequestAcquire: {RightWrite, WriteDenied}, RequestRelease: {RightWrite, WriteDenied},
		RequestCreate: {RightWrite, CreateDenied},
		RequestUpdate: {RightWrite, UpdateDenied}, RequestDelete: {RightErase, DeleteDenied},
		RequestDescribe: {RightRead, ReadDenied},
	}
	for kind, need := range needs {
		for rights := range AllRights + 1 {
			r := attached(t, PingPolicy{}, 3000, rights)
			forward := r.front.Receive(&ClientMessage{Kind: ClientSemaphore, ReqID: 5,
				Request: &Request{Kind: kind}})
			if rights&need.right != 0 {
				r.expect()
				if forward.Request == nil || forward.Sequence != 1 {
					t.Errorf("kind %d with rights %d is not forwarded", kind, rights)
				}
				continue
			}
			if forward != (Forward{}) || r.front.Ending() != EndingNone {
				t.Errorf("kind %d with rights %d: forward %+v, ending %d", kind, rights, forward,
					r.front.Ending())
			}
			r.expect(Reply{Kind: ReplyResult, Request: kind, ReqID: 5, Refusal: need.refusal})
		}
	}
}

// A forbidden message ends the stream (§2.6); the leader is notified.
func TestForbiddenMessages(t *testing.T) {
	for _, c := range []struct {
		message ClientMessage
		want    *Refusal
	}{
		{ClientMessage{Kind: ClientStart, Start: &AttachRequest{}}, StartedTwice},
		{ClientMessage{Kind: ClientEmpty}, EmptyRequest},
		{ClientMessage{Kind: ClientUnsupported}, UnimplementedRequest},
	} {
		r := attached(t, PingPolicy{}, 3000, AllRights)
		if forward := r.front.Receive(&c.message); !forward.Detach {
			t.Errorf("%s: forward %+v", c.want.Text, forward)
		}
		r.expect(Reply{Kind: ReplyFailure, Refusal: c.want})
		if r.front.Ending() != EndingOK {
			t.Errorf("%s: ending %d", c.want.Text, r.front.Ending())
		}
		r.front.Receive(&ClientMessage{Kind: ClientPing})
		r.front.Deliver(r.now, &Message{Kind: MessageEnd, Refusal: SessionExpired})
		r.expect()
		if r.front.Close() != (Forward{}) || r.front.End(LinkFailure) != (Forward{}) {
			t.Error("the dead Front has something for the leader")
		}
	}
}

func TestFirstMessageMustBeAStart(t *testing.T) {
	r := newFrontRig(t, PingPolicy{})
	if r.front.Receive(&ClientMessage{Kind: ClientPing}) != (Forward{}) ||
		r.front.Ending() != EndingInvalidStart {
		t.Errorf("ending %d", r.front.Ending())
	}
	r.expect()
}

// While a session is being stopped pings go on, and everything else ends the stream (§2.6, §2.8).
func TestStopping(t *testing.T) {
	stopping := func() *frontRig {
		r := attached(t, PingPolicy{}, 3000, AllRights)
		r.send(RequestAcquire, 1)
		forward := r.front.Receive(&ClientMessage{Kind: ClientStop})
		if forward.Request == nil || forward.Request.Kind != RequestStop || forward.Sequence != 2 {
			t.Fatalf("forward %+v", forward)
		}
		return r
	}
	r := stopping()
	r.pong(101)
	r.tickAt(1000)
	r.expect(Reply{Kind: ReplyPing, Opaque: 102})
	r.front.Deliver(r.now, &Message{Kind: MessageStopped, Session: 7})
	r.expect(Reply{Kind: ReplyStopped, Session: 7})
	if r.front.Ending() != EndingOK {
		t.Errorf("ending %d", r.front.Ending())
	}
	for _, m := range []ClientMessage{{Kind: ClientStop},
		{Kind: ClientSemaphore, Request: &Request{Kind: RequestRelease}}} {
		r := stopping()
		if forward := r.front.Receive(&m); !forward.Detach {
			t.Errorf("forward %+v", forward)
		}
		r.expect(Reply{Kind: ReplyFailure, Refusal: SessionNotAttachedHere})
	}
}

// A failed start may be answered late; the client waits meanwhile, or goes.
func TestHeldFailure(t *testing.T) {
	refused := func(hold uint64) *frontRig {
		r := newFrontRig(t, PingPolicy{HoldStartFailureMillis: hold})
		r.front.Receive(&ClientMessage{Kind: ClientStart, Start: &AttachRequest{}})
		r.front.Deliver(r.now, &Message{Kind: MessageEnd, Refusal: NodeNotFound})
		return r
	}
	at := refused(0)
	at.expect(Reply{Kind: ReplyFailure, Refusal: NodeNotFound})

	r := refused(100)
	r.expect()
	if !r.front.Attaching() {
		t.Error("the next message would be read")
	}
	r.tickAt(100)
	r.expect(Reply{Kind: ReplyFailure, Refusal: NodeNotFound})

	gone := refused(100)
	if gone.front.Close(); gone.front.Ending() != EndingAbandoned || gone.front.Wake() != Never {
		t.Errorf("ending %d", gone.front.Ending())
	}
	gone.expect()

	ended := refused(100)
	ended.front.Receive(&ClientMessage{Kind: ClientPing})
	ended.front.End(LinkFailure)
	ended.expect(Reply{Kind: ReplyFailure, Refusal: LinkFailure})
}

// The leader is notified of the end of a stream only if it knows of it.
func TestCloseAndEnd(t *testing.T) {
	fresh := newFrontRig(t, PingPolicy{})
	if fresh.front.Close() != (Forward{}) || fresh.front.Ending() != EndingAbandoned {
		t.Error("the leader is told of a stream that never started")
	}
	attaching := func() *frontRig {
		r := newFrontRig(t, PingPolicy{})
		r.front.Receive(&ClientMessage{Kind: ClientStart, Start: &AttachRequest{}})
		return r
	}
	for name, r := range map[string]*frontRig{"attaching": attaching(),
		"attached": attached(t, PingPolicy{}, 3000, AllRights)} {
		if !r.front.Close().Detach || r.front.Ending() != EndingAbandoned {
			t.Errorf("%s: the leader is not told", name)
		}
		r.expect()
	}
	for name, r := range map[string]*frontRig{"attaching": attaching(),
		"attached": attached(t, PingPolicy{}, 3000, AllRights)} {
		if !r.front.End(LinkFailure).Detach || r.front.Ending() != EndingOK {
			t.Errorf("%s: the leader is not told", name)
		}
		r.expect(Reply{Kind: ReplyFailure, Refusal: LinkFailure})
	}
	stolen := attached(t, PingPolicy{}, 3000, AllRights)
	stolen.front.Deliver(stolen.now, &Message{Kind: MessageEnd, Refusal: StolenByLocalClient})
	stolen.expect(Reply{Kind: ReplyFailure, Refusal: StolenByLocalClient})
}

// Take keeps no more memory than an idle stream needs, and hands over what was given before in front.
func TestTake(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	for i := range uint64(10) {
		r.front.Receive(&ClientMessage{Kind: ClientPing, Opaque: i + 1})
	}
	if r.front.Queued() != 10 {
		t.Errorf("%d queued", r.front.Queued())
	}
	replies := r.front.Take([]Reply{{Kind: ReplyStarted}})
	if len(replies) != 11 || replies[0].Kind != ReplyStarted || replies[10].Opaque != 10 ||
		cap(r.front.replies) != 0 {
		t.Errorf("%+v, %d kept", replies, cap(r.front.replies))
	}
}

// TestTimesOfReplies: an answer has the times of the request and its own, and the entry that it follows from, and the
// first one has the request, all of it only if the time of the request is known.
func TestTimesOfReplies(t *testing.T) {
	r := attached(t, PingPolicy{}, 60_000, RightWrite)
	requests := make([]*Request, 6)
	ask := func(kind RequestKind, reqID uint64, received Instant) Sequence {
		t.Helper()
		requests[reqID] = &Request{Kind: kind}
		return r.front.Receive(&ClientMessage{Kind: ClientSemaphore, ReqID: reqID,
			Request: requests[reqID], Received: received, RoomMicros: uint32(reqID)}).Sequence
	}
	atOnce, queued := ask(RequestAcquire, 1, r.now-30), ask(RequestAcquire, 2, r.now-20)
	refused, released, silent := ask(RequestAcquire, 3, r.now-10), ask(RequestRelease, 4, r.now-10),
		ask(RequestAcquire, 5, 0)
	result := func(sequence Sequence, kind RequestKind, done bool) {
		r.front.Deliver(r.now, &Message{Kind: MessageResult, Sequence: sequence, Request: kind, Done: done,
			Index: Index(sequence)})
	}
	begun := r.now
	result(atOnce, RequestAcquire, true)
	r.front.Deliver(r.now, &Message{Kind: MessagePending, Sequence: queued, Index: 7})
	r.expect(Reply{Kind: ReplyResult, Request: RequestAcquire, RoomMicros: 1, ReqID: 1, Done: true, Asked: requests[1],
		Received: begun - 30, Delivered: begun, Index: 1},
		Reply{Kind: ReplyPending, RoomMicros: 2, ReqID: 2, Asked: requests[2], Received: begun - 20, Delivered: begun,
			Index: 7})
	r.now += 5
	result(queued, RequestAcquire, true)
	result(refused, RequestAcquire, false)
	result(released, RequestRelease, true)
	result(silent, RequestAcquire, true)
	r.expect(Reply{Kind: ReplyResult, Request: RequestAcquire, ReqID: 2, Done: true, Received: begun - 20,
		Delivered: r.now, Index: 2, Queued: true},
		Reply{Kind: ReplyResult, Request: RequestAcquire, RoomMicros: 3, ReqID: 3, Asked: requests[3],
			Received: begun - 10, Delivered: r.now, Index: 3},
		Reply{Kind: ReplyResult, Request: RequestRelease, RoomMicros: 4, ReqID: 4, Done: true, Asked: requests[4],
			Received: begun - 10, Delivered: r.now, Index: 4},
		Reply{Kind: ReplyResult, Request: RequestAcquire, ReqID: 5, Done: true})
	unseen := ask(RequestAcquire, 0, r.now-4) // the result takes the place of the Pending
	r.front.Deliver(r.now, &Message{Kind: MessagePending, Sequence: unseen, Index: 8})
	result(unseen, RequestAcquire, true)
	r.expect(Reply{Kind: ReplyResult, Request: RequestAcquire, Done: true, Asked: requests[0],
		Received: r.now - 4, Delivered: r.now, Index: Index(unseen), Queued: true})
}

// TestChangedBeforeDescribed delivers a Changed before its Described: the client reads both, in their order.
func TestChangedBeforeDescribed(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	sequence := r.send(RequestDescribe, 5)
	r.front.Deliver(r.now, &Message{Kind: MessageChanged, Sequence: sequence, DataChanged: true})
	r.expect()
	r.front.Deliver(r.now, &Message{Kind: MessageDescribed, Sequence: sequence, Request: RequestDescribe,
		WatchAdded: true})
	r.expect(Reply{Kind: ReplyResult, Request: RequestDescribe, ReqID: 5, WatchAdded: true},
		Reply{Kind: ReplyChanged, ReqID: 5, DataChanged: true})
	if r.front.InFlight() != 0 || r.front.open.find(sequence) >= 0 {
		t.Errorf("%d in flight", r.front.InFlight())
	}
}
