package quota

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
)

func resourceNumber(i, j int) coordination.ResourceID { return coordination.ResourceID(10*i + j) }

// account is the test's record of a bucket.
type account struct {
	level float64
	flow  Flow
}

func (c *account) assigned(amount float64) {
	c.level, c.flow.Assigned = c.level+amount, c.flow.Assigned+amount
}
func (c *account) granted(amount float64) {
	c.level, c.flow.Granted = c.level-amount, c.flow.Granted+amount
}
func (c *account) used(amount float64) { c.level, c.flow.Used = c.level-amount, c.flow.Used+amount }

// audit compares a bucket with the sum of all that went in and out.
type audit struct {
	w        *world
	random   *rand.Rand
	accounts map[*Bucket]*account
	queues   map[*Bucket][]*Waiter
	excess   map[coordination.ResourceID]float64 // beyond its rate that a resource had lately
}

func (a *audit) account(b *Bucket) *account {
	if a.accounts[b] == nil {
		a.accounts[b] = &account{level: b.Capacity()}
	}
	return a.accounts[b]
}

// quantum notes what somebody is given: k ticks of a resource and all below it bring (k+1) quanta at most.
func (a *audit) quantum(got map[coordination.ResourceID]float64, ticks int) {
	for id, e := range a.w.effective {
		quantum := e.Rate / ticksPerSecond
		a.excess[id] = max(0, a.excess[id]+got[id]-float64(ticks)*quantum)
		if a.excess[id] > quantum*(1+1e-9) {
			a.w.t.Errorf("resource %d with all below it: %g more than its rate, %g in a tick", id,
				a.excess[id], quantum)
		}
	}
}

// ended checks that a waiter that is granted units is the first of the queue.
func (a *audit) ended(_ int, waiter *Waiter) {
	b := waiter.bucket
	queue := a.queues[b]
	if waiter.End != Granted || len(queue) == 0 || queue[0] != waiter {
		a.w.t.Errorf("%v of resource %d is not the first of %d", waiter.End, b.key.ID, len(queue))
		return
	}
	a.queues[b] = queue[1:]
	a.account(b).granted(waiter.amount)
}

func (a *audit) check() {
	for i, s := range a.w.servers {
		active, waiters, sums := 0, 0, Flow{}
		s.All(func(b *Bucket) {
			account := a.account(b)
			if diff := math.Abs(account.level - b.level); diff > 1e-6*max(1, math.Abs(b.level)) {
				a.w.t.Errorf("server %d, resource %d: level %g, the sum of all is %g", i, b.key.ID, b.level,
					account.level)
			}
			account.level = b.level
			near := func(what string, got, want float64) {
				if math.Abs(got-want) > 1e-6*max(1, want) {
					a.w.t.Errorf("server %d, resource %d: %g %s, the sum of all is %g", i, b.key.ID, got,
						what, want)
				}
			}
			state := b.State(a.w.now)
			near("assigned", state.Assigned, account.flow.Assigned)
			near("granted", state.Granted, account.flow.Granted)
			near("used", state.Used, account.flow.Used)
			sums.add(state.Flow)
			if len(a.queues[b]) != b.waiters {
				a.w.t.Errorf("%d wait, want %d", b.waiters, len(a.queues[b]))
			}
			waiters += b.waiters
			sum := 0.0
			for _, w := range a.queues[b] {
				sum += w.amount
			}
			if math.Abs(sum-b.waiting) > 1e-6*max(1, sum) {
				a.w.t.Errorf("they wait for %g, it says %g", sum, b.waiting)
			}
			if b.active >= 0 {
				active++
				if s.active[b.active] != b {
					a.w.t.Error("an active bucket is in the wrong place")
				}
			}
			if b.place >= 0 && s.looks[b.place] != b {
				a.w.t.Error("a bucket that is due is in the wrong place")
			}
			if b.first != nil && b.may(a.w.now, b.first.amount) && b.ticked == grid(a.w.now) &&
				b.due <= a.w.now {
				a.w.t.Errorf("the first of resource %d waits for nothing", b.key.ID)
			}
			if b.wants() != (b.active >= 0) {
				a.w.t.Errorf("resource %d asks for more: %v", b.key.ID, b.active >= 0)
			}
		})
		if f := s.Figures(); f.Active != active || f.Waiters != waiters ||
			math.Abs(f.Aggregated.Granted-sums.Granted) > 1e-6*max(1, sums.Granted) ||
			math.Abs(f.Aggregated.Used-sums.Used) > 1e-6*max(1, sums.Used) ||
			math.Abs(f.Aggregated.Assigned-sums.Assigned) > 1e-6*max(1, sums.Assigned) {
			a.w.t.Errorf("%+v, there are %d active and %d waiters, and the sums are %+v", f, active, waiters,
				sums)
		}
	}
}

