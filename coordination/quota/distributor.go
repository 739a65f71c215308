package quota

import "github.com/coordd/coordd/coordination"

// Consumer is a server that has a bucket.
type Consumer uint64

// Quantum is a grant of a resource's units to a server.
type Quantum struct {
	Consumer Consumer
	Resource coordination.ResourceKey
	Amount   float64
}

// Distributor shares out units among servers by ticks (§5.1). It knows the resources that somebody asks for,
// and what is above them. It is not safe for concurrent use. The zero value is not ready: NewDistributor.
type Distributor struct {
	supplies map[coordination.ResourceKey]*supply
	roots    []*supply
	claims   map[consumed]*claim
	ticks    ticks
	open     []*claim // of share, used again
	given    []*claim // in this tick
	quanta   []Quantum
}

// consumed is a resource as a server consumes it.
type consumed struct {
	consumer Consumer
	resource coordination.ResourceKey
}

// supply is a resource that somebody asks for: it has a claim.
type supply struct {
	key    coordination.ResourceKey
	rate   float64
	up     claim // on what is above it; of a root only its place counts
	free   float64
	claims []*claim
	turn   int // whose turn it is to be the first
}

// claim is that of a resource on the one above it, or of a server on a resource. All weigh the same.
type claim struct {
	of       *supply // nil of a root
	at       int     // in of.claims, or in the roots
	child    *supply // nil of a server's
	consumer Consumer
	got      float64 // in this call of Tick
}

// NewDistributor is for a leader that has not been asked for anything.
func NewDistributor() *Distributor {
	return &Distributor{supplies: make(map[coordination.ResourceKey]*supply),
		claims: make(map[consumed]*claim)}
}

// quantum is the resource's supply in a tick.
func (s *supply) quantum() float64 { return s.rate / ticksPerSecond }

// room is the missing part of the resource's quantum. It keeps units that it could not pass on, but never more than one
// quantum.
func (s *supply) room() float64 { return s.quantum() - s.free }

// Knows reports whether a server asks for units of the resource, or of one below it. A known resource needs no rates.
func (d *Distributor) Knows(key coordination.ResourceKey) bool { return d.supplies[key] != nil }

// Ask has a server be given units of a resource from the next tick on, until it asks no more. rates are the
// resource's own and those of what is above it, up to the root.
func (d *Distributor) Ask(now coordination.Instant, consumer Consumer, node coordination.NodeID,
	rates []coordination.ResourceRate) {
	if len(rates) == 0 {
		return
	}
	name := consumed{consumer, coordination.ResourceKey{Node: node, ID: rates[0].ID}}
	if d.claims[name] != nil {
		return
	}
	if len(d.roots) == 0 {
		d.ticks = ticks(grid(now))
	}
	c := &claim{consumer: consumer}
	d.claims[name] = c
	for _, r := range rates {
		key := coordination.ResourceKey{Node: node, ID: r.ID}
		s := d.supplies[key]
		known := s != nil
		if !known {
			s = &supply{key: key, rate: r.Rate}
			s.up.child = s
			d.supplies[key] = s
		}
		c.of, c.at = s, len(s.claims)
		s.claims = append(s.claims, c)
		if known {
			return
		}
		c = &s.up
	}
	c.at = len(d.roots)
	d.roots = append(d.roots, c.child)
}

// AskNoMore ends what Ask began.
func (d *Distributor) AskNoMore(consumer Consumer, key coordination.ResourceKey) {
	name := consumed{consumer, key}
	if c := d.claims[name]; c != nil {
		delete(d.claims, name)
		d.withdraw(c)
	}
}

// withdraw takes back a claim, and those above it that were there for it alone.
func (d *Distributor) withdraw(c *claim) {
	for {
		s := c.of
		if s == nil {
			last := len(d.roots) - 1
			d.roots[c.at] = d.roots[last]
			d.roots[c.at].up.at = c.at
			d.roots[last] = nil
			d.roots = d.roots[:last]
			return
		}
		last := len(s.claims) - 1
		s.claims[c.at] = s.claims[last]
		s.claims[c.at].at = c.at
		s.claims[last] = nil
		if s.claims = s.claims[:last]; last > 0 {
			return
		}
		delete(d.supplies, s.key)
		c = &s.up
	}
}

