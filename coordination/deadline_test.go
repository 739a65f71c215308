package coordination

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coordd/coordd/scheme"
)

// planned returns every deadline that the leader should have, by a search through everything.
func (r *rig) planned() []Instant {
	var all []Instant
	for _, n := range r.leader.nodes {
		for _, s := range n.sessions {
			if s.countdown != nil {
				all = append(all, s.countdown.at)
			}
		}
		for _, d := range n.waits {
			all = append(all, d.at)
		}
	}
	slices.Sort(all)
	return all
}

// With sessions that come and go on many nodes, and nodes that are dropped with their deadlines, the next
// deadline is always the earliest there is, and every one that is due is proposed.
func TestDeadlinesOfManyNodes(t *testing.T) {
	proposed, dropped := 0, 0
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := newRig(t)
		attached := make(map[StreamID]bool)
		path := func() string { return fmt.Sprint("/local/node", random.IntN(8)) }
		for range 600 {
			switch pick := random.IntN(20); {
			case pick < 3:
				r.createNode(path(), NodeConfig{})
			case pick < 4:
				held := len(r.planned())
				r.call(&DropNode{Path: scheme.SplitLoose(path())})
				r.applyAll()
				dropped += held - len(r.planned())
			case pick < 10:
				attached[r.open(AttachRequest{Path: path(), TimeoutMillis: random.Uint64N(3000)})] = true
				r.applyAll()
			case pick < 13 && len(attached) > 0:
				streams := slices.Sorted(maps.Keys(attached))
				stream := streams[random.IntN(len(streams))]
				delete(attached, stream)
				r.leader.Detach(r.now, stream)
			case pick < 16 && len(attached) > 0:
				streams := slices.Sorted(maps.Keys(attached))
				r.request(streams[random.IntN(len(streams))], Sequence(r.index), waitLock)
				r.applyAll()
			default:
				r.pass(random.Uint64N(1500))
				due := 0
				for _, at := range r.planned() {
					if at <= r.now {
						due++
					}
				}
				if got := r.tick(); got != due {
					t.Fatalf("seed %d: %d due, %d proposed", seed, due, got)
				}
				proposed += due
				r.applyAll()
			}
			next := Never
			if all := r.planned(); len(all) > 0 {
				next = all[0]
			}
			if got := r.leader.NextDeadline(); got != next {
				t.Fatalf("seed %d: next deadline %d, want %d", seed, got, next)
			}
		}
	}
	if proposed < 100 || dropped < 20 {
		t.Errorf("only %d deadlines were proposed, %d dropped with their node", proposed, dropped)
	}
}

// A great many expiries at once are spread over ticks; each happens, and the next deadline covers the rest.
func TestExpiriesAreSpread(t *testing.T) {
	r := newRig(t)
	a, b := r.createNode("/local/a", NodeConfig{}), r.createNode("/local/b", NodeConfig{})
	const sessions = 2*maxExpiriesPerTick + 500
	for i := range sessions {
		node := a
		if i%2 == 0 {
			node = b
		}
		r.applyForeign(r.term, &Attach{Node: node, Epoch: r.leader.nextEpoch(), TimeoutMillis: 1000})
	}
	r.lead()
	r.finishTakeover()
	r.pass(60_000)
	for _, want := range []int{maxExpiriesPerTick, maxExpiriesPerTick, 500, 0} {
		if due := r.leader.NextDeadline() <= r.now; due != (want > 0) {
			t.Errorf("due: %v before a tick of %d", due, want)
		}
		if got := r.tick(); got != want {
			t.Errorf("%d proposed, want %d", got, want)
		}
	}
	r.applyAll()
	if len(r.machine.nodes[a].sessions)+len(r.machine.nodes[b].sessions) != 0 {
		t.Error("sessions are left")
	}
}

// What is due at the same moment is proposed in the order in which it was armed.
func TestDeadlinesOfTheSameMoment(t *testing.T) {
	r := newRig(t)
	a, b := r.createNode("/local/a", NodeConfig{}), r.createNode("/local/b", NodeConfig{})
	var streams []StreamID
	for _, path := range []string{"/local/a", "/local/b", "/local/a", "/local/b"} {
		stream, _ := r.attach(AttachRequest{Path: path, TimeoutMillis: 100})
		streams = append(streams, stream)
	}
	for _, at := range []int{3, 0, 1, 2} {
		r.leader.Detach(r.now, streams[at])
	}
	r.pass(100)
	r.tick()
	var got []string
	for _, c := range r.inFlight {
		node, session := c.subject()
		got = append(got, fmt.Sprint(node, ":", session))
	}
	want := []string{fmt.Sprint(b, ":", 2), fmt.Sprint(a, ":", 1), fmt.Sprint(b, ":", 1),
		fmt.Sprint(a, ":", 2)}
	if !slices.Equal(got, want) {
		t.Errorf("proposed %v, want %v", got, want)
	}
}

// A new leader gives every session its timeout and the grace period, every waiter its whole timeout, and an
// endless wait none (§4.2).
func TestDeadlinesOfANewLeader(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{SessionGracePeriodMillis: 4000})
	owner, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 7000})
	r.request(owner, 1, tryLock)
	waiting, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 9000})
	r.request(waiting, 1, waitLock)
	endless, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 20_000})
	forEver := waitLock
	forEver.TimeoutMillis = Infinite
	r.request(endless, 1, forEver)
	r.applyAll()
	r.pass(4000)
	r.lead()
	r.finishTakeover()
	want := []Instant{r.now.After(5000), r.now.After(11_000), r.now.After(13_000), r.now.After(24_000)}
	if got := r.planned(); !slices.Equal(got, want) {
		t.Errorf("planned %v, want %v", got, want)
	}
}

// Moments far away do not come around.
func TestAfterDoesNotOverflow(t *testing.T) {
	const milli = 1_000_000
	for _, c := range []struct {
		from   Instant
		millis uint64
		want   Instant
	}{
		{0, 0, 0}, {5, 1, 5 + milli}, {-milli, 1, 0}, {0, Infinite, Never}, {Never, 0, Never},
		{Never, 1, Never},
		{0, uint64(Never) / milli, Never / milli * milli}, {0, uint64(Never)/milli + 1, Never},
		{Never - milli, 1, Never}, {Never - milli + 1, 1, Never},
	} {
		if got := c.from.After(c.millis); got != c.want {
			t.Errorf("%d after %d ms is %d, want %d", c.from, c.millis, got, c.want)
		}
	}
}
