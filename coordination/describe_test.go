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
