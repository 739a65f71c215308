// Package limiter hands out the units of rate limiters on one server and, where that leads, shares them out among
// all servers (package quota).
//
// It stands beside the turn of the group, so that neither waits for the other: it learns of the machine's
// resources within turns, through Look, Applied and Restored. Its lock is taken under the turn, and the locks of
// package streams under its own.
package limiter

import (
	"context"
	"sync"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/quota"
	"github.com/coordd/coordd/internal/clock"
	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/server/group/streams"
)

const (
	// maxUnknownDemands bounds the demands that a leader keeps for resources that it does not know, and demandTries
	// the ticks: it may have to catch up with the server that has seen the resource already.
	maxUnknownDemands = 1 << 20
	demandTries       = 100
	// maxLookedUpRows bounds the rows of the machine that one turn visits for resources that are asked for.
	maxLookedUpRows = 1_000
)

// own is this server as a consumer of units.
const own quota.Consumer = 0

// Limiter has the buckets of this server and, where it leads, what is shared out.
type Limiter struct {
	core    Core
	streams *streams.Set
	clock   clock.Clock     // of the rings
	over    <-chan struct{} // closed when the group handles nothing any more
	bell    turn.Bell       // the limiter's goroutine listens
	stop    chan struct{}
	ended   sync.WaitGroup

	mutex   sync.Mutex
	buckets *quota.Buckets
	named   map[resourceName]*quota.Bucket
	names   map[*quota.Bucket]resourceName
	stopped bool
	rights  knownRights
	leaving int // calls that waited and have a reason to leave

	link      streams.Link                     // where the demands go; nil while there is no leader
	demandsAt coordination.Instant             // when demands may be sent again
	term      uint64                           // of the last quanta
	shares    *quota.Distributor               // where link is to this server
	peers     map[*streams.Peer]quota.Consumer // the same
	last      quota.Consumer
	// demands for resources that shares does not know, and how often they were looked up
	wanted map[wantedResource]int
	queue  []wantedResource // of wanted, to be looked up
	later  []wantedResource // of wanted, to be looked up in the next tick

	wakeAt coordination.Instant // when the goroutine wakes by itself
	wake   hooks.Timer
}

type resourceName struct{ node, resource string }

type wantedResource struct {
	consumer quota.Consumer
	resource coordination.ResourceKey
}

// Core is the group as the limiter uses it.
type Core interface {
	// Look runs look in a turn. It visits so many rows of the machine at most.
	Look(ctx context.Context, rows int, look func(turn.Token, *coordination.Machine)) error
	// CatchUp returns once this server has everything that was committed when it was called.
	CatchUp(ctx context.Context) error
	// AccessVersion changes with every change of users and rights.
	AccessVersion() uint64
	// Panicked ends the server, because the code of a part has panicked.
	Panicked(reason any)
}

// New returns a limiter without buckets, which goes by the clock of the rings until over is closed.
func New(core Core, set *streams.Set, rings clock.Clock, over <-chan struct{}) *Limiter {
	return &Limiter{core: core, streams: set, clock: rings, over: over, bell: turn.NewBell(),
		stop: make(chan struct{}), buckets: quota.NewBuckets(),
		named: make(map[resourceName]*quota.Bucket), names: make(map[*quota.Bucket]resourceName),
		wakeAt: coordination.Never}
}

// Start begins to hand out units until the group is stopped.
func (l *Limiter) Start() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.wake = l.clock.AfterFunc(time.Hour, l.bell.Ring)
	l.ended.Go(l.run)
}

func (l *Limiter) run() {
	defer l.wake.Stop()
	defer func() {
		if reason := recover(); reason != nil {
			l.core.Panicked(reason)
		}
	}()
	for {
		select {
		case <-l.stop:
			return
		case <-l.over:
			return
		case <-l.bell:
		}
		for l.tick() {
			l.lookUpDemands()
		}
	}
}

// tick does what is due. It reports whether there are demands to be looked up.
func (l *Limiter) tick() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := l.clock.Now()
	l.follow()
	led := l.link != nil && l.link.MaySpeak()
	if l.shares != nil {
		l.share(now, led)
	}
	l.buckets.Tick(now, led)
	l.releaseEnded()
	l.sendDemands(now)
	l.wakeAt = l.next()
	if l.wakeAt != coordination.Never {
		l.wake.Reset(l.clock.Until(l.wakeAt))
	}
	return len(l.queue) > 0
}

// next returns the moment at which something is due.
func (l *Limiter) next() coordination.Instant {
	next := l.buckets.Next()
	if l.shares != nil {
		next = min(next, l.shares.Next())
	}
	if l.link != nil && l.buckets.Changed() {
		next = min(next, l.demandsAt)
	}
	if len(l.later) > 0 {
		next = min(next, l.clock.Now()+quota.Tick)
	}
	return next
}

