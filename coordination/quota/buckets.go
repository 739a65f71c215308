package quota

import (
	"container/heap"
	"math"

	"github.com/coordd/coordd/coordination"
)

// Bounds of what waits on a server. They are inclusive.
const (
	// MaxWaitersOfResource bounds the waiters for units of one resource.
	MaxWaitersOfResource = 10_000
	// MaxWaiters bounds all waiters.
	MaxWaiters = 100_000
	// MaxWaiterBytes bounds what they take, as Waiter.Bytes counts it.
	MaxWaiterBytes = 32 << 20
	// MaxRecent bounds the resources that Recent returns.
	MaxRecent = 1024
)

// fading is the factor in each tick for the supply of a bucket that hears of no leader: 0.999 in a second.
const fading = 0.99989995

// Demand announces to the leader whether a server asks for units of a resource.
type Demand struct {
	Resource coordination.ResourceKey
	Asks     bool
}

// Buckets are those of a server. They are not safe for concurrent use. NewBuckets makes them.
type Buckets struct {
	known   map[coordination.ResourceKey]*Bucket
	active  []*Bucket // that ask for more
	looks   byDue     // whose first waiter's turn may come by time
	changed []Demand
	recent  []*Bucket // see Recent
	ended   []*Waiter
	waiters int
	bytes   int
	sums    [2]Flow // of buckets whose nodes have aggregated counters, and of those with detailed ones
	fades   ticks   // of those that hear of no leader
	alone   bool    // no leader was heard of at the last tick
}

// NewBuckets is for a server on which nobody has acquired anything.
func NewBuckets() *Buckets { return &Buckets{known: make(map[coordination.ResourceKey]*Bucket)} }

// Find is the bucket of a resource, nil if nobody has used it here.
func (s *Buckets) Find(key coordination.ResourceKey) *Bucket { return s.known[key] }

// Learn is the bucket of a resource, which is full when it is new: that is drawn from nobody.
func (s *Buckets) Learn(key coordination.ResourceKey, e coordination.Effective) *Bucket {
	b := s.known[key]
	if b == nil {
		b = &Bucket{key: key, active: -1, place: -1, ticked: math.MinInt64, due: coordination.Never}
		b.set(e)
		b.sum = s.sumOf(e)
		b.level = b.capacity
		s.known[key] = b
	}
	return b
}

// Acquire grants an amount if that can be done on the spot, and reports whether it was.
func (s *Buckets) Acquire(now coordination.Instant, b *Bucket, amount uint64) bool {
	b.at(now)
	if b.first != nil || !b.may(now, float64(amount)) {
		return false
	}
	b.grant(now, float64(amount))
	s.note(b)
	s.settle(now, b)
	return true
}

// Use takes an amount that was used already, whatever there is.
func (s *Buckets) Use(now coordination.Instant, b *Bucket, amount uint64) {
	b.at(now)
	b.use(now, float64(amount))
	s.note(b)
	s.settle(now, b)
}

// Wait has somebody wait for an amount that Acquire could not grant. It reports whether there is room for one
// more.
func (s *Buckets) Wait(now coordination.Instant, b *Bucket, amount uint64, w *Waiter) bool {
	if b.waiters >= MaxWaitersOfResource || s.waiters >= MaxWaiters || s.bytes+w.Bytes > MaxWaiterBytes {
		return false
	}
	b.at(now)
	w.amount, w.bucket, w.End = float64(amount), b, Waits
	if w.previous = b.last; b.last == nil {
		b.first = w
	} else {
		b.last.next = w
	}
	b.last = w
	b.waiters++
	b.waiting += w.amount
	s.waiters++
	s.bytes += w.Bytes
	s.note(b)
	s.settle(now, b)
	return true
}

// Cancel ends a wait. It reports how the wait has ended, which may have been before.
func (s *Buckets) Cancel(now coordination.Instant, w *Waiter) End {
	if w.End != Waits {
		return w.End
	}
	b := w.bucket
	b.at(now)
	s.leave(w, Cancelled)
	s.serve(now, b)
	return Cancelled
}

