package quota

import (
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
)

// world is a leader and some servers with one clock, and a forest of resources of one node.
type world struct {
	t          testing.TB
	now        coordination.Instant
	leader     *Distributor
	servers    []*Buckets
	parents    map[coordination.ResourceID]coordination.ResourceID
	effective  map[coordination.ResourceID]coordination.Effective
	leaderless bool
	given      func(Quantum, int)
	ended      func(server int, w *Waiter)
}

const node coordination.NodeID = 1

func key(id coordination.ResourceID) coordination.ResourceKey {
	return coordination.ResourceKey{Node: node, ID: id}
}

func newWorld(t testing.TB, servers int) *world {
	w := &world{t: t, now: 1_234_567_890, leader: NewDistributor(),
		parents:   make(map[coordination.ResourceID]coordination.ResourceID),
		effective: make(map[coordination.ResourceID]coordination.Effective)}
	for range servers {
		w.servers = append(w.servers, NewBuckets())
	}
	return w
}

// usual is an effective rate with the prefetch that nobody has set.
func usual(rate float64) coordination.Effective {
	return coordination.Effective{Rate: rate, Prefetch: 0.2, Watermark: 0.75}
}

func (w *world) resource(id, parent coordination.ResourceID, e coordination.Effective) {
	w.parents[id], w.effective[id] = parent, e
}

func (w *world) rates(id coordination.ResourceID) []coordination.ResourceRate {
	var rates []coordination.ResourceRate
	for ; id != 0; id = w.parents[id] {
		rates = append(rates, coordination.ResourceRate{ID: id, Rate: w.effective[id].Rate})
	}
	return rates
}

func (w *world) bucket(server int, id coordination.ResourceID) *Bucket {
	return w.servers[server].Learn(key(id), w.effective[id])
}

// ask sends the changed demands to the leader.
func (w *world) ask() {
	for i, s := range w.servers {
		for _, d := range s.Demands(nil) {
			if d.Asks {
				w.leader.Ask(w.now, Consumer(i), node, w.rates(d.Resource.ID))
			} else {
				w.leader.AskNoMore(Consumer(i), d.Resource)
			}
		}
	}
}

// pass lets time pass, from one thing that is due to the next.
func (w *world) pass(d time.Duration) {
	end := w.now + coordination.Instant(d)
	for {
		w.ask()
		next := end
		if !w.leaderless {
			next = min(next, w.leader.Next())
		}
		for _, s := range w.servers {
			next = min(next, s.Next())
		}
		w.now = max(w.now, next)
		w.tick()
		if next == end {
			return
		}
	}
}

func (w *world) tick() {
	if !w.leaderless {
		quanta, ticks := w.leader.Tick(w.now)
		for _, q := range quanta {
			if w.given != nil {
				w.given(q, ticks)
			}
			w.servers[q.Consumer].Receive(w.now, q.Resource, q.Amount, ticks)
		}
	}
	for i, s := range w.servers {
		s.Tick(w.now, !w.leaderless)
		for _, waiter := range s.Ended() {
			if w.ended != nil {
				w.ended(i, waiter)
			}
		}
	}
}

// acquire has somebody wait for an amount on the first server, for a limit at most, and reports whether and
// when it was granted.
func (w *world) acquire(
	id coordination.ResourceID,
	amount uint64,
	limit time.Duration,
) (granted bool, took time.Duration) {
	w.t.Helper()
	s, b := w.servers[0], w.bucket(0, id)
	if s.Acquire(w.now, b, amount) {
		return true, 0
	}
	waiter := new(Waiter)
	if !s.Wait(w.now, b, amount, waiter) {
		w.t.Fatal("there is no room to wait")
	}
	for took < limit && waiter.End == Waits {
		w.pass(time.Millisecond)
		took += time.Millisecond
	}
	return s.Cancel(w.now, waiter) == Granted, took
}

// wants fails the test unless an amount is granted, or not, within the limit.
func (w *world) wants(granted bool, id coordination.ResourceID, amount uint64, limit time.Duration) time.Duration {
	w.t.Helper()
	got, took := w.acquire(id, amount, limit)
	if got != granted {
		w.t.Errorf("%d units: granted is %v after %s", amount, got, took)
	}
	return took
}
