package coordination

import (
	"slices"
	"testing"
)

var (
	describeLock = Request{Kind: RequestDescribe, Name: "lock"}
	watchOwners  = Request{Kind: RequestDescribe, Name: "lock", WatchOwners: true}
	watchData    = Request{Kind: RequestDescribe, Name: "lock", WatchData: true}
	createLock   = Request{Kind: RequestCreate, Name: "lock", Limit: 1}
	takeLock     = Request{Kind: RequestAcquire, Name: "lock", Count: 1}
)

func updateLock(data string) Request {
	return Request{Kind: RequestUpdate, Name: "lock", Data: []byte(data)}
}

// A relaxed describe waits for the writes to its node that were proposed before it, and for no others (§4.5).
func TestDescribeWaitsForEarlierWrites(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", relaxed)
	r.createNode("/local/b", relaxed)
	here, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	neighbour, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	elsewhere, _ := r.attach(AttachRequest{Path: "/local/b", TimeoutMillis: 1000})

	r.request(elsewhere, 1, createLock)
	r.request(here, 1, describeLock)
	r.expect("1 #1 Semaphore not found") // another node's writes do not matter
	r.applyAll()
	r.said()

	r.request(neighbour, 1, createLock)
	r.request(here, 2, describeLock)
	r.request(neighbour, 2, Request{Kind: RequestDelete, Name: "lock"})
	r.request(here, 3, describeLock)
	r.expect()
	r.applyOne()
	r.expect("2 #1 done false", "1 #2 described")
	r.applyOne()
	r.expect("2 #2 done false", "1 #3 Semaphore not found")
}

// Describes that wait are answered in the order in which they came, as many at once as have their turn.
func TestDescribesKeepTheirOrder(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", relaxed)
	stream, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(stream, 1, createLock)
	r.request(stream, 2, describeLock)
	r.request(stream, 3, describeLock)
	r.request(stream, 4, updateLock("x"))
	r.request(stream, 5, describeLock)
	r.applyOne()
	r.expect("1 #1 done false", "1 #2 described", "1 #3 described")
	r.applyOne()
	r.expect("1 #4 done false", "1 #5 described")
}

// The watch of a describe is armed when the describe is answered: a write before it is no news.
func TestWatchIsArmedWithTheAnswer(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", relaxed)
	stream, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(stream, 1, createLock)
	r.request(stream, 2, updateLock("before"))
	r.request(stream, 3, watchData)
	r.request(stream, 4, updateLock("after"))
	r.applyAll()
	r.expect("1 #1 done false", "1 #2 done false", "1 #3 described", "1 #4 done false",
		"1 #3 changed data=true owners=false")
	r.request(stream, 5, updateLock("once more"))
	r.applyAll()
	r.expect("1 #5 done false") // one shot
}

// What belongs to a stream that has lost its session meanwhile is not answered.
func TestDescribeOfALostSession(t *testing.T) {
	for _, strict := range []bool{false, true} {
		r := newRig(t)
		config := relaxed
		if strict {
			config.ReadConsistencyMode = ConsistencyStrict
		}
		r.createNode("/local/a", config)
		stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
		r.request(stream, 1, createLock)
		r.request(stream, 2, watchData)
		r.leader.Detach(r.now, stream)
		r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: session})
		r.applyAll()
		for _, barrier := range r.barriers {
			r.leader.BarrierPassed(barrier)
		}
		r.applyAll()
		r.expect("2 attached 1")
		if len(r.leader.nodes[1].watches) != 0 {
			t.Errorf("strict %v: a watch was armed for nobody", strict)
		}
	}
}

