package events

import (
	"github.com/coordd/coordd/coordination"
)

// Event is what happened.
type Event struct {
	coordination.Occurrence
	// Sequence numbers the events of a ring, from 1.
	Sequence uint64
}

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
	maxQueued   = 4096 / int(Classes)
	maxBuckets  = 4096
	longHold    = 60_000 // milliseconds
)

// Rare is an event that is kept for longer than the ring has it.
type Rare struct {
	Event
	Class Class
	Path  string // of the node, if that is not in More
	// More counts the events of the kind, class and node for which this one stands as well: the bucket had no token for
	// them, or they changed the same data within a second.
	More uint64
	// Led reports that this server led. Client is then the client that has changed configuration, if it is known.
	Led    bool
	Client *coordination.Client
}

// Where describes the state at an event.
type Where interface {
	PathOfNode(coordination.NodeID) string
	// ClientOf returns the client that has a session, nil if that is unknown.
	ClientOf(coordination.NodeID, coordination.SessionID) *coordination.Client
	Leads() bool
}

// bucketKey names a bucket. Acts draw by their user and not by the node: a user that makes nodes would have a bucket
// for each, and directories, users and limits have no node.
type bucketKey struct {
	class Class
	node  coordination.NodeID
	user  string
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
	case o.Kind == coordination.OccurLeader:
		key.group = leaders
	case class == Audit:
		if key.node = 0; o.More != nil {
			key.user = o.More.User
		}
	case o.Kind == coordination.OccurLockLost:
		key.group = lostLocks
	case o.More != nil && o.More.Held+o.More.Awaited > 0:
		key.group = endsWithLocks
	}
	return key
}

type sumKey struct {
	bucketKey
	kind coordination.OccurrenceKind
}

type dataKey struct {
	node      coordination.NodeID
	semaphore coordination.SemaphoreID
	second    uint64 // by the leaders' stamps, so that all servers have the same sums
	session   coordination.SessionID
	user      string
}

// rare is the queue of rare events between two calls of Take.
type rare struct {
	queues  [Classes][]Rare
	buckets map[bucketKey]int // tokens left, without those that have all
	sums    map[sumKey]int    // place in the queue of the event that stands for what had no token
	changed map[dataKey]int   // place in the queue of the first change of some data in a second
	lost    uint64            // events that had no place
}

// classOf returns the class of an event, false if it is not a rare one.
func classOf(o *coordination.Occurrence) (Class, bool) {
	switch o.Kind {
	case coordination.OccurAdministered, coordination.OccurNodeDropped:
		return Audit, true
	case coordination.OccurLeader:
		return Audit, o.More.Server != 0
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
func (r *rare) add(class Class, e *Event, where Where) {
	queue := &r.queues[class]
	changed := dataKey{node: e.Node, semaphore: e.SemaphoreID, second: e.StampMillis / 1000, session: e.Session}
	if e.More != nil {
		changed.user = e.More.User
	}
	if at, before := r.changed[changed]; before && e.Kind == coordination.OccurDataChanged {
		kept := &(*queue)[at]
		kept.Count = e.Count
		kept.More++
		return
	}
	key := keyOf(class, &e.Occurrence)
	left, drawn := r.buckets[key]
	if !drawn {
		left = burstEvents
	}
	sum := sumKey{key, e.Kind}
	switch at, summed := r.sums[sum]; {
	case left > 0 && (drawn || len(r.buckets) < maxBuckets):
		r.buckets[key] = left - 1
	case summed:
		(*queue)[at].More++
		return
	default:
		r.sums[sum] = len(*queue)
	}
	if len(*queue) >= maxQueued {
		r.lost++
		delete(r.sums, sum)
		return
	}
	kept := Rare{Event: *e, Class: class, Led: where.Leads()}
	if e.More == nil || e.More.Path == "" {
		kept.Path = where.PathOfNode(e.Node)
	}
	if e.Kind == coordination.OccurDataChanged {
		r.changed[changed] = len(*queue)
	}
	if kept.Led && class == Configuration {
		kept.Client = where.ClientOf(e.Node, e.Session)
	}
	*queue = append(*queue, kept)
}
