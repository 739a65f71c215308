package quota

import (
	"math"

	"github.com/coordd/coordd/coordination"
)

// Bucket is this server's bucket of a resource (§5.2).
type Bucket struct {
	key       coordination.ResourceKey
	capacity  float64 // B
	watermark float64
	keeps     bool    // the level where properties change: there is no prefetch
	mostDebt  float64 // what the level may be below 0

	detailed bool // the counters of its node

	level   float64 // L, may be negative
	pace    float64 // r: level as of the last tick, or of what came since
	ticked  int64   // the tick that pace is of
	paced   bool    // something was granted, or used
	granted coordination.Instant
	average float64 // of what came lately, in a tick
	flow    Flow
	sum     *Flow // of all buckets of its kind
	lately  lately
	noted   bool // among those that Recent returns next

	first, last *Waiter
	waiters     int
	waiting     float64 // W, what they want together

	active   int // place among those that ask for more, -1 if it does not
	reported bool
	changed  bool // and not yet announced
	due      coordination.Instant
	place    int // among those that are due at some time, -1 if it is not
}

// Flow counts the units that have gone into a bucket and out of it since it was made, except for those that a full
// bucket begins with, and those that an alter takes from it.
type Flow struct {
	// Assigned came from the leader, or kept the bucket going while there was no leader; Granted was required, and Used
	// was reported as used.
	Assigned, Granted, Used float64
}

func (f *Flow) add(g Flow) {
	f.Assigned = min(f.Assigned+g.Assigned, enormous)
	f.Granted = min(f.Granted+g.Granted, enormous)
	f.Used = min(f.Used+g.Used, enormous)
}

// lately counts the units that were granted or used in the last ten seconds.
type lately struct {
	period        int64 // of ten seconds
	units, before float64
}

const latelyPeriod = 10_000 * millisecond

// at notes that time has come so far, and returns the part of the present period that is over.
func (l *lately) at(now coordination.Instant) float64 {
	period := int64(now / latelyPeriod)
	if period > l.period {
		if l.before = l.units; period > l.period+1 {
			l.before = 0
		}
		l.period, l.units = period, 0
	}
	return float64(now%latelyPeriod) / float64(latelyPeriod)
}

func (l *lately) add(now coordination.Instant, amount float64) {
	l.at(now)
	l.units = min(l.units+amount, enormous)
}

// perSecond takes it that the units of the period before came at a steady pace.
func (l *lately) perSecond(now coordination.Instant) float64 {
	over := l.at(now)
	return (l.units + l.before*(1-over)) / 10
}

// count notes what has gone in or out.
func (b *Bucket) count(f Flow) {
	b.flow.add(f)
	b.sum.add(f)
}

// enormous keeps sums of levels finite.
const enormous = math.MaxFloat64 / 8

// MaxDebtSeconds bounds a debt: what the rate repays in a day. Any client that may acquire may report any amount as
// used, and must not put the resource out of order for good.
const MaxDebtSeconds = 24 * 60 * 60

// set gives the bucket the properties of its resource.
func (b *Bucket) set(e coordination.Effective) {
	b.capacity = min(max(0, e.Rate*e.Prefetch), enormous)
	b.watermark = e.Watermark
	b.keeps = e.Prefetch < 0
	b.mostDebt = min(e.Rate*MaxDebtSeconds, enormous)
	b.detailed = e.Detailed
}

// at notes that time has come so far. It must be called before the level changes, or the pace is looked at.
func (b *Bucket) at(now coordination.Instant) {
	if tick := grid(now); b.ticked < tick {
		b.ticked, b.pace = tick, b.level
	}
}

// bounded returns how much of an amount counts: what goes beyond the largest debt is forgiven.
func (b *Bucket) bounded(amount float64) float64 { return min(amount, max(0, b.level+b.mostDebt)) }