// followUp wakes the calls whose waits have ended, and the goroutine if something is due earlier than it would wake.
func (l *Limiter) followUp() {
	l.releaseEnded()
	if l.next() < l.wakeAt {
		l.bell.Ring()
	}
}

// releaseEnded wakes the calls whose waits have ended.
func (l *Limiter) releaseEnded() {
	for _, w := range l.buckets.Ended() {
		a := w.Owner.(*acquisition)
		l.countLeaving(a)
		close(a.ended)
	}
}

// follow turns to the present leader; a new one is to hear all demands. The mutex is held, here and below: a
// leader that was looked up before may be followed by another, to which demands have come already.
func (l *Limiter) follow() {
	link := l.streams.Present()
	if l.link == link {
		return
	}
	l.link, l.demandsAt = link, 0
	l.shares, l.peers, l.wanted, l.queue, l.later = nil, nil, nil, nil, nil
	if _, leads := link.(*streams.Local); leads {
		l.shares, l.peers, l.wanted = quota.NewDistributor(), make(map[*streams.Peer]quota.Consumer),
			make(map[wantedResource]int)
	}
	l.buckets.Announce()
}

// share shares out the units that are due, on the leader. One that may not speak shares out nothing: another server may
// lead.
func (l *Limiter) share(now coordination.Instant, led bool) {
	if !led {
		l.shares.Skip(now)
		return
	}
	quanta, ticks := l.shares.Tick(now)
	if ticks == 0 {
		return
	}
	l.queue, l.later = append(l.queue, l.later...), nil
	others := make(map[quota.Consumer][]quota.Quantum, len(l.peers))
	for _, q := range quanta {
		if q.Consumer == own {
			l.buckets.Receive(now, q.Resource, q.Amount, ticks)
		} else {
			others[q.Consumer] = append(others[q.Consumer], q)
		}
	}
	for peer, consumer := range l.peers {
		if list := others[consumer]; len(list) > 0 {
			peer.PutQuanta(ticks, list)
		}
	}
}

// sendDemands sends the leader the demands that have changed, once in a tick.
func (l *Limiter) sendDemands(now coordination.Instant) {
	if l.link == nil || now < l.demandsAt || !l.buckets.Changed() {
		return
	}
	l.demandsAt = now + quota.Tick
	demands := l.buckets.Demands(nil)
	switch link := l.link.(type) {
	case *streams.Local:
		l.ask(own, demands)
	case *streams.Relay:
		link.PutDemands(demands)
	}
}

// ask takes a server's demands on the leader, which is this one.
func (l *Limiter) ask(consumer quota.Consumer, demands []quota.Demand) {
	for _, d := range demands {
		want := wantedResource{consumer, d.Resource}
		switch {
		case !d.Asks:
			l.shares.AskNoMore(consumer, d.Resource)
			delete(l.wanted, want)
		case len(l.wanted) < maxUnknownDemands:
			l.wanted[want] = 0
			l.queue = append(l.queue, want)
		}
	}
}

// lookUpDemands finds resources that are asked for in the machine, some in each turn.
func (l *Limiter) lookUpDemands() {
	// the group has ended
	if err := l.core.Look(context.Background(), maxLookedUpRows, l.findDemands); err != nil {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.wanted, l.queue, l.later = nil, nil, nil
	}
}

// findDemands begins to share out resources that are asked for.
func (l *Limiter) findDemands(t turn.Token, m *coordination.Machine) {
	t.Check()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := l.clock.Now()
	var rates []coordination.ResourceRate
	for looked := 0; len(l.queue) > 0 &&
		looked+coordination.MaxResourceDepth <= maxLookedUpRows; looked += len(rates) + 1 {
		want := l.queue[0]
		l.queue = l.queue[1:]
		tries, is := l.wanted[want]
		rates = rates[:0]
		if is {
			rates = m.Resources().Rates(rates, want.resource)
		}
		switch {
		case !is:
		case len(rates) > 0:
			l.shares.Ask(now, want.consumer, want.resource.Node, rates)
			delete(l.wanted, want)
		case tries == demandTries:
			delete(l.wanted, want)
		default:
			l.wanted[want] = tries + 1
			l.later = append(l.later, want)
		}
	}
}

// Demanded takes the demands of another server, unless its relay is one to an earlier leader.
func (l *Limiter) Demanded(peer *streams.Peer, demands []quota.Demand) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.follow()
	if l.shares == nil || l.link != peer.Link() {
		return
	}
	consumer, known := l.peers[peer]
	if !known {
		l.last++
		consumer = l.last
		l.peers[peer] = consumer
	}
	l.ask(consumer, demands)
	l.bell.Ring()
}