// leave takes a waiter out of the queue.
func (s *Buckets) leave(w *Waiter, end End) {
	b := w.bucket
	if w.previous == nil {
		b.first = w.next
	} else {
		w.previous.next = w.next
	}
	if w.next == nil {
		b.last = w.previous
	} else {
		w.next.previous = w.previous
	}
	w.previous, w.next, w.End = nil, nil, end
	b.waiters--
	if b.waiting -= w.amount; b.waiters == 0 {
		b.waiting = 0 // whatever rounding has left
	}
	s.waiters--
	s.bytes -= w.Bytes
}

// serve grants what those who wait may have now, in their order.
func (s *Buckets) serve(now coordination.Instant, b *Bucket) {
	for w := b.first; w != nil && b.may(now, w.amount); w = b.first {
		b.grant(now, w.amount)
		s.leave(w, Granted)
		s.note(b)
		s.ended = append(s.ended, w)
	}
	s.settle(now, b)
}

// Recent returns the resources of which somebody wanted or got units since the last call, the first MaxRecent of them.
func (s *Buckets) Recent() (keys []coordination.ResourceKey) {
	for i, b := range s.recent {
		keys = append(keys, b.key)
		b.noted, s.recent[i] = false, nil
	}
	s.recent = s.recent[:0]
	return keys
}

// note makes a bucket one of those that Recent returns.
func (s *Buckets) note(b *Bucket) {
	if !b.noted && len(s.recent) < MaxRecent {
		b.noted = true
		s.recent = append(s.recent, b)
	}
}

// settle notes what follows from a bucket's new state: whether it asks for more, and when to look at it.
func (s *Buckets) settle(now coordination.Instant, b *Bucket) {
	if wants := b.wants(); wants != (b.active >= 0) {
		s.activate(now, b, wants)
	}
	if b.first == nil && b.place < 0 {
		return
	}
	b.due = b.nextLook(now)
	switch {
	case b.due == coordination.Never && b.place >= 0:
		heap.Remove(&s.looks, b.place)
	case b.due == coordination.Never:
	case b.place >= 0:
		heap.Fix(&s.looks, b.place)
	default:
		heap.Push(&s.looks, b)
	}
}

func (s *Buckets) activate(now coordination.Instant, b *Bucket, wants bool) {
	if wants {
		if len(s.active) == 0 {
			s.fades = ticks(grid(now))
		}
		b.active = len(s.active)
		s.active = append(s.active, b)
	} else {
		s.deactivate(b)
	}
	if !b.changed {
		b.changed = true
		s.changed = append(s.changed, Demand{Resource: b.key})
	}
}

func (s *Buckets) deactivate(b *Bucket) {
	last := len(s.active) - 1
	s.active[b.active] = s.active[last]
	s.active[b.active].active = b.active
	s.active[last] = nil
	s.active = s.active[:last]
	b.active = -1
}

// Receive takes in what the leader has given for some ticks.
func (s *Buckets) Receive(now coordination.Instant, key coordination.ResourceKey, amount float64, ticks int) {
	b := s.known[key]
	if b == nil || ticks <= 0 || !(amount > 0 && amount < enormous) {
		return
	}
	b.at(now)
	if perTick := amount / float64(ticks); b.average == 0 {
		b.average = perTick
	} else {
		b.average += (perTick - b.average) / ticksPerSecond
	}
	b.receive(amount)
	s.serve(now, b)
}

// Tick does what is due. led reports whether there is a leader to receive from; otherwise those buckets that
// ask for more go on with what they had lately, and a little less with every tick.
func (s *Buckets) Tick(now coordination.Instant, led bool) {
	for len(s.looks) > 0 && s.looks[0].due <= now {
		b := s.looks[0]
		b.at(now)
		s.serve(now, b)
	}
	if led || !s.alone {
		s.alone = !led
		s.fades.due(now)
		return
	}
	for range s.fades.due(now) {
		for i := len(s.active) - 1; i >= 0; i-- { // from the end: one may leave, and the last takes its place
			b := s.active[i]
			b.at(now)
			b.receive(b.average)
			b.average *= fading
			s.serve(now, b)
		}
	}
}

// Next is the time at which Tick is due.
func (s *Buckets) Next() coordination.Instant {
	next := coordination.Never
	if len(s.active) > 0 {
		next = s.fades.next()
	}
	if len(s.looks) > 0 {
		next = min(next, s.looks[0].due)
	}
	return next
}