// Strict describes wait for a proof of leadership that began after they came; one proof is asked for at a
// time, and covers all that came before it (§4.5).
func TestStrictDescribes(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{ReadConsistencyMode: ConsistencyStrict})
	stream, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(stream, 1, createLock)
	r.applyAll()
	r.said()

	r.request(stream, 2, describeLock)
	r.request(stream, 3, describeLock)
	r.request(stream, 4, describeLock)
	if len(r.barriers) != 1 {
		t.Fatalf("barriers %v, want one", r.barriers)
	}
	r.leader.BarrierPassed(r.barriers[0] + 1) // not one of ours
	r.expect()
	r.leader.BarrierPassed(r.barriers[0])
	r.expect("1 #2 described")
	if len(r.barriers) != 2 {
		t.Fatalf("barriers %v, want a second one for those that came later", r.barriers)
	}
	r.leader.BarrierPassed(r.barriers[0]) // said twice
	r.expect()
	r.leader.BarrierPassed(r.barriers[1])
	r.expect("1 #3 described", "1 #4 described")
	r.leader.BarrierPassed(r.barriers[1])
	r.expect()
	if len(r.barriers) != 2 {
		t.Errorf("barriers %v, want no more", r.barriers)
	}
}

// A strict describe, too, sees the writes that its own stream sent before it.
func TestStrictDescribeBehindWrites(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{ReadConsistencyMode: ConsistencyStrict})
	stream, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(stream, 1, createLock)
	r.request(stream, 2, describeLock)
	r.leader.BarrierPassed(r.barriers[0])
	r.expect()
	r.applyAll()
	r.expect("1 #1 done false", "1 #2 described")
}

// strictStream is a rig with a stream on a node with strict reads, whose session has made the lock.
func strictStream(t *testing.T) (*rig, StreamID) {
	t.Helper()
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{ReadConsistencyMode: ConsistencyStrict})
	stream, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(stream, 1, createLock)
	r.applyAll()
	r.expect("1 #1 done false")
	return r, stream
}

// passBarrier passes the last barrier, and checks the leader.
func (r *rig) passBarrier() {
	r.t.Helper()
	r.replica.BarrierPassed(r.barriers[len(r.barriers)-1])
	r.take()
	if err := r.replica.Check(); err != nil {
		r.t.Fatal(err)
	}
}

// A strict describe has its place where it was sent: what its stream sends after it is executed after it, and its
// watch sees that. What others do meanwhile is not held up.
func TestStrictDescribeIsNotOvertaken(t *testing.T) {
	r, stream := strictStream(t)
	other, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(stream, 2, watchData)
	r.request(stream, 3, Request{Kind: RequestUpdate, Name: "lock", Data: []byte("new")})
	r.request(stream, 4, describeLock)
	r.request(stream, 5, Request{Kind: RequestUpdate, Name: "lock", Data: []byte("newer")})
	r.request(other, 1, release)
	r.applyAll()
	r.expect("2 #1 done false")
	r.passBarrier()
	if data := r.messages[0].Description.Data; len(data) != 0 {
		t.Errorf("the describe shows %q", data)
	}
	r.applyAll()
	r.expect("1 #2 described", "1 #3 done false", "1 #2 changed data=true owners=false")
	r.passBarrier()
	if data := r.messages[0].Description.Data; string(data) != "new" {
		t.Errorf("the second describe shows %q", data)
	}
	r.applyAll()
	r.expect("1 #4 described", "1 #5 done false")
}

// Strict describes that follow each other share a barrier.
func TestStrictDescribesShareABarrier(t *testing.T) {
	r, stream := strictStream(t)
	for sequence := range Sequence(3) {
		r.request(stream, 2+sequence, describeLock)
	}
	r.request(stream, 5, Request{Kind: RequestUpdate, Name: "lock"})
	r.passBarrier()
	r.passBarrier()
	r.applyAll()
	r.expect("1 #2 described", "1 #3 described", "1 #4 described", "1 #5 done false")
	if len(r.barriers) != 2 {
		t.Errorf("%d barriers", len(r.barriers))
	}
}

// SessionStopped comes after the answer to a strict describe, and nothing of the session is left.
func TestStrictDescribeThenStop(t *testing.T) {
	r, stream := strictStream(t)
	r.request(stream, 2, watchData)
	r.request(stream, 3, Request{Kind: RequestStop})
	r.applyAll()
	r.expect()
	r.passBarrier()
	r.applyAll()
	r.expect("1 #2 described", "1 stopped 1")
	if r.leader.Watches() != 0 {
		t.Errorf("%d watches are left", r.leader.Watches())
	}
}

