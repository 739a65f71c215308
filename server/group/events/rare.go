package events

import (
	"math"
	"slices"

	"github.com/coordd/coordd/coordination"
)

// Class groups rare events that are kept together: a flood of one class displaces nothing of another.
type Class int

// The classes.
const (
	Audit         Class = iota // acts of administrators, and leaders
	AbnormalEnds               // of sessions, and of their locks
	OtherEnds                  // sessions that their clients stopped with locks, and long holds
	Configuration              // persistent semaphores and their data

	Classes
)

// The token bucket of a class and node, and the bound on a queue.
const (
	burstEvents = 500
	eventsAgain = 10 // a second
	actsAgain   = 1  // of the class Audit
	maxQueued   = 16_384 / int(Classes)
	maxDrawn    = 1280 // tokens of a class in a second: a tenant's nodes leave room in the queue for others' sums
	maxBuckets  = 4096
	longHold    = 60_000 // milliseconds
)

// Rare is an event that is kept for longer than the ring has it.
type Rare struct {
	coordination.Occurrence // More is not nil
	Class                   Class
	// Skipped counts the events for which this one stands as well, the last of them at an index and number: changes of
	// the same data within a second, or, if SumsKind, events of the kind, class and node that had no token.
	Skipped    uint64
	LastIndex  coordination.Index
	LastNumber uint32
	SumsKind   bool
	Led        bool // this server did
}

// Where describes the state at an event.
type Where interface {
	PathOfNode(coordination.NodeID) string
	// ClientOf returns the client that has a session, nil if that is unknown.
	ClientOf(coordination.NodeID, coordination.SessionID) *coordination.Client
	Leads() bool
	// StampMillis returns the time of the log.
	StampMillis() uint64
}

// bucketKey names a bucket. Acts draw by their user and act, and not by the node: a user that makes nodes would have a
// bucket for each, directories, users and limits have no node, and nobody hides a grant among directories.
type bucketKey struct {
	class Class
	node  coordination.NodeID
	user  string
	act   string
	group group
}

// group parts what a client can have in masses from what is looked for.
type group int

const (
	others group = iota
	endsWithLocks
	lostLocks
	leaders
)

func keyOf(class Class, o *coordination.Occurrence) bucketKey {
	key := bucketKey{class: class, node: o.Node}
	switch {
	case o.Kind == coordination.OccurLeader, o.Kind == coordination.OccurSkipped:
		key.group = leaders
	case class == Audit:
		if key.node = 0; o.More != nil {
			key.user = o.More.User
			key.act = o.More.Act
		}
	case o.Kind == coordination.OccurLockLost:
		key.group = lostLocks
	case o.More != nil && o.More.Held+o.More.Awaited > 0:
		key.group = endsWithLocks
	}
	return key
}

// sumKey names a sum: of a bucket and kind, or of changes of the same data.
type sumKey struct {
	bucketKey
	kind      coordination.OccurrenceKind
	semaphore coordination.SemaphoreID // 0: of the bucket
	session   coordination.SessionID
	user      string
}

// rare is the queue of rare events between two calls of Take. Tokens come back, and sums end, with the seconds of the
// leaders' stamps, so that all servers have the same sums.
type rare struct {
	queues  [Classes][]Rare
	second  uint64            // the present one
	buckets map[bucketKey]int // tokens left, without those that have all
	drawn   [Classes]int      // tokens in this second
	open    map[sumKey]int    // place in the queue of its class of an event that others of this second join
	waited  bool              // the last Take left open events
	lost    uint64            // events that had no place
}

// pass begins a second of the log.
func (r *rare) pass(second uint64) {
	passed := int(min(second-r.second, burstEvents))
	r.second, r.waited = second, false
	clear(r.open)
	r.drawn = [Classes]int{}
	for key, left := range r.buckets {
		again := eventsAgain
		if key.class == Audit {
			again = actsAgain
		}
		if left += passed * again; left >= burstEvents {
			delete(r.buckets, key)
		} else {
			r.buckets[key] = left
		}
	}
}