// Forget ends the demands of another server, whose relay is over.
func (l *Limiter) Forget(peer *streams.Peer) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	consumer, known := l.peers[peer]
	if !known {
		return
	}
	delete(l.peers, peer)
	l.shares.Forget(consumer)
	for want := range l.wanted {
		if want.consumer == consumer {
			delete(l.wanted, want)
		}
	}
}

// Received takes in what the leader behind a relay has shared out. What an earlier leader did comes to
// nothing.
func (l *Limiter) Received(from streams.Link, term uint64, ticks int, quanta []quota.Quantum) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := l.clock.Now()
	if l.link != from || term < l.term {
		return
	}
	l.term = term
	for _, q := range quanta {
		l.buckets.Receive(now, q.Resource, q.Amount, ticks)
	}
	l.followUp()
}

// Applied takes note of what an entry of the log has done to resources.
func (l *Limiter) Applied(t turn.Token, m *coordination.Machine, effects []coordination.Effect) {
	t.Check()
	for i := range effects {
		switch e := &effects[i]; e.Kind {
		case coordination.EffectResourceAltered, coordination.EffectNodeDropped:
			l.changed(m, e.Node, 0)
		case coordination.EffectResourceDropped:
			l.changed(m, e.Node, e.Resource)
		}
	}
}

// changed takes note of changes to a node's resources, or to one of them.
func (l *Limiter) changed(m *coordination.Machine, node coordination.NodeID, one coordination.ResourceID) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := l.clock.Now()
	if key := (coordination.ResourceKey{Node: node, ID: one}); one == 0 {
		l.buckets.OfNode(node, func(b *quota.Bucket) { l.refresh(now, m, b) })
	} else if b := l.buckets.Find(key); b != nil {
		l.refresh(now, m, b)
	} else if l.shares == nil || !l.shares.Knows(key) {
		return
	}
	if l.shares != nil {
		l.shares.Altered(node, func(key coordination.ResourceKey) (float64, bool) {
			e, there := m.Resources().Effective(key)
			return e.Rate, there
		})
	}
	l.followUp()
}

// Restored takes note of a machine that has taken the place of another one.
func (l *Limiter) Restored(t turn.Token, m *coordination.Machine) {
	t.Check()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := l.clock.Now()
	l.buckets.All(func(b *quota.Bucket) { l.refresh(now, m, b) })
	l.followUp()
}

// refresh gives a bucket the present properties of its resource, or ends it with that.
func (l *Limiter) refresh(now coordination.Instant, m *coordination.Machine, b *quota.Bucket) {
	if e, there := m.Resources().Effective(b.Key()); there {
		l.buckets.Alter(now, b, e)
		return
	}
	l.buckets.Drop(b)
	delete(l.named, l.names[b])
	delete(l.names, b)
}

// Figures returns what this server hands out.
func (l *Limiter) Figures() quota.Figures {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.buckets.Figures()
}

// States calls yield for those of some resources that were acquired on this server, with the place of each.
func (l *Limiter) States(keys []coordination.ResourceKey, yield func(i int, state quota.State)) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := l.clock.Now()
	for i, key := range keys {
		if b := l.buckets.Find(key); b != nil {
			yield(i, b.State(now))
		}
	}
}

// StateOf returns the state of this server's bucket of a resource, false without one. node is the text
// of a path as acquires have it.
func (l *Limiter) StateOf(node, resource string) (quota.State, bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	b := l.named[resourceName{node, resource}]
	if b == nil {
		return quota.State{}, false
	}
	return b.State(l.clock.Now()), true
}

// Recent is quota.Buckets.Recent.
func (l *Limiter) Recent() []coordination.ResourceKey {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.buckets.Recent()
}

// Close stops the limiter's goroutine, and waits for it.
func (l *Limiter) Close() {
	close(l.stop)
	l.ended.Wait()
}

// End ends all waits, and refuses more.
func (l *Limiter) End() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.stopped = true
	l.buckets.Stop()
	l.releaseEnded()
}

// Unfinished names what is left to do for the limiter's goroutine, or a call that waited for units; "": nothing.
func (l *Limiter) Unfinished() string {
	now := l.clock.Now()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	switch next := l.next(); {
	case l.stopped:
		return ""
	case l.wakeAt <= now || next <= now:
		return "units are to be shared out"
	case next < l.wakeAt:
		return "the rate limiter has to set its clock"
	case len(l.queue) > 0:
		return "resources are looked up"
	case l.leaving > 0:
		return "a wait for units has ended"
	}
	return ""
}
