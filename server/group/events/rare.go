package events

import (
	"math"
	"slices"

	"github.com/coordd/coordd/coordination"
)

const longHold = 60_000 // milliseconds

// Rare is an event that is kept for longer than the ring has it.
type Rare struct {
	coordination.Occurrence // More is not nil
	Class                   Class
	// Skipped counts the events for which this one stands as well, the last of them at an index and number: changes of
	// the same data within a second, or, if SumsKind, events of the kind and class that had no token: of the node, or,
	// without a node and an act, of all at More.Path, or of the user.
	Skipped    uint64
	LastIndex  coordination.Index
	LastNumber uint32
	SumsKind   bool
	Led        bool // this server did
}

// Where describes the state at an event.
type Where interface {
	PathOfNode(coordination.NodeID) string
	// TenantOf returns the directory directly below the database that has a node, "" if the node itself is directly
	// below it, or NoTenant. It is called for each event: it has to be cheap.
	TenantOf(coordination.NodeID) string
	PathOfTenant(string) string
	// ClientOf returns the client that has a session, nil if that is unknown.
	ClientOf(coordination.NodeID, coordination.SessionID) *coordination.Client
	Leads() bool
	// StampMillis returns the time of the log.
	StampMillis() uint64
}

// keyOf returns the bucket of an event. Acts draw by their user and act, and not by the node: a user that makes nodes
// would have a bucket for each, directories, users and limits have no node, and nobody hides a grant among directories.
func keyOf(class Class, o *coordination.Occurrence, where Where) bucketKey {
	key := bucketKey{class: class}
	switch {
	case o.Kind == coordination.OccurLeader, o.Kind == coordination.OccurSkipped:
		key.group = leaders
		return key
	case class == Audit:
		if o.More != nil {
			key.tenant = o.More.User
			key.act = o.More.Act
		}
		return key
	case o.Kind == coordination.OccurLockLost:
		key.group = lostLocks
	case o.More != nil && o.More.Held+o.More.Awaited > 0:
		key.group = endsWithLocks
	}
	key.node, key.tenant = o.Node, where.TenantOf(o.Node)
	return key
}

// sumKey names a sum: of a level and kind, or of changes of the same data.
type sumKey struct {
	bucketKey
	level     level
	kind      coordination.OccurrenceKind
	semaphore coordination.SemaphoreID // 0: of the bucket
	session   coordination.SessionID
	user      string
}

// rare is the queue of rare events between two calls of Take. Tokens come back, and sums end, with the seconds of the
// leaders' stamps, so that all servers have the same sums.
type rare struct {
	shares
	queues [Classes][]Rare
	second uint64         // the present one
	open   map[sumKey]int // place in the queue of its class of an event that others of this second join
	waited bool           // the last Take left open events
	lost   uint64         // events that had no place
}

// pass begins a second of the log.
func (r *rare) pass(second uint64) {
	passed := int(min(second-r.second, maxRefill))
	r.second, r.waited = second, false
	clear(r.open)
	r.refill(passed)
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
	key := keyOf(class, o, where)
	sum := sumKey{bucketKey: key, kind: o.Kind}
	if r.join(sum, o) { // a sum has all after its first one
		return
	}
	data := sum
	if o.Kind == coordination.OccurDataChanged {
		data.semaphore, data.session = o.SemaphoreID, o.Session
		if o.More != nil {
			data.user = o.More.User
		}
		if r.join(data, o) {
			return
		}
	}
	drawn, shared := r.drawFor(key)
	single, level := drawn.admit()
	for sum.level = ofTenant; !single && sum.level < levels; sum.level++ {
		sum.bucketKey = shared.summedAt(sum.level)
		if r.join(sum, o) {
			return
		}
	}
	queue := &r.queues[class]
	if len(*queue) >= maxQueued {
		r.lost++
		return
	}
	kept := Rare{Occurrence: *o, Class: class, Led: where.Leads(), SumsKind: !single}
	kept.More = new(coordination.OccurrenceMore)
	if o.More != nil {
		*kept.More = *o.More
	}
	switch {
	case single && o.Kind == coordination.OccurDataChanged:
		r.open[data] = len(*queue)
	case !single:
		if sum.level, sum.bucketKey = level, key; level != ofNode {
			sum.bucketKey = shared.summedAt(level)
		}
		r.open[sum] = len(*queue)
	}
	if kept.SumsKind && level != ofNode {
		kept.ofMany(level, where.PathOfTenant(sum.tenant))
	} else if kept.More.Path == "" {
		kept.More.Path = where.PathOfNode(o.Node)
	}
	drawn.charge(single, level, tokensOf(&kept))
	if kept.Led && class == Configuration && kept.Node != 0 {
		if c := where.ClientOf(o.Node, o.Session); c != nil {
			kept.More.Client = *c
		}
	}
	*queue = append(*queue, kept)
}

// join adds an event to a sum, and reports whether that is open.
func (r *rare) join(sum sumKey, o *coordination.Occurrence) bool {
	at, isOpen := r.open[sum]
	if !isOpen {
		return false
	}
	kept := &r.queues[sum.class][at]
	if kept.Skipped++; !kept.SumsKind {
		kept.Count = o.Count
	}
	kept.LastIndex, kept.LastNumber = o.Index, o.Number
	return true
}

// ofMany leaves of the first event of a sum what is true of all of them: they are of several nodes, or acts.
func (r *Rare) ofMany(level level, path string) {
	more := &coordination.OccurrenceMore{Path: path, Held: r.More.Held, Awaited: r.More.Awaited,
		Contended: r.More.Contended}
	if r.Class == Audit {
		if more.Path = ""; level == ofTenant {
			more.User = r.More.User
		}
	}
	r.Occurrence = coordination.Occurrence{Kind: r.Kind, Cause: r.Cause, Index: r.Index, Number: r.Number,
		StampMillis: r.StampMillis, More: more}
}

// tokensOf returns the tokens of a record. It is the same on all servers: only a leader knows the client of a change.
func tokensOf(r *Rare) int {
	more := r.More
	bytes := recordBytes + len(r.Semaphore) + len(more.Path) + len(more.Act) + len(more.Target) + len(more.User) +
		len(more.Reason) + len(more.Description) + len(more.Client.Peer) + len(more.Client.Library) +
		len(more.Client.User)
	for _, name := range more.Names {
		bytes += len(name)
	}
	if r.Class == Configuration && r.Session != 0 {
		bytes += coordination.MaxClientBytes
	}
	return bytes/tokenBytes + 1
}
