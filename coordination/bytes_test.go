package coordination

import (
	"strings"
	"testing"
)

// ofBytes is a text of the given size.
func ofBytes(size int) []byte { return []byte(strings.Repeat("x", size)) }

// rigWithBytes is a rig with one node that may hold so many bytes, and one session.
func rigWithBytes(t *testing.T, bytes uint64) (*rig, StreamID, *node) {
	r := newRig(t)
	r.machine.limits.NodeBytes = bytes
	id := r.createNode("/local/a", relaxed)
	stream, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	return r, stream, r.machine.nodes[id]
}

// Each way in which a node grows is accepted at exactly the limit and refused one byte past it, without a
// trace.
func TestNodeBytes(t *testing.T) {
	const full = 100
	const name = "lock" // 4 bytes
	acquire := func(size int) Request {
		return Request{Kind: RequestAcquire, Name: name, Count: 1, Data: ofBytes(size),
			TimeoutMillis: Infinite}
	}
	ephemeral := func(size int) Request {
		r := acquire(size)
		r.Ephemeral = true
		return r
	}
	create := func(size int) Request {
		return Request{Kind: RequestCreate, Name: name, Limit: 1, Data: ofBytes(size)}
	}
	for _, c := range []struct {
		what   string
		before []Request
		grow   func(size int) Request
		room   int // for the data of what grows
	}{
		{"create", nil, create, 96},
		{"update", []Request{create(50)}, func(size int) Request { return updateLock(string(ofBytes(size))) },
			96},
		{"first ephemeral acquire", nil, ephemeral, 96},
		{"acquire", []Request{create(50)}, acquire, 46},
		{"acquire again", []Request{create(50), acquire(5)}, acquire, 46},
	} {
		for past := range 2 {
			r, stream, n := rigWithBytes(t, full)
			for i, request := range c.before {
				r.request(stream, Sequence(i+1), request)
			}
			r.applyAll()
			r.said()
			before := n.bytes
			r.request(stream, 9, c.grow(c.room+past))
			r.applyAll()
			answer := strings.Join(r.said(), ", ")
			refused := strings.Contains(answer, "Coordination node has no space left")
			switch {
			case past == 0 && (refused || n.bytes != full):
				t.Errorf("%s at the limit: %s, %d bytes", c.what, answer, n.bytes)
			case past == 1 && (!refused || n.bytes != before):
				t.Errorf("%s past the limit: %s, %d bytes, %d before", c.what, answer, n.bytes, before)
			}
		}
	}
}

// A waiter counts as well. One that asks again past the limit keeps its older request; one that tries loses
// it.
func TestNodeBytesOfWaiter(t *testing.T) {
	r, owner, n := rigWithBytes(t, 20)
	waiter, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	wait := func(size int, timeout uint64) Request {
		return Request{Kind: RequestAcquire, Name: "lock", Count: 1, Ephemeral: true, Data: ofBytes(size),
			TimeoutMillis: timeout}
	}
	all := wait(0, 0)
	all.Count = Infinite
	r.request(owner, 1, all)
	r.request(waiter, 1, wait(17, 1000))
	r.request(waiter, 2, wait(10, 1000))
	r.request(waiter, 3, wait(17, 1000))
	r.request(waiter, 4, wait(16, 1000))
	r.applyAll()
	r.expect("1 #1 done true", "2 #1 Coordination node has no space left", "2 #2 pending",
		"2 #3 Coordination node has no space left", "2 #2 Operation superseded by another request",
		"2 #4 pending")
	if n.bytes != 20 {
		t.Errorf("%d bytes, want 20", n.bytes)
	}
	r.request(waiter, 5, wait(100, 0))
	r.request(owner, 2, Request{Kind: RequestRelease, Name: "lock"})
	r.applyAll()
	r.expect("2 #4 Operation superseded by another request", "2 #5 done false", "1 #2 done true")
	if n.bytes != 0 {
		t.Errorf("%d bytes are left", n.bytes)
	}
}

// Where the limit was lowered since, what does not grow is still accepted.
func TestNodeBytesShrink(t *testing.T) {
	r, stream, n := rigWithBytes(t, 100)
	r.request(stream, 1, createLock)
	r.request(stream, 2, updateLock(string(ofBytes(90))))
	r.applyAll()
	r.machine.limits.NodeBytes = 10
	r.request(stream, 3, updateLock(string(ofBytes(80))))
	r.request(stream, 4, updateLock(string(ofBytes(81))))
	r.request(stream, 5, Request{Kind: RequestDelete, Name: "lock"})
	r.applyAll()
	r.expect("1 #1 done false", "1 #2 done false", "1 #3 done false",
		"1 #4 Coordination node has no space left", "1 #5 done false")
	if n.bytes != 0 {
		t.Errorf("%d bytes are left", n.bytes)
	}
}

// A description of exactly the limit is sent; one byte more is refused, and no watch is set then.
func TestDescribedBytes(t *testing.T) {
	r, stream, n := rigWithBytes(t, 0)
	r.request(stream, 1, Request{Kind: RequestCreate, Name: "lock", Limit: Infinite})
	r.applyAll()
	owner := func(size int) {
		s, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
		r.request(s, 1, Request{Kind: RequestAcquire, Name: "lock", Count: 1, Data: ofBytes(size)})
		r.applyAll()
	}
	sem := n.semaphores["lock"]
	for describedBytes(sem, true, true)+MaxAcquireDataBytes+128 < MaxDescribedBytes {
		owner(MaxAcquireDataBytes)
	}
	owner(MaxDescribedBytes - describedBytes(sem, true, true) - 64)
	r.said()
	describe := Request{Kind: RequestDescribe, Name: "lock", IncludeOwners: true, WatchData: true}
	r.request(stream, 2, describe)
	r.expect("1 #2 described")
	r.request(stream, 3, updateLock("x"))
	r.applyAll()
	r.expect("1 #3 done false", "1 #2 changed data=true owners=false")
	r.request(stream, 4, describe)
	r.expect("1 #4 Semaphore description is too large to send")
	r.request(stream, 5, updateLock("y"))
	r.applyAll()
	r.expect("1 #5 done false")
	r.request(stream, 6, describeLock)
	r.expect("1 #6 described")
}