// take returns what no other event can join any more. What is open, and what came after it, waits for one more call:
// meanwhile the second of the log passes, unless nothing happens, or this server lags.
func (r *rare) take(all bool) (taken []Rare) {
	all = all || r.waited
	ends := [Classes]int{}
	until := coordination.Index(math.MaxUint64)
	for key, at := range r.open {
		if all {
			break
		}
		until = min(until, r.queues[key.class][at].Index)
	}
	for class, queue := range r.queues {
		for ends[class] < len(queue) && queue[ends[class]].Index < until {
			ends[class]++
		}
		taken = append(taken, queue[:ends[class]]...)
		r.queues[class] = slices.Clone(queue[ends[class]:])
	}
	r.waited = !all && len(r.open) > 0
	if all {
		clear(r.open)
	}
	for key := range r.open {
		r.open[key] -= ends[key.class]
	}
	return taken
}

// classOf returns the class of an event, false if it is not a rare one.
func classOf(o *coordination.Occurrence) (Class, bool) {
	switch o.Kind {
	case coordination.OccurAdministered, coordination.OccurNodeDropped:
		return Audit, true
	case coordination.OccurLeader:
		return Audit, o.Number != 0
	case coordination.OccurSkipped:
		return Audit, true
	case coordination.OccurSessionExpired, coordination.OccurSessionEnded:
		return AbnormalEnds, true
	case coordination.OccurSessionStopped:
		if o.More != nil && o.More.Contended {
			return AbnormalEnds, true
		}
		return OtherEnds, o.More != nil
	case coordination.OccurLockLost:
		switch {
		case o.Cause != 0 && o.Cause != coordination.OccurSessionStopped:
			return AbnormalEnds, true
		case o.Before != 0 && o.StampMillis >= o.Before+longHold:
			return OtherEnds, true
		}
	case coordination.OccurSemaphoreCreated, coordination.OccurDataChanged, coordination.OccurSemaphoreDeleted:
		return Configuration, true
	}
	return 0, false
}

// add queues an event of a class.
func (r *rare) add(class Class, o *coordination.Occurrence, where Where) {
	queue := &r.queues[class]
	user := ""
	if o.More != nil {
		user = o.More.User
	}
	bucket := keyOf(class, o)
	data := sumKey{bucket, o.Kind, o.SemaphoreID, o.Session, user}
	sum := sumKey{bucketKey: bucket, kind: o.Kind}
	if o.Kind != coordination.OccurDataChanged {
		data = sum
	}
	for _, key := range []sumKey{sum, data} { // a sum has all behind its first one
		at, isOpen := r.open[key]
		if !isOpen {
			continue
		}
		kept := &(*queue)[at]
		if kept.Skipped++; !kept.SumsKind {
			kept.Count = o.Count
		}
		kept.LastIndex, kept.LastNumber = o.Index, o.Number
		return
	}
	if len(*queue) >= maxQueued {
		r.lost++
		return
	}
	more := new(coordination.OccurrenceMore)
	if o.More != nil {
		*more = *o.More
	}
	kept := Rare{Occurrence: *o, Class: class, Led: where.Leads()}
	kept.More = more
	left, drawn := r.buckets[bucket]
	if !drawn {
		left = burstEvents
	}
	if left > 0 && r.drawn[class] < maxDrawn && (drawn || len(r.buckets) < maxBuckets) {
		r.buckets[bucket] = left - 1
		r.drawn[class]++
	} else {
		kept.SumsKind = true
	}
	switch {
	case kept.SumsKind:
		r.open[sum] = len(*queue)
	case o.Kind == coordination.OccurDataChanged:
		r.open[data] = len(*queue)
	}
	if more.Path == "" {
		more.Path = where.PathOfNode(o.Node)
	}
	if kept.Led && class == Configuration {
		if c := where.ClientOf(o.Node, o.Session); c != nil {
			more.Client = *c
		}
	}
	*queue = append(*queue, kept)
}