// tick is world.tick with all that comes of it written down.
func (a *audit) tick() {
	w := a.w
	quanta, ticks := w.leader.Tick(w.now)
	got := make(map[coordination.ResourceID]float64)
	for _, q := range quanta {
		for _, r := range w.rates(q.Resource.ID) {
			got[r.ID] += q.Amount
		}
		s := w.servers[q.Consumer]
		if b := s.Find(q.Resource); b != nil {
			account := a.account(b)
			account.assigned(max(0, min(q.Amount, b.capacity+b.waiting-account.level)))
		}
		s.Receive(w.now, q.Resource, q.Amount, ticks)
		a.takeEnded(s)
	}
	if ticks > 0 {
		a.quantum(got, ticks)
	}
	for _, s := range w.servers {
		s.Tick(w.now, true)
		a.takeEnded(s)
	}
	a.check()
}

func (a *audit) takeEnded(s *Buckets) {
	for _, waiter := range s.Ended() {
		a.ended(0, waiter)
	}
}

// do does something at random.
func (a *audit) do() {
	w, r := a.w, a.random
	server := r.IntN(len(w.servers))
	s := w.servers[server]
	b := w.bucket(server, coordination.ResourceID(1+r.IntN(len(w.effective))))
	account := a.account(b)
	amount := r.Uint64N(uint64(2 + r.IntN(100)))
	switch r.IntN(10) {
	case 0:
		s.Use(w.now, b, amount)
		account.used(float64(amount))
	case 1, 2:
		if queue := a.queues[b]; len(queue) > 0 {
			at := r.IntN(len(queue))
			waiter := queue[at]
			a.queues[b] = slices.Delete(slices.Clone(queue), at, at+1)
			if end := s.Cancel(w.now, waiter); end != Cancelled {
				w.t.Errorf("a wait ended as %v", end)
			}
			a.takeEnded(s)
		}
	case 3:
		if r.IntN(20) > 0 {
			return
		}
		for id, e := range w.effective {
			if w.parents[id] == 0 && r.IntN(2) == 0 {
				e.Rate *= 0.5 + r.Float64()
				w.effective[id] = e
			}
		}
		w.alter()
		clear(a.excess)
		for _, s := range w.servers {
			a.takeEnded(s)
			s.All(func(b *Bucket) { // what was above a smaller capacity is lost
				if account := a.account(b); account.level > b.level {
					account.level = b.level
				}
			})
		}
	default:
		if s.Acquire(w.now, b, amount) {
			if len(a.queues[b]) > 0 {
				w.t.Error("somebody was overtaken")
			}
			account.granted(float64(amount))
			return
		}
		waiter := new(Waiter)
		if s.Wait(w.now, b, amount, waiter) {
			a.queues[b] = append(a.queues[b], waiter)
		}
		a.takeEnded(s)
	}
}

// alter makes the rates of children follow those of roots, and notifies all servers.
func (w *world) alter() {
	for id := coordination.ResourceID(1); int(id) <= len(w.effective); id++ {
		if parent := w.parents[id]; parent != 0 {
			e := w.effective[id]
			e.Rate = min(e.Rate, w.effective[parent].Rate)
			w.effective[id] = e
		}
	}
	w.leader.Altered(node, func(k coordination.ResourceKey) (float64, bool) {
		return w.effective[k.ID].Rate, true
	})
	for _, s := range w.servers {
		s.OfNode(node, func(b *Bucket) { s.Alter(w.now, b, w.effective[b.key.ID]) })
	}
}