// A session that ends, is stolen, or is left while a strict describe waits, takes the describe and all that waits
// for it along, whichever way it goes.
func TestStrictDescribeOfASessionThatGoes(t *testing.T) {
	update := Request{Kind: RequestUpdate, Name: "lock", Data: []byte("new")}
	for name, test := range map[string]struct {
		goes func(r *rig, stream StreamID)
		want []string
	}{
		"ended by an administrator": {func(r *rig, _ StreamID) {
			r.call(&EndSession{Node: 1, Session: 1})
		}, []string{"1 end Session has expired"}},
		"stolen": {func(r *rig, _ StreamID) {
			r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: 1, Server: 2})
		}, []string{"1 end Session stolen by another remote client", "2 attached 1"}},
		"no longer allowed": {func(r *rig, stream StreamID) {
			r.leader.streams[stream].rights |= 1 << 7 // which nobody has
			r.leader.RecheckAccess(r.now)
		}, []string{"1 end " + NoAccess.Text}},
		"dropped with its node": {func(r *rig, _ StreamID) { r.call(&DropNode{Path: []string{"local", "a"}}) },
			[]string{"1 end Link failure"}},
	} {
		r, stream := strictStream(t)
		r.request(stream, 2, watchData)
		r.request(stream, 3, update)
		test.goes(r, stream)
		r.applyAll()
		r.passBarrier()
		r.applyAll()
		r.expect(test.want...)
		if r.leader.Watches() != 0 {
			t.Errorf("%s: %d watches are left", name, r.leader.Watches())
		}
		if n := r.machine.nodes[1]; n != nil && len(n.semaphores["lock"].data) != 0 {
			t.Errorf("%s: what waited was executed", name)
		}
	}
}

// A client that is gone does not wait for its describes any more: what it sent after them is executed.
func TestStrictDescribeThenGone(t *testing.T) {
	r, stream := strictStream(t)
	r.request(stream, 2, watchData)
	r.request(stream, 3, Request{Kind: RequestUpdate, Name: "lock", Data: []byte("new")})
	r.request(stream, 4, watchData)
	r.request(stream, 5, Request{Kind: RequestStop})
	r.leader.Detach(r.now, stream)
	r.applyAll()
	r.passBarrier()
	r.expect()
	if n := r.machine.nodes[1]; string(n.semaphores["lock"].data) != "new" || len(n.sessions) != 0 {
		t.Errorf("data %q, %d sessions", n.semaphores["lock"].data, len(n.sessions))
	}
}

// A relaxed describe that waits behind the end of its session leaves no watch.
func TestDescribeBehindTheEnd(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", relaxed)
	stream, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(stream, 1, createLock)
	r.applyAll()
	r.call(&EndSession{Node: 1, Session: session})
	r.request(stream, 2, Request{Kind: RequestUpdate, Name: "lock"})
	r.request(stream, 3, watchData)
	r.said()
	r.applyAll()
	r.expect("1 end Session has expired")
	if err := r.replica.Check(); err != nil || r.leader.Watches() != 0 {
		t.Errorf("%v, %d watches", err, r.leader.Watches())
	}
}

// The leader changes while a strict describe waits: the next one executes what its stream asked for, in its order.
func TestStrictDescribeAndTheNextLeader(t *testing.T) {
	r, stream := strictStream(t)
	update := Request{Kind: RequestUpdate, Name: "lock", Data: []byte("new")}
	watch := watchData
	r.request(stream, 2, watch)
	r.request(stream, 3, update)
	roster := Roster{Node: 1, Session: 1, Epoch: r.leader.streams[stream].epoch, Rights: AllRights,
		Path: "/local/a", TimeoutMillis: 1000, Open: []OpenRequest{{Sequence: 2, Request: &watch},
			{Sequence: 3, Request: &update}}}
	for range 2 { // the second time the relay breaks, under the same leader
		r.forward(stream, Forward{Roster: &roster})
		r.request(stream, 4, describeLock)
		r.lead()
	}
	r.said()
	r.forward(stream, Forward{Roster: &roster})
	r.forward(stream, Forward{Roster: &roster})
	r.request(stream, 4, describeLock)
	r.passBarrier()
	r.passBarrier()
	r.applyAll()
	r.passBarrier()
	r.applyAll()
	r.expect("1 resumed", "1 resumed", "1 #2 described", "1 #3 done false",
		"1 #2 changed data=true owners=false", "1 #4 described")
}