// may reports whether the head of the queue may take an amount now. An amount above the level is granted, and makes a
// debt, if the time since the last grant at the pace of the level is long enough for it.
func (b *Bucket) may(now coordination.Instant, amount float64) bool {
	switch {
	case !(b.level > 0):
		return amount == 0 && b.level == 0
	case amount <= b.level || !b.paced:
		return true
	}
	return float64(now-b.granted)*b.pace >= amount*float64(Tick)
}

// grant takes an amount that may be granted.
func (b *Bucket) grant(now coordination.Instant, amount float64) {
	b.lately.add(now, amount)
	b.count(Flow{Granted: amount})
	amount = b.bounded(amount)
	switch {
	case amount <= b.level:
		b.granted = now
	case !b.paced:
		b.granted = now - 2*millisecond
	default:
		b.granted = max(now-2*millisecond, b.granted+coordination.Instant(amount*float64(Tick)/b.pace))
	}
	b.paced = true
	b.level -= amount
}

// use takes what was used already.
func (b *Bucket) use(now coordination.Instant, amount float64) {
	b.level -= b.bounded(amount)
	b.granted, b.paced = now, true
	b.lately.add(now, amount)
	b.count(Flow{Used: amount})
}

// receive takes in a quantum, as far as there is room for it.
func (b *Bucket) receive(amount float64) {
	before := b.level
	b.level = min(b.level+amount, max(b.level, b.capacity+b.waiting))
	b.pace = b.level
	b.count(Flow{Assigned: b.level - before})
}

// wants reports whether the bucket is to ask for more: from below the watermark until it is full. What is
// waited for comes on top.
func (b *Bucket) wants() bool {
	if b.active >= 0 {
		return b.level < b.capacity+b.waiting
	}
	return b.level < b.capacity*b.watermark+b.waiting
}

// nextLook is the time at which the first waiter's turn may come by time alone.
func (b *Bucket) nextLook(now coordination.Instant) coordination.Instant {
	if b.first == nil || !(b.level > 0) {
		return coordination.Never
	}
	next := coordination.Never
	if wait := b.first.amount * float64(Tick) / b.pace; b.pace > 0 && wait < math.MaxInt64/4 {
		next = b.granted + coordination.Instant(math.Ceil(wait))
	}
	if b.pace != b.level {
		next = min(next, ticks(grid(now)).next())
	}
	return max(next, now+millisecond)
}

// State is the state of a bucket.
type State struct {
	Flow
	// Level is its present content, Capacity that of a full bucket without waiters.
	Level, Capacity float64
	// Waiters counts the waiters, Waiting the units that they want together.
	Waiters int
	Waiting float64
	// PerSecond is the rate of the last ten seconds, about, of units that were granted or used.
	PerSecond float64
	// Asks reports that it asks the leader for more, and Detailed that its node's counters are detailed.
	Asks, Detailed bool
}

// State returns the bucket's state.
func (b *Bucket) State(now coordination.Instant) State {
	return State{b.flow, b.level, b.capacity, b.waiters, b.waiting, b.lately.perSecond(now), b.active >= 0, b.detailed}
}

// Key is the resource.
func (b *Bucket) Key() coordination.ResourceKey { return b.key }

// Level is the bucket's content, negative in debt.
func (b *Bucket) Level() float64 { return b.level }

// Capacity is the content of a full bucket without waiters.
func (b *Bucket) Capacity() float64 { return b.capacity }

// Waiting counts the waiters.
func (b *Bucket) Waiting() int { return b.waiters }

// End is the end of a wait.
type End uint8

// The ends of a wait.
const (
	// Waits: it has not ended.
	Waits End = iota
	// Granted: the amount was taken from the bucket. In all other cases nothing was.
	Granted
	// Dropped: the resource is gone.
	Dropped
	// Cancelled: the caller does not wait any more.
	Cancelled
	// Stopped: the server stops.
	Stopped
)

// Waiter is a wait for units. It belongs to its owner, which may read it while no method of the Buckets runs.
type Waiter struct {
	Owner any
	Bytes int // counted against MaxWaiterBytes
	End   End

	amount         float64
	bucket         *Bucket
	previous, next *Waiter
}