// grow makes a forest of random rates.
func (w *world) grow(r *rand.Rand, count int) {
	for id := coordination.ResourceID(1); int(id) <= count; id++ {
		parent := coordination.ResourceID(r.IntN(int(id)))
		e := coordination.Effective{Rate: 1 + 200*r.Float64(),
			Prefetch: []float64{0.2, 0.2, 1, -1}[r.IntN(4)], Watermark: 0.25 + 0.75*r.Float64()}
		if parent != 0 {
			e.Rate = min(e.Rate, w.effective[parent].Rate)
		}
		w.resource(id, parent, e)
	}
}

// Whatever is asked for, nobody gets more than its rate, and nothing is lost or made up.
func TestConservation(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t, 1+r.IntN(3))
		w.grow(r, 1+r.IntN(12))
		a := &audit{w: w, random: r, accounts: make(map[*Bucket]*account),
			queues: make(map[*Bucket][]*Waiter), excess: make(map[coordination.ResourceID]float64)}
		for range 400 {
			for range r.IntN(4) {
				a.do()
			}
			w.ask()
			step := coordination.Instant(r.Int64N(60)) * millisecond
			if r.IntN(50) == 0 {
				step *= 40 // a late machine
			}
			w.now += step
			a.tick()
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// Who always asks gets as much as those beside it, within 5 % of it over 100 ticks; what they cannot take
// goes to others.
func TestFairShares(t *testing.T) {
	w := newWorld(t, 3)
	w.resource(1, 0, usual(1000))
	w.resource(2, 1, usual(1000)) // two servers beside a grandchild
	w.resource(3, 1, usual(50))
	w.resource(4, 1, usual(1000))
	w.resource(5, 4, usual(1000))
	got := make(map[consumed]float64)
	w.given = func(q Quantum, _ int) { got[consumed{q.Consumer, q.Resource}] += q.Amount }
	use := func(server int, id coordination.ResourceID) {
		w.servers[server].Use(w.now, w.bucket(server, id), 1_000_000)
	}
	use(0, 1)
	use(1, 1)
	use(0, 2)
	use(1, 3)
	use(2, 3)
	use(2, 5)
	w.pass(10 * time.Second) // 100 ticks, 10,000 units: 500 for 3, and 2375 for each of the others
	for name, want := range map[consumed]float64{
		{0, key(1)}: 2375, {1, key(1)}: 2375, {0, key(2)}: 2375, {2, key(5)}: 2375, {1, key(3)}: 250,
		{2, key(3)}: 250,
	} {
		if math.Abs(got[name]-want) > 0.05*want {
			t.Errorf("server %d has %g of resource %d, want %g", name.consumer, got[name], name.resource.ID,
				want)
		}
	}
}

// The grants over 1,000 s match the rate, to one quantum.
func TestAccuracy(t *testing.T) {
	for _, rate := range []float64{10, 333, 5000, 100_000} {
		w := newWorld(t, 1)
		w.resource(1, 0, usual(rate))
		s, b := w.servers[0], w.bucket(0, 1)
		for s.Acquire(w.now, b, 1) { // the first fill is drawn from nobody
		}
		sum, amount := 0.0, uint64(max(1, rate/100))
		w.ended = func(_ int, waiter *Waiter) { sum += waiter.amount }
		w.pass(coordinationTick(w.now))
		sum = 0
		const seconds = 1000
		for range seconds * ticksPerSecond {
			for float64(b.waiting) < 2*rate/ticksPerSecond+float64(amount) {
				if s.Acquire(w.now, b, amount) {
					sum += float64(amount)
				} else {
					s.Wait(w.now, b, amount, new(Waiter))
				}
			}
			w.pass(time.Duration(Tick))
		}
		if diff := math.Abs(sum - rate*seconds); diff > rate/ticksPerSecond+float64(amount)+b.Capacity() {
			t.Errorf("rate %g: %g units in %d s", rate, sum, seconds)
		}
	}
}

// coordinationTick is the time to the next tick.
func coordinationTick(now coordination.Instant) time.Duration {
	return time.Duration(ticks(grid(now)).next() - now)
}

// A late machine makes up for ten ticks, not for more.
func TestMissedTicks(t *testing.T) {
	for missed, want := range map[time.Duration]float64{1: 1, 9: 9, 10: 10, 11: 10, 1000: 10} {
		w := newWorld(t, 1)
		w.resource(1, 0, usual(10))
		w.servers[0].Use(w.now, w.bucket(0, 1), 1_000_000)
		w.ask()
		w.now += coordination.Instant(missed) * Tick
		quanta, ticks := w.leader.Tick(w.now)
		if len(quanta) != 1 || math.Abs(quanta[0].Amount-want) > 1e-9 || ticks != int(want) {
			t.Errorf("%d ticks late: %v, %d ticks", missed, quanta, ticks)
		}
		w.now += Tick - 1
		if quanta, _ := w.leader.Tick(w.now); missed == 1 && len(quanta) != 1 {
			t.Errorf("%d ticks late, the next tick: %v", missed, quanta)
		}
	}
}

// A server that hears of no leader goes on with what it had lately, and with less and less of it.
func TestWithoutALeader(t *testing.T) {
	w := newWorld(t, 1)
	w.resource(1, 0, usual(100))
	b := w.bucket(0, 1)
	w.servers[0].Use(w.now, b, 100_000)
	w.pass(10 * time.Second)
	before := b.Level()
	w.leaderless = true
	w.pass(100 * time.Second)
	if got := b.Level() - before; got < 9300 || got > 9700 { // 10,000 fading by 0.999 in a second
		t.Errorf("%g units in 100 s without a leader", got)
	}
	w.leaderless = false
	w.leader.Skip(w.now)
	before = b.Level()
	w.pass(10 * time.Second)
	if got := b.Level() - before; math.Abs(got-1000) > 20 {
		t.Errorf("%g units in 10 s with one again", got)
	}
}

// A new leader is notified of all demands, and of nothing else; a bucket keeps its level.
func TestLeaderChange(t *testing.T) {
	w := newWorld(t, 1)
	for id := coordination.ResourceID(1); id < 6; id++ {
		w.resource(id, 0, usual(10))
		w.servers[0].Use(w.now, w.bucket(0, id), uint64(id))
	}
	w.pass(300 * time.Millisecond)
	levels := make(map[coordination.ResourceKey]float64)
	w.servers[0].All(func(b *Bucket) { levels[b.key] = b.level })
	w.leader = NewDistributor()
	w.servers[0].Announce()
	for _, d := range w.servers[0].Demands(nil) {
		w.leader.Ask(w.now, 0, node, w.rates(d.Resource.ID))
	}
	w.servers[0].All(func(b *Bucket) {
		if b.level != levels[b.key] {
			t.Errorf("resource %d: level %g, it was %g", b.key.ID, b.level, levels[b.key])
		}
		if w.leader.Knows(b.key) != b.wants() {
			t.Errorf("resource %d is asked for: %v", b.key.ID, w.leader.Knows(b.key))
		}
	})
	w.pass(10 * time.Second)
	if w.leader.Next() != coordination.Never ||
		len(w.leader.supplies)+len(w.leader.claims)+len(w.leader.roots) != 0 {
		t.Error("the leader still has something to do")
	}
}

// Only what is asked for is known to the leader, with what is above it; who asks no more, or is gone, leaves
// nothing.
func TestOnlyTheActiveCost(t *testing.T) {
	w := newWorld(t, 2)
	w.resource(1, 0, usual(1e6))
	for id := coordination.ResourceID(2); id <= 100_000; id++ {
		w.resource(id, 1, usual(10))
		w.bucket(0, id)
	}
	for id := coordination.ResourceID(2); id < 12; id++ {
		w.servers[0].Use(w.now, w.bucket(0, id), 1000)
		w.servers[1].Use(w.now, w.bucket(1, id), 1000)
	}
	w.ask()
	if len(w.leader.supplies) != 11 || len(w.leader.claims) != 20 || w.servers[0].Figures().Active != 10 {
		t.Errorf("%d supplies, %d claims, %+v", len(w.leader.supplies), len(w.leader.claims),
			w.servers[0].Figures())
	}
	w.leader.Forget(0)
	if len(w.leader.supplies) != 11 || len(w.leader.claims) != 10 {
		t.Errorf("%d supplies, %d claims", len(w.leader.supplies), len(w.leader.claims))
	}
	w.leader.Altered(node, func(k coordination.ResourceKey) (float64, bool) { return 10, k.ID != 2 })
	if len(w.leader.claims) != 9 || w.leader.Knows(key(2)) {
		t.Errorf("%d claims", len(w.leader.claims))
	}
	w.leader.Altered(node, func(coordination.ResourceKey) (float64, bool) { return 0, false })
	if len(w.leader.supplies)+len(w.leader.claims)+len(w.leader.roots) != 0 {
		t.Errorf("%d supplies, %d claims, %d roots", len(w.leader.supplies), len(w.leader.claims),
			len(w.leader.roots))
	}
}

// A waiter for a dropped resource, or on a server that stops, is notified, and nothing is taken.
func TestEndsOfWaits(t *testing.T) {
	for _, end := range []End{Dropped, Stopped, Cancelled} {
		w := newWorld(t, 1)
		w.resource(1, 0, usual(10))
		s, b := w.servers[0], w.bucket(0, 1)
		s.Use(w.now, b, 100)
		var waiters []*Waiter
		for range 3 {
			waiters = append(waiters, &Waiter{Bytes: 10})
			s.Wait(w.now, b, 1, waiters[len(waiters)-1])
		}
		level := b.Level()
		switch end {
		case Dropped:
			s.Drop(b)
			if s.Find(b.Key()) != nil {
				t.Error("a dropped bucket is there")
			}
		case Stopped:
			s.Stop()
		case Cancelled:
			for _, waiter := range waiters {
				s.Cancel(w.now, waiter)
			}
		}
		if told := len(s.Ended()); (end == Cancelled) != (told == 0) || told != 0 && told != 3 {
			t.Errorf("%d of 3 waits are told", told)
		}
		for _, waiter := range waiters {
			if waiter.End != end || s.Cancel(w.now, waiter) != end {
				t.Errorf("a wait ended as %v, want %v", waiter.End, end)
			}
		}
		if f := s.Figures(); b.Level() != level || b.Waiting() != 0 || f.Waiters != 0 || f.WaiterBytes != 0 ||
			len(s.looks) != 0 {
			t.Errorf("level %g, %d wait, %+v", b.Level(), b.Waiting(), f)
		}
	}
}

// Exactly as many may wait as the bounds say.
func TestWaiterBounds(t *testing.T) {
	w := newWorld(t, 1)
	s := w.servers[0]
	fill := func(id coordination.ResourceID, bytes, most int) (count int) {
		w.resource(id, 0, usual(1))
		b := w.bucket(0, id)
		s.Use(w.now, b, 100)
		for count <= most && s.Wait(w.now, b, 1, &Waiter{Bytes: bytes}) {
			count++
		}
		return count
	}
	if n := fill(1, 1, MaxWaitersOfResource); n != MaxWaitersOfResource {
		t.Errorf("%d may wait for one resource", n)
	}
	for id := coordination.ResourceID(2); id < 10; id++ {
		fill(id, 1, MaxWaitersOfResource)
	}
	if n := fill(10, 1, MaxWaitersOfResource-1); n != MaxWaitersOfResource ||
		s.Figures().Waiters != MaxWaiters {
		t.Errorf("%d may wait for the last one, %+v", n, s.Figures())
	}
	if n := fill(11, 1, 1); n != 0 {
		t.Error("more may wait")
	}
	s.Stop()
	s.Ended()
	const bytes = 1 << 20
	if n := fill(12, bytes, 100); n != MaxWaiterBytes/bytes || s.Figures().WaiterBytes != MaxWaiterBytes {
		t.Errorf("%d may wait, %+v", n, s.Figures())
	}
}

// Other properties count at once: who waits is granted what they allow, what does not fit is lost, and a debt
// stays.
func TestAlterBucket(t *testing.T) {
	w := newWorld(t, 1)
	w.resource(1, 0, usual(100))
	s, b := w.servers[0], w.bucket(0, 1)
	set := func(e coordination.Effective, want float64) {
		t.Helper()
		w.effective[1] = e
		w.alter()
		if b.Level() != want {
			t.Errorf("%+v: level %g, want %g", e, b.Level(), want)
		}
	}
	set(usual(10), 2)
	set(usual(1000), 2)
	set(coordination.Effective{Rate: 10, Prefetch: -1, Watermark: 0.75}, 2)
	s.Use(w.now, b, 102)
	set(usual(1000), -100)
	set(usual(10), -100)
	set(usual(1000), -100)
	w.wants(true, 1, 1, time.Second) // the debt is repaid at the new rate
}