// What waits for a strict describe is taken in time linear in its length.
func TestQueueAfterAStrictDescribe(t *testing.T) {
	cost := func(length int) float64 {
		return testing.AllocsPerRun(3, func() {
			r, stream := strictStream(t)
			r.lax = true
			r.request(stream, 2, describeLock)
			for i := range length {
				r.leader.Request(r.now, stream, &Forward{Sequence: Sequence(3 + i), Request: &update0})
			}
			r.passBarrier()
			if r.take(); len(r.inFlight) != length || r.leader.streams[stream].later != nil {
				t.Fatalf("%d requests are taken, and the queue is kept: %v", len(r.inFlight),
					r.leader.streams[stream].later != nil)
			}
		})
	}
	if few, many := cost(1000), cost(10_000); many > 20*few {
		t.Errorf("1,000 requests allocate %v times, 10,000 %v", few, many)
	}
}

var update0 = Request{Kind: RequestUpdate, Name: "lock"}

// A describe of a node that is dropped meanwhile has nobody to go to.
func TestDescribeOfADroppedNode(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{ReadConsistencyMode: ConsistencyStrict})
	stream, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(stream, 1, describeLock)
	r.call(&DropNode{Path: []string{"local", "a"}})
	r.applyAll()
	r.leader.BarrierPassed(r.barriers[0])
	r.expect("1 end Link failure")
}

// Owners and waiters are described on request only, in the order of their ids; an owner's timeout is 0
// (§3.8).
func TestDescription(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", relaxed)
	var streams []StreamID
	for range 4 {
		stream, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
		streams = append(streams, stream)
	}
	r.request(streams[0], 1, Request{Kind: RequestCreate, Name: "lock", Limit: 2, Data: []byte("about")})
	for i, stream := range streams {
		r.request(stream, 2, Request{Kind: RequestAcquire, Name: "lock", Count: 1,
			TimeoutMillis: 1000 + uint64(i), Data: []byte{byte(i)}})
	}
	r.applyAll()
	r.messages = nil
	for _, c := range []struct{ owners, waiters bool }{{false, false}, {true, false}, {false, true},
		{true, true}} {
		r.request(streams[0], 3, Request{Kind: RequestDescribe, Name: "lock", IncludeOwners: c.owners,
			IncludeWaiters: c.waiters})
		d := r.messages[0].Description
		r.messages = nil
		if d.Name != "lock" || string(d.Data) != "about" || d.Count != 2 || d.Limit != 2 || d.Ephemeral {
			t.Errorf("%+v", d)
		}
		links := slices.AppendSeq(slices.Collect(d.Owners.All()), d.Waiters.All())
		if (d.Owners.Len() == 2) != c.owners || (d.Waiters.Len() == 2) != c.waiters {
			t.Errorf("%+v: %d owners, %d waiters", c, d.Owners.Len(), d.Waiters.Len())
		}
		if !c.owners || !c.waiters {
			continue
		}
		for i, l := range links {
			timeout := uint64(0)
			if i >= 2 {
				timeout = 1000 + uint64(i)
			}
			if l.Order != OrderID(i+1) || l.Session != SessionID(i+1) || l.TimeoutMillis != timeout ||
				l.Count != 1 || l.Data[0] != byte(i) {
				t.Errorf("link %d: %+v", i, l)
			}
		}
	}
}

// TestSizeOfADescriptionTakesNoWalk: what a description that is too large costs does not depend on how many
// links there are, because none is looked at.
func TestSizeOfADescriptionTakesNoWalk(t *testing.T) {
	sem := &semaphore{name: "lock"}
	sem.owners.length, sem.waiters.length = 1_000_000, 1_000_000 // and no link to walk over
	for _, c := range []struct{ owners, waiters bool }{{true, false}, {false, true}} {
		if bytes := describedBytes(sem, c.owners, c.waiters); bytes <= MaxDescribedBytes {
			t.Errorf("%+v: a million links are described in %d bytes", c, bytes)
		}
	}
	if bytes := describedBytes(sem, false, false); bytes > 100 {
		t.Errorf("without owners and waiters %d bytes", bytes)
	}
}
