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
	// waiting are the calls of unknown callers whose request has not come, the oldest first. Subjects without
	// one are not in it.
	waiting [kinds]map[share.Subject]*list.List
	waited  uint64 // how many have
	said    occasion

	refused [kinds]atomic.Uint64
}

func (c *calls) init(limits Limits) {
	for kind, places := range [kinds]int{Brief: limits.Calls, Standing: limits.Standing, Session: limits.Streams,
		Probe: max(1, limits.Calls/probePart)} {
		c.pools[kind] = share.NewPool(places)
		c.waiting[kind] = make(map[share.Subject]*list.List)
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
// the oldest of its calls that wait for their request makes room, or one of the subject that has the most: the
// request of an honest client comes with its headers. That call's eviction is returned, to be called.
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
		if victim := c.victim(call.kind, subject); victim != nil {
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

// await notes that the request of an unknown caller's call has not come. The mutex is held.
func (c *calls) await(call *Call, evict func()) {
	waiting := c.waiting[call.kind]
	if waiting[call.subject] == nil {
		waiting[call.subject] = list.New()
	}
	c.waited++
	call.number, call.evict = c.waited, evict
	call.waits = waiting[call.subject].PushBack(call)
}

// victim is the call that makes room for one more of the subject, nil without any. The mutex is held.
func (c *calls) victim(kind Kind, subject share.Subject) (victim *Call) {
	if own := c.waiting[kind][subject]; own != nil {
		return own.Front().Value.(*Call)
	}
	most := 0
	for _, of := range c.waiting[kind] {
		oldest := of.Front().Value.(*Call)
		if of.Len() > most || of.Len() == most && oldest.number < victim.number {
			most, victim = of.Len(), oldest
		}
	}
	return victim
}

// came notes that a call's request has come.
func (c *calls) came(call *Call) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.awaitNoMore(call)
}

func (c *calls) awaitNoMore(call *Call) {
	if call.waits == nil {
		return
	}
	waiting := c.waiting[call.kind]
	of := waiting[call.subject]
	of.Remove(call.waits)
	if call.waits = nil; of.Len() == 0 {
		delete(waiting, call.subject)
	}
}

// leave counts a call out.
func (c *calls) leave(call *Call) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.forget(call)
}

// forget counts a call out, once. The mutex is held.
func (c *calls) forget(call *Call) {
	c.awaitNoMore(call)
	if call.counted {
		call.counted = false
		c.pools[call.kind].Leave(call.subject)
	}
}
