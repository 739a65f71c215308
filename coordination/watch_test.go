package coordination

import (
	"fmt"
	"testing"
)

// watched is a node with one semaphore and some sessions.
func watched(t *testing.T, sessions int) (*rig, []StreamID) {
	r := newRig(t)
	r.createNode("/local/a", relaxed)
	var streams []StreamID
	for range sessions {
		stream, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
		streams = append(streams, stream)
	}
	r.request(streams[0], 1, createLock)
	r.applyAll()
	r.messages = nil
	return r, streams
}

// Watches fire in the order in which they were installed, only those that asked for the kind of change, with
// the pair of the event (§4.1).
func TestWatchesFireInOrder(t *testing.T) {
	r, s := watched(t, 4)
	both := Request{Kind: RequestDescribe, Name: "lock", WatchData: true, WatchOwners: true}
	r.request(s[2], 2, watchData)
	r.request(s[0], 2, both)
	r.request(s[3], 2, watchOwners)
	r.request(s[1], 2, watchData)
	r.said()
	r.request(s[0], 3, updateLock("x"))
	r.applyAll()
	r.expect("1 #3 done false", "3 #2 changed data=true owners=false", "1 #2 changed data=true owners=false",
		"2 #2 changed data=true owners=false")
	r.request(s[0], 4, takeLock)
	r.applyAll()
	r.expect("1 #4 done true", "4 #2 changed data=false owners=true")
	if len(r.leader.nodes[1].watches) != 0 {
		t.Error("a watch is left")
	}
	if n := r.leader.Watches(); n != 0 {
		t.Errorf("%d watches are counted after the end", n)
	}
}

// A session has one watch on a semaphore: a second describe replaces the first, which is notified. It then stands at
// the end of the list.
func TestWatchIsReplaced(t *testing.T) {
	r, s := watched(t, 2)
	r.request(s[0], 2, watchData)
	r.request(s[1], 2, watchData)
	r.said()
	r.request(s[0], 3, watchOwners)
	r.expect("1 #2 changed data=false owners=false", "1 #3 described")
	r.request(s[0], 4, updateLock("x"))
	r.applyAll()
	r.expect("1 #4 done false", "2 #2 changed data=true owners=false") // the first wish is gone
	r.request(s[0], 5, watchData)
	r.expect("1 #3 changed data=false owners=false", "1 #5 described")
	r.request(s[0], 6, describeLock) // without a wish: the watch stays
	r.expect("1 #6 described")
	r.request(s[1], 7, updateLock("y"))
	r.applyAll()
	r.expect("2 #7 done false", "1 #5 changed data=true owners=false")
}

// The watchers of a deleted semaphore are notified; one of the same name that is made later is another one.
func TestWatchOfADeletedSemaphore(t *testing.T) {
	r, s := watched(t, 2)
	r.request(s[0], 2, watchData)
	r.request(s[1], 2, watchOwners)
	r.said()
	r.request(s[0], 3, Request{Kind: RequestDelete, Name: "lock"})
	r.request(s[0], 4, createLock)
	r.request(s[0], 5, updateLock("x"))
	r.applyAll()
	r.expect("1 #2 changed data=true owners=true", "2 #2 changed data=true owners=true", "1 #3 done false",
		"1 #4 done false", "1 #5 done false")
}

// Watches go silently with the stream that asked for them, wherever they stand in the list.
func TestWatchesAreDropped(t *testing.T) {
	for at := range 3 {
		for _, how := range []string{"detach", "theft", "stop"} {
			t.Run(fmt.Sprint(how, " of ", at), func(t *testing.T) {
				r, s := watched(t, 4)
				var want []string
				for i := range 3 {
					r.request(s[i], 2, watchData)
					if i != at {
						want = append(want, fmt.Sprintf("%d #2 changed data=true owners=false", s[i]))
					}
				}
				switch how {
				case "detach":
					r.leader.Detach(r.now, s[at])
				case "theft":
					r.open(AttachRequest{Path: "/local/a", TimeoutMillis: 1000, Session: SessionID(at + 1)})
				case "stop":
					r.request(s[at], 3, Request{Kind: RequestStop})
				}
				r.applyAll()
				r.said()
				if n := r.leader.Watches(); n != 2 {
					t.Errorf("%d watches are counted, want 2", n)
				}
				r.request(s[3], 3, updateLock("x"))
				r.applyAll()
				if n := r.leader.Watches(); n != 0 {
					t.Errorf("%d watches are counted behind the change", n)
				}
				r.expect(append([]string{"4 #3 done false"}, want...)...)
			})
		}
	}
}

// One session may watch many semaphores, and loses all of these watches at once.
func TestWatchesOfManySemaphores(t *testing.T) {
	r, s := watched(t, 2)
	for i := range 5 {
		name := fmt.Sprint("s", i)
		r.request(s[0], Sequence(10+2*i), Request{Kind: RequestCreate, Name: name, Limit: 1})
		r.applyAll()
		r.request(s[0], Sequence(11+2*i), Request{Kind: RequestDescribe, Name: name, WatchData: true})
	}
	r.said()
	r.request(s[1], 1, Request{Kind: RequestUpdate, Name: "s3", Data: []byte("x")})
	r.applyAll()
	r.expect("2 #1 done false", "1 #17 changed data=true owners=false")
	if n := r.leader.Watches(); n != 4 {
		t.Errorf("%d watches are counted, want 4", n)
	}
	r.leader.Detach(r.now, s[0])
	if n := r.leader.nodes[1]; len(n.watches) != 0 || len(n.sessions[1].watches) != 0 {
		t.Error("a watch is left")
	}
}

// A grant, a release and a lowered count are changes of the owners; an acquire that changes nothing, and one that only
// queues, are not (§4.1).
func TestWhatChangesOwners(t *testing.T) {
	r, s := watched(t, 3)
	r.request(s[0], 2, Request{Kind: RequestCreate, Name: "door", Limit: 2})
	take := Request{Kind: RequestAcquire, Name: "door", Count: 2, TimeoutMillis: Infinite}
	lower := take
	lower.Count = 1
	sequence := Sequence(2)
	changes := func(stream StreamID, request Request) bool {
		sequence++
		r.request(s[2], sequence, Request{Kind: RequestDescribe, Name: "door", WatchOwners: true})
		sequence++
		r.request(stream, sequence, request)
		r.applyAll()
		changed := false
		for _, m := range r.messages {
			changed = changed || m.Kind == MessageChanged && m.OwnersChanged
		}
		r.messages = nil
		return changed
	}
	for i, c := range []struct {
		stream  StreamID
		request Request
		want    bool
	}{
		{s[0], take, true}, {s[0], take, false}, {s[1], lower, false}, {s[0], lower, true},
		{s[0], Request{Kind: RequestRelease, Name: "door"}, true},
		{s[0], Request{Kind: RequestRelease, Name: "door"}, false},
	} {
		if got := changes(c.stream, c.request); got != c.want {
			t.Errorf("step %d: owners changed %v, want %v", i, got, c.want)
		}
	}
}

// A node that is dropped takes its watches with it.
func TestWatchesOfADroppedNodeAreNotCounted(t *testing.T) {
	r, s := watched(t, 2)
	r.request(s[0], 2, watchData)
	r.request(s[1], 2, watchData)
	r.applyAll()
	if n := r.leader.Watches(); n != 2 {
		t.Fatalf("%d watches are counted, want 2", n)
	}
	r.call(&DropNode{Path: []string{"local", "a"}})
	r.applyAll()
	if n := r.leader.Watches(); n != 0 {
		t.Errorf("%d watches are counted, want 0", n)
	}
}
