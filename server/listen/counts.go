package listen

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/coordd/coordd/server/share"
)

// calls counts the calls that are under way, each kind in a pool of its own and by the subject that calls.
type calls struct {
	mutex sync.Mutex
	pools [kinds]*share.Pool
	// The calls of unknown callers whose request has not come, the oldest first, by subject and by connection, and
	// those whose end has not been written, by connection. What has no such call is not in the maps.
	waiting  [kinds]map[share.Subject]*list.List
	waitOn   [kinds]map[*meteredConn]*list.List
	lingerOn [kinds]map[*meteredConn]*list.List
	waited   uint64 // the calls that have begun to wait
	said     occasion

	refused [kinds]atomic.Uint64
}

func (c *calls) init(limits Limits) {
	for kind, places := range [kinds]int{Brief: limits.Calls, Standing: limits.Standing, Session: limits.Streams,
		Probe: max(1, limits.Calls/probePart)} {
		c.pools[kind] = share.NewPool(places)
		c.waiting[kind] = make(map[share.Subject]*list.List)
		c.waitOn[kind] = make(map[*meteredConn]*list.List)
		c.lingerOn[kind] = make(map[*meteredConn]*list.List)
	}
}

// arrive counts in a call that has not been authenticated, if there is room: under the subject that called last
// on its connection, if that was known and may have one more, or else under the connection: a flood may come
// from the address of others.
func (c *Connections) arrive(call *Call) bool {
	var last share.Subject
	remote := ""
	if call.conn != nil {
		last, _ = call.conn.keeps()
		remote = call.conn.remote
	}
	switch {
	case last.Class == share.Owner:
		return c.calls.enter(call, last)
	case call.kind == Probe:
	case !c.limits.ProofWanted:
		return c.calls.enter(call, c.identified(call, ""))
	case last.Class == share.Known && c.calls.enter(call, last):
		return true
	}
	return c.calls.enter(call, share.Subject{Class: share.Arriving, Name: remote})
}

// identified returns the subject of a call whose caller is the user, "" for a caller who is not known. Where
// callers need not prove who they are, addresses have shares of everything but Session streams, of which a
// whole site behind a proxy may want all.
func (c *Connections) identified(call *Call, user string) share.Subject {
	switch {
	case call.kind == Probe, c.limits.ProofWanted && user == "":
		return share.Subject{Class: share.Unknown, Name: call.address()}
	case c.limits.ProofWanted:
		return share.Subject{Class: share.Known, Name: user}
	case call.kind == Session:
		return share.Subject{Class: share.Known}
	}
	return share.Subject{Class: share.Known, Name: call.address()}
}

func (c *Connections) tellOfCalls(kind Kind) {
	c.calls.refused[kind].Add(1)
	if kind == Session {
		return
	}
	c.calls.mutex.Lock()
	defer c.calls.mutex.Unlock()
	if c.calls.said.due(c.now()) {
		c.logger.Warn("too many calls are under way: more are refused", "brief", c.calls.pools[Brief].Used(),
			"standing", c.calls.pools[Standing].Used())
	}
}

// RefusedCalls counts the calls other than Session that were refused because too many were under way.
func (c *Connections) RefusedCalls() uint64 {
	refused := &c.calls.refused
	return refused[Brief].Load() + refused[Standing].Load() + refused[Probe].Load()
}

// RefusedStreams is the same for Session streams.
func (c *Connections) RefusedStreams() uint64 { return c.calls.refused[Session].Load() }

// CallsUnderWay counts the calls other than Session that are under way.
func (c *Connections) CallsUnderWay() int {
	c.calls.mutex.Lock()
	defer c.calls.mutex.Unlock()
	pools := &c.calls.pools
	return pools[Brief].Used() + pools[Standing].Used() + pools[Probe].Used()
}

// enter counts a call in, if the subject may have one more.
func (c *calls) enter(call *Call, subject share.Subject) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	call.subject, call.counted = subject, c.pools[call.kind].Enter(subject)
	return call.counted
}