// Alter gives the bucket of a resource other properties. What is above a smaller capacity is lost, a debt
// stays (older servers of YDB).
func (s *Buckets) Alter(now coordination.Instant, b *Bucket, e coordination.Effective) {
	b.at(now)
	b.set(e)
	b.sum = s.sumOf(e)
	if !b.keeps {
		b.level = min(b.level, b.capacity+b.waiting)
	}
	s.serve(now, b)
}

// OfNode calls do for every bucket of a node, in any order. do may drop it.
func (s *Buckets) OfNode(node coordination.NodeID, do func(*Bucket)) {
	for key, b := range s.known {
		if key.Node == node {
			do(b)
		}
	}
}

// All calls do for every bucket, in any order. do may drop it.
func (s *Buckets) All(do func(*Bucket)) {
	for _, b := range s.known {
		do(b)
	}
}

// Drop forgets the bucket of a resource that is gone, and ends the waits for it.
func (s *Buckets) Drop(b *Bucket) {
	s.endWaits(b, Dropped)
	if b.active >= 0 {
		s.deactivate(b)
		if !b.changed {
			b.changed = true
			s.changed = append(s.changed, Demand{Resource: b.key})
		}
	}
	delete(s.known, b.key)
}

func (s *Buckets) endWaits(b *Bucket, end End) {
	for w := b.first; w != nil; w = b.first {
		s.leave(w, end)
		s.ended = append(s.ended, w)
	}
	if b.place >= 0 {
		heap.Remove(&s.looks, b.place)
	}
}

// Stop ends all waits. Nothing is taken for them.
func (s *Buckets) Stop() {
	for _, b := range s.known {
		s.endWaits(b, Stopped)
	}
}

// Ended returns the waits that have ended since the last call, but for those that were cancelled. The slice
// is valid until something is done to the Buckets.
func (s *Buckets) Ended() []*Waiter {
	ended := s.ended
	s.ended = s.ended[:0]
	return ended
}

// Demands appends what has changed for the leader since the last call.
func (s *Buckets) Demands(into []Demand) []Demand {
	for _, d := range s.changed {
		if b := s.known[d.Resource]; b != nil {
			b.changed = false
			if d.Asks = b.active >= 0; d.Asks == b.reported {
				continue
			}
			b.reported = d.Asks
		}
		into = append(into, d)
	}
	s.changed = s.changed[:0]
	return into
}

// Changed reports whether Demands has something to say.
func (s *Buckets) Changed() bool { return len(s.changed) > 0 }

// Announce has Demands say everything to a leader who has heard nothing yet.
func (s *Buckets) Announce() {
	for _, d := range s.changed {
		if b := s.known[d.Resource]; b != nil {
			b.changed, b.reported = false, false
		}
	}
	s.changed = s.changed[:0]
	for _, b := range s.active {
		b.changed, b.reported = true, false
		s.changed = append(s.changed, Demand{Resource: b.key})
	}
}

// sumOf is where the flow of a bucket is summed up.
func (s *Buckets) sumOf(e coordination.Effective) *Flow {
	if e.Detailed {
		return &s.sums[1]
	}
	return &s.sums[0]
}

// Figures are for people.
type Figures struct {
	Buckets, Active, Waiters, WaiterBytes int
	// Aggregated and Detailed are the flows of the buckets, those that are dropped since included, by the counters mode
	// of their nodes at the time.
	Aggregated, Detailed Flow
}

// Figures counts. It takes no walk.
func (s *Buckets) Figures() Figures {
	return Figures{len(s.known), len(s.active), s.waiters, s.bytes, s.sums[0], s.sums[1]}
}

// byDue has the bucket first that is to be looked at first.
type byDue []*Bucket

func (h byDue) Len() int           { return len(h) }
func (h byDue) Less(i, j int) bool { return h[i].due < h[j].due }

func (h byDue) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *byDue) Push(x any) {
	b := x.(*Bucket)
	b.place = len(*h)
	*h = append(*h, b)
}

// Pop implements heap.Interface.
func (h *byDue) Pop() any {
	last := len(*h) - 1
	b := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	b.place = -1
	return b
}