// Forget ends all that a server asks for.
func (d *Distributor) Forget(consumer Consumer) {
	for name := range d.claims { // in any order, which decides no more than who comes first in a tick
		if name.consumer == consumer {
			d.AskNoMore(consumer, name.resource)
		}
	}
}

// Altered reports that rates of a node's resources may have changed; rate returns the present one, false if the
// resource is gone.
func (d *Distributor) Altered(node coordination.NodeID, rate func(coordination.ResourceKey) (float64, bool)) {
	for key, s := range d.supplies {
		if key.Node != node {
			continue
		}
		if now, there := rate(key); there {
			s.rate = now
			s.free = max(0, min(s.free, s.quantum()))
		}
	}
	for name := range d.claims {
		if name.resource.Node != node {
			continue
		}
		if _, there := rate(name.resource); !there {
			d.AskNoMore(name.consumer, name.resource)
		}
	}
}

// Next is the time at which Tick is due; coordination.Never if no server asks for units.
func (d *Distributor) Next() coordination.Instant {
	if len(d.roots) == 0 {
		return coordination.Never
	}
	return d.ticks.next()
}

// Skip drops the ticks up to now: those in which this server may not say what it has shared out.
func (d *Distributor) Skip(now coordination.Instant) { d.ticks.due(now) }

// Tick shares out what is due, and returns who gets how much, in an order of its own. The slice is valid
// until the next call.
func (d *Distributor) Tick(now coordination.Instant) (quanta []Quantum, ticks int) {
	ticks = int(d.ticks.due(now))
	for range ticks {
		for _, root := range d.roots {
			root.free = root.quantum()
			d.share(root)
		}
	}
	d.quanta = d.quanta[:0]
	for i, c := range d.given {
		d.quanta = append(d.quanta, Quantum{c.consumer, c.of.key, c.got})
		c.got = 0
		d.given[i] = nil
	}
	d.given = d.given[:0]
	return d.quanta, ticks
}

// equalPasses is the number of passes that share out the rest in equal parts. From the last one on the part stays the
// same, so that the number of passes is bounded by that of claims.
const equalPasses = 8

// share gives a resource's units to its claimants, in passes of equal parts until nothing is left or no claim is open,
// and then makes those below do the same. The first claimant changes from tick to tick.
//
// The reference keeps to the part of the first pass, which gives the rest of a full claimant to the next one instead of
// to all.
func (d *Distributor) share(s *supply) {
	n, part := len(s.claims), 0.0
	open := d.open[:0]
	s.turn %= n
	open = append(append(open, s.claims[s.turn:]...), s.claims[:s.turn]...)
	s.turn++
	for pass := 0; len(open) > 0 && s.free > 0; pass++ {
		if pass < equalPasses {
			part = max(s.free/float64(len(open)), s.quantum()*1e-6)
		}
		left := open[:0]
		for _, c := range open {
			if d.give(s, c, min(part, s.free)) {
				left = append(left, c)
			}
		}
		open = left
	}
	clear(open[:n])
	d.open = open[:0]
	for _, c := range s.claims {
		if c.child != nil {
			d.share(c.child)
		}
	}
}

// give gives a claim an amount at most, and reports whether it would take more.
func (d *Distributor) give(s *supply, c *claim, amount float64) bool {
	if c.child != nil {
		amount = min(amount, c.child.room())
	}
	if !(amount > 0) {
		return false
	}
	s.free -= amount
	if c.child != nil {
		c.child.free += amount
		return c.child.room() > 0
	}
	if c.got == 0 {
		d.given = append(d.given, c)
	}
	c.got += amount
	return true
}