// identify counts a call under another subject from now on. Where an unknown subject may not have one more,
// another call makes room, whose eviction is returned, to be called.
func (c *calls) identify(call *Call, subject share.Subject, evict func()) (entered bool, eviction func()) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	pool := c.pools[call.kind]
	if !call.counted || call.subject.Class == share.Owner || call.subject == subject {
		return true, nil
	}
	pool.Leave(call.subject)
	entered = pool.Enter(subject)
	if !entered && subject.Class == share.Unknown {
		if victim := c.victim(call, subject); victim != nil {
			eviction = victim.evict
			c.forget(victim)
			if entered = victim.subject == subject; entered {
				pool.Force(subject) // it has no more than before
			} else {
				entered = pool.Enter(subject)
			}
		}
	}
	if call.counted = entered; !entered {
		return false, eviction
	}
	if call.subject = subject; subject.Class == share.Unknown {
		c.await(call, evict)
	}
	return true, eviction
}

// victim returns the call that makes room for one more call of the subject, nil without any. Those whose request
// has not come are first, since the request of an honest client comes with its headers: the oldest on the same
// connection, so that a flood makes room for itself and the other connections of its address keep their calls, or
// else the oldest of the subject, or else of the subject that has the most. Where every request has come, the
// connection is closed on which the most calls are over whose end has not been written: its client asks faster
// than it is answered. The mutex is held.
func (c *calls) victim(call *Call, subject share.Subject) *Call {
	own := c.waitOn[call.kind][call.conn]
	if own == nil {
		own = c.waiting[call.kind][subject]
	}
	if own != nil {
		return own.Front().Value.(*Call)
	}
	if victim := oldestOfMost(c.waiting[call.kind]); victim != nil {
		return victim
	}
	return oldestOfMost(c.lingerOn[call.kind])
}

// oldestOfMost returns the first call of the longest list, and the oldest one of several; nil without a list.
func oldestOfMost[K comparable](lists map[K]*list.List) (first *Call) {
	most := 0
	for _, of := range lists {
		oldest := of.Front().Value.(*Call)
		if of.Len() > most || of.Len() == most && oldest.number < first.number {
			most, first = of.Len(), oldest
		}
	}
	return first
}

// await notes that the request of an unknown caller's call has not come. The mutex is held.
func (c *calls) await(call *Call, evict func()) {
	c.waited++
	call.number, call.evict = c.waited, evict
	leave := pushBack(c.waiting[call.kind], call.subject, call)
	leaveToo := pushBack(c.waitOn[call.kind], call.conn, call)
	call.unlist = func() { leave(); leaveToo() }
}

// lingers notes that a call of an unknown caller is over, and its end has not been written: its connection may
// be closed for it.
func (c *calls) lingers(call *Call) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !call.counted || call.subject.Class != share.Unknown {
		return
	}
	c.unlist(call)
	call.evict = func() {
		call.set.aborted.Add(1)
		_ = call.conn.abort()
	}
	call.unlist = pushBack(c.lingerOn[call.kind], call.conn, call)
}

// pushBack adds a call to the list of that key, and returns the function that removes it.
func pushBack[K comparable](lists map[K]*list.List, key K, call *Call) (remove func()) {
	of, found := lists[key]
	if !found {
		of = list.New()
		lists[key] = of
	}
	place := of.PushBack(call)
	return func() {
		if of.Remove(place); of.Len() == 0 {
			delete(lists, key)
		}
	}
}

// unlist removes a call from the lists of those that make room. The mutex is held.
func (c *calls) unlist(call *Call) {
	if call.unlist != nil {
		call.unlist()
		call.unlist = nil
	}
}

// came notes that a call's request has come.
func (c *calls) came(call *Call) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.unlist(call)
}

// leave counts a call out.
func (c *calls) leave(call *Call) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.forget(call)
}

// forget counts a call out, once. The mutex is held.
func (c *calls) forget(call *Call) {
	c.unlist(call)
	if call.counted {
		call.counted = false
		c.pools[call.kind].Leave(call.subject)
	}
}
