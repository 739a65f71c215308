package coordination

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coordd/coordd/scheme"
)

// populated is the state that the tests of this file begin with: sessions on three nodes, some of them with
// many waits and much that they own.
func populated(t *testing.T) *rig {
	r := newRig(t)
	r.lax = true
	for at, path := range takeoverPaths {
		node := r.createNode(path, NodeConfig{SessionGracePeriodMillis: uint32(4000 + 1000*at),
			AttachConsistencyMode: ConsistencyRelaxed})
		for i := range 300 {
			r.applyForeign(r.term, &Attach{Node: node, Epoch: r.leader.nextEpoch(),
				TimeoutMillis: uint64(5000 + i)})
		}
		for i := range 150 {
			for _, session := range []SessionID{1, 2} { // the first one owns, the second one waits
				r.acquire(node, session, fmt.Sprint("lock", i), uint64(7000+i))
			}
			if i%3 == 0 {
				r.acquire(node, SessionID(20+i), fmt.Sprint("lock", i), uint64(8000+i))
			}
		}
	}
	r.messages = nil
	return r
}

var takeoverPaths = []string{"/local/a", "/local/b", "/local/c"}

func (r *rig) acquire(node NodeID, session SessionID, name string, timeoutMillis uint64) {
	epoch := r.machine.nodes[node].sessions[session].attachEpoch
	r.applyForeign(r.term, &AcquireSemaphore{Origin: Origin{Node: node, Session: session,
		Address: Address{Epoch: epoch, Sequence: Sequence(r.index)}, Acknowledged: Sequence(r.index)},
		Name: name, Count: 1 << 63, Ephemeral: true, TimeoutMillis: timeoutMillis})
}

// deadlines returns when everything ends that has a deadline.
func (r *rig) deadlines() map[string]Instant {
	all := make(map[string]Instant)
	for _, n := range r.leader.nodes {
		for _, s := range n.sessions {
			if s.countdown != nil {
				all[fmt.Sprintf("session %d/%d", n.id, s.id)] = s.countdown.at
			}
		}
		for order, d := range n.waits {
			all[fmt.Sprintf("wait %d/%d", n.id, order)] = d.at
		}
	}
	return all
}

// No turn of a new leader looks at more than a slice of what it has found, and in the end everything has its
// deadline from the moment at which the leader began.
func TestTakeOverInSlices(t *testing.T) {
	r := populated(t)
	r.lead()
	since := r.now
	rows := 0
	want := make(map[string]Instant)
	for _, n := range r.machine.nodes {
		rows++
		for _, s := range n.sessions {
			rows++
			want[fmt.Sprintf("session %d/%d", n.id,
				s.id)] = since.After(s.timeoutMillis + n.config.EffectiveGraceMillis())
		}
		for _, l := range n.links {
			rows++
			if !l.owner {
				want[fmt.Sprintf("wait %d/%d", n.id, l.order)] = since.After(l.timeoutMillis)
			}
		}
	}
	if got := len(r.deadlines()); got != 0 || len(r.leader.nodes) != 0 {
		t.Errorf("a new leader looks at %d deadlines on %d nodes before the first tick", got,
			len(r.leader.nodes))
	}
	ticks := 0
	for made := 0; r.leader.takeover != nil; ticks++ {
		if next := r.leader.NextDeadline(); next > r.now {
			t.Fatalf("the next slice is due at %d, now is %d", next, r.now)
		}
		r.pass(1)
		r.tick()
		now := len(r.deadlines())
		if now-made > takeoverRowsPerTick {
			t.Errorf("a tick made %d deadlines", now-made)
		}
		made = now
	}
	if least := (rows + takeoverRowsPerTick - 1) / takeoverRowsPerTick; ticks != least || ticks < 5 {
		t.Errorf("%d rows were taken over in %d ticks, want %d", rows, ticks, least)
	}
	if got := r.deadlines(); !maps.Equal(got, want) {
		t.Errorf("%d deadlines differ from the %d expected ones", len(got), len(want))
	}
	if r.machine.walk != nil {
		t.Error("the walk goes on")
	}
}

// Nothing ends early while a new leader takes over, and what is due does not wait for the rest.
func TestTakeOverExpiresInTime(t *testing.T) {
	r := populated(t)
	r.lead()
	since := r.now
	for r.leader.takeover != nil {
		r.pass(3000)
		r.tick()
		for _, c := range r.inFlight {
			_, session := c.subject()
			least := uint64(7000)
			if _, expires := c.(*ExpireSession); expires {
				least = 9000
			}
			if r.now < since.After(least) {
				t.Fatalf("%T of session %d after %d ms", c, session, (r.now-since)/1_000_000)
			}
		}
		if done := r.leader.takeover == nil; !done && r.now >= since.After(20_000) && len(r.inFlight) == 0 {
			t.Fatal("what is due waits for the end of the takeover")
		}
	}
}

// takeoverPair is one history under two leaders: one takes over in slices while it serves, the other one
// before it serves.
type takeoverPair struct {
	t        *testing.T
	seed     uint64
	sliced   *rig
	atOnce   *rig
	attached map[StreamID]bool
}

func (p *takeoverPair) both(do func(r *rig)) {
	for _, r := range []*rig{p.sliced, p.atOnce} {
		do(r)
		r.take()
	}
	if a, b := fmt.Sprintf("%+v", p.sliced.inFlight),
		fmt.Sprintf("%+v", p.atOnce.inFlight); len(p.sliced.inFlight) != len(p.atOnce.inFlight) {
		p.t.Fatalf("seed %d: proposed %s, want %s", p.seed, a, b)
	}
	if a, b := p.sliced.said(), p.atOnce.said(); !slices.Equal(a, b) {
		p.t.Fatalf("seed %d: said %q, want %q", p.seed, a, b)
	}
}

// A leader that serves while it takes over says the same, and in the end has the same deadlines, as one that
// has taken over everything before: whatever becomes of sessions, waits and nodes that it has not come to.
func TestTakeOverWhileServing(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		p := &takeoverPair{t: t, seed: seed, sliced: populated(t), atOnce: populated(t),
			attached: make(map[StreamID]bool)}
		p.both(func(r *rig) { r.lead() })
		p.atOnce.finishTakeover()
		for p.sliced.leader.takeover != nil {
			for range random.IntN(20) {
				p.act(random)
			}
			p.both(func(r *rig) {
				r.pass(1)
				r.leader.continueTakeover() // without the expiries of a Tick
			})
		}
		got, want := p.sliced.deadlines(), p.atOnce.deadlines()
		for name, at := range want {
			if got[name] != at {
				t.Fatalf("seed %d: %s at %d, want %d", seed, name, got[name], at)
			}
		}
		if len(got) != len(want) || len(want) == 0 {
			t.Fatalf("seed %d: %d deadlines, want %d", seed, len(got), len(want))
		}
		for _, r := range []*rig{p.sliced, p.atOnce} {
			if err := r.machine.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
}

// act does one thing to both leaders.
func (p *takeoverPair) act(random *rand.Rand) {
	path := takeoverPaths[random.IntN(len(takeoverPaths))]
	entry, found := p.sliced.machine.tree.Lookup(scheme.SplitLoose(path))
	if !found {
		p.both(func(r *rig) { r.createNode(path, NodeConfig{AttachConsistencyMode: ConsistencyRelaxed}) })
		return
	}
	session := SessionID(1 + random.IntN(300))
	if random.IntN(4) == 0 {
		session = SessionID(1 + random.IntN(2)) // one of those that have much
	}
	durable := p.sliced.machine.nodes[entry.Node].sessions[session]
	switch pick := random.IntN(100); {
	case pick < 2:
		p.both(func(r *rig) { r.call(&DropNode{Path: scheme.SplitLoose(path)}); r.applyAll() })
	case pick < 10:
		grace := uint32(1500 + random.IntN(8000))
		p.both(func(r *rig) {
			r.call(&AlterNode{Path: scheme.SplitLoose(path),
				Config: NodeConfig{SessionGracePeriodMillis: grace}})
			r.applyAll()
		})
	case pick < 15:
		p.both(func(r *rig) { r.open(AttachRequest{Path: path, TimeoutMillis: 3000}); r.applyAll() })
		p.attached[p.sliced.streams] = true
	case durable == nil:
	case pick < 35: // relaxed, or with another timeout through the log
		timeout := durable.timeoutMillis + uint64(random.IntN(2))
		p.both(func(r *rig) {
			r.open(AttachRequest{Path: path, Session: session, TimeoutMillis: timeout,
				SeqNo: uint64(r.index)})
			r.applyAll()
		})
		p.attached[p.sliced.streams] = true
	case pick < 50:
		epoch := durable.attachEpoch
		p.both(func(r *rig) {
			r.streams++
			r.forward(r.streams, Forward{Roster: &Roster{Node: entry.Node, Path: path, Session: session,
				Epoch: epoch}})
			r.applyAll()
		})
		p.attached[p.sliced.streams] = true
	case pick < 60 && len(p.attached) > 0:
		streams := slices.Sorted(maps.Keys(p.attached))
		stream := streams[random.IntN(len(streams))]
		delete(p.attached, stream)
		p.both(func(r *rig) { r.leader.Detach(r.now, stream) })
	case pick < 80 && len(p.attached) > 0:
		streams := slices.Sorted(maps.Keys(p.attached))
		stream := streams[random.IntN(len(streams))]
		request := Request{Kind: RequestAcquire, Name: fmt.Sprint("lock", random.IntN(150)), Count: 1 << 62,
			Ephemeral: true, TimeoutMillis: uint64(6000 + random.IntN(3000))}
		if random.IntN(2) == 0 {
			request = Request{Kind: RequestRelease, Name: request.Name}
		}
		p.both(func(r *rig) { r.request(stream, Sequence(r.index), request); r.applyAll() })
	default: // the session ends, with all it has
		p.both(func(r *rig) {
			r.applyForeign(r.term, &ExpireSession{Node: entry.Node, Session: session,
				AttachEpoch: durable.attachEpoch, Term: r.term})
		})
	}
}

// A walk visits everything once that is there from its beginning to its end, however the machine changes
// meanwhile.
func TestWalkOverAChangingMachine(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		r := newRig(t)
		r.lax = true
		for range 3 {
			r.changeAtRandom(random, 80)
		}
		before := r.everything()
		visited := make(map[string]int)
		for w := r.machine.beginWalk(); !w.over(); {
			for range random.IntN(6) {
				n, s, l := w.step()
				visited[nameInWalk(n, s, l)]++
				if w.over() {
					break
				}
			}
			r.changeAtRandom(random, random.IntN(6))
		}
		for name := range r.everything() {
			if before[name] && visited[name] == 0 {
				t.Errorf("seed %d: %s was not visited", seed, name)
			}
		}
		for name, times := range visited {
			if times > 1 {
				t.Errorf("seed %d: %s was visited %d times", seed, name, times)
			}
		}
		if err := r.machine.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func nameInWalk(n *node, s *session, l *link) string {
	switch {
	case l != nil:
		return fmt.Sprintf("link %d/%d", n.id, l.order)
	case s != nil:
		return fmt.Sprintf("session %d/%d", n.id, s.id)
	}
	return fmt.Sprintf("node %d", n.id)
}

func (r *rig) everything() map[string]bool {
	all := make(map[string]bool)
	for _, n := range r.machine.nodes {
		all[nameInWalk(n, nil, nil)] = true
		for _, s := range n.sessions {
			all[nameInWalk(n, s, nil)] = true
		}
		for _, l := range n.links {
			all[nameInWalk(n, l.session, l)] = true
		}
	}
	return all
}

// changeAtRandom executes some commands on few nodes with few sessions and semaphores.
func (r *rig) changeAtRandom(random *rand.Rand, times int) {
	for range times {
		path := takeoverPaths[random.IntN(len(takeoverPaths))]
		entry, found := r.machine.tree.Lookup(scheme.SplitLoose(path))
		if !found {
			r.createNode(path, NodeConfig{})
			continue
		}
		n := r.machine.nodes[entry.Node]
		sessions := slices.Sorted(maps.Keys(n.sessions))
		pick := random.IntN(40)
		if pick == 0 {
			r.call(&DropNode{Path: scheme.SplitLoose(path)})
			r.applyAll()
			continue
		}
		if pick < 5 || len(sessions) == 0 {
			r.applyForeign(r.term, &Attach{Node: n.id, Epoch: r.leader.nextEpoch(), TimeoutMillis: 1000})
			continue
		}
		s := n.sessions[sessions[random.IntN(len(sessions))]]
		if pick < 8 {
			r.applyForeign(r.term, &ExpireSession{Node: n.id, Session: s.id, AttachEpoch: s.attachEpoch,
				Term: r.term})
			continue
		}
		name := fmt.Sprint("lock", random.IntN(6))
		if pick < 28 {
			r.acquire(n.id, s.id, name, 1000)
			continue
		}
		r.applyForeign(r.term, &ReleaseSemaphore{Origin: Origin{Node: n.id, Session: s.id,
			Address:      Address{Epoch: s.attachEpoch, Sequence: Sequence(r.index)},
			Acknowledged: Sequence(r.index)}, Name: name})
	}
	r.messages = nil
}
