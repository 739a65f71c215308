package raftstore

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"go.etcd.io/raft/v3"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/lease"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// frozenClock is a clock whose ticks a test can stop: raft then never loses patience with a leader.
type frozenClock struct {
	mu      sync.Mutex
	tickers []*time.Ticker
	every   []time.Duration
	frozen  bool
}

func (c *frozenClock) now() time.Time { return time.Now() }

func (c *frozenClock) ticker(d time.Duration) *time.Ticker {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.NewTicker(d)
	c.tickers, c.every = append(c.tickers, t), append(c.every, d)
	if c.frozen {
		t.Reset(math.MaxInt64)
	}
	return t
}

func (c *frozenClock) freeze(frozen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = frozen
	for i, t := range c.tickers {
		if frozen {
			t.Reset(math.MaxInt64)
		} else {
			t.Reset(c.every[i])
		}
	}
}

// freezable starts the members of a cluster with clocks that can be frozen.
func (c *testCluster) freezable() map[string]*frozenClock {
	c.t.Helper()
	clocks := map[string]*frozenClock{}
	for _, name := range c.names {
		clocks[name] = &frozenClock{}
		c.configure(name, func(cfg *Config) { cfg.Cluster.clock = clocks[name] })
	}
	c.startAll()
	return clocks
}

// awaitVoters waits until a member is old enough to vote and has an open urgent stream from each of the
// others.
func (c *testCluster) awaitVoters(name string) {
	c.t.Helper()
	c.poll(name+" to hear the others", func() (ready bool) {
		c.nodes[name].ask(func(l *loop) {
			ready = l.ticks >= electionTicks && len(l.streams) == len(c.names)-1
		})
		return ready
	})
}

// deafen has nothing get through to a member, or heals that.
func (c *testCluster) deafen(name string, deaf bool) {
	for _, other := range others(c.names, name) {
		c.net.setCut(other+":1", name+":1", deaf)
	}
}

// A leader that hears nobody and is still heard makes way: the others elect another one although none of them
// has lost patience with it, and could not, since their clocks stand still. When it hears again it follows,
// can lead again, and would make way again.
func TestDeafLeaderMakesWay(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 300)
	clocks := c.freezable()
	for range 2 {
		deaf := c.leader().name
		rest := others(c.names, deaf)
		c.put("before "+deaf, deaf)
		for _, name := range rest {
			c.awaitVoters(name)
		}
		for _, name := range rest {
			clocks[name].freeze(true)
		}
		c.deafen(deaf, true)
		c.put("served without "+deaf, rest...)
		for _, name := range rest {
			clocks[name].freeze(false)
		}
		c.deafen(deaf, false)
		c.settle()
		next := c.leader(rest...)
		id := c.nodes[deaf].store.Member()
		c.poll("a hand-over back", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if next.store.Changes.TransferLeader(ctx, id) != nil {
				next = c.leader()
			}
			return c.nodes[deaf].leads()
		})
		c.put("after " + deaf) // by the current leader: a busy machine may have had an election
		c.settle()
	}
}

// What a leader does to make way reaches the others over real connections, and it gets its own back.
func TestLeaderMakesWayOverLoopback(t *testing.T) {
	c := preparedGRPCCluster(t, 3, nil)
	clocks := c.freezable()
	for range 2 {
		old := c.leader()
		rest := others(c.names, old.name)
		c.put("before "+old.name, old.name)
		for _, name := range rest {
			c.awaitVoters(name)
			clocks[name].freeze(true)
		}
		// It is silent for as long as it would be in earnest before it ends its streams: what is still under
		// way would make the others take it back, and their clocks stand still.
		var silentAt int
		old.ask(func(l *loop) { l.deaf.ticks, l.deaf.hushed, silentAt = deafTicks, true, l.ticks })
		c.poll("the silence of "+old.name, func() (silent bool) {
			old.ask(func(l *loop) { silent = l.ticks > silentAt+hushTicks })
			return silent
		})
		old.ask((*loop).makeWay)
		c.put("served without "+old.name, rest...)
		for _, name := range rest {
			clocks[name].freeze(false)
		}
		c.settle()
		for _, name := range c.names {
			c.awaitVoters(name)
		}
	}
}

func (m *machine) leads() (leads bool) {
	m.note(func() { leads = m.term != 0 })
	return leads
}

// Of two voters neither can be elected without the other, so a deaf leader does not make itself missed: it
// stays until raft notices, and the other knows it as the leader all the time.
func TestDeafLeaderOfTwoStays(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 2, 301)
	clocks := c.freezable()
	c.put("before")
	var deaf, other string
	for leads := false; !leads; { // until the clock stands still, the other may be elected
		deaf = c.leader().name
		other = others(c.names, deaf)[0]
		c.awaitVoters(other)
		clocks[other].freeze(true)
		if leads = c.nodes[deaf].leads(); !leads {
			clocks[other].freeze(false)
		}
	}
	c.deafen(deaf, true)
	c.wait("the end of its leadership", func() bool { return c.nodes[deaf].term == 0 })
	if leader := c.nodes[other].follows(); leader != c.nodes[deaf].store.Member() {
		t.Errorf("the other follows %016x, want %016x", leader, c.nodes[deaf].store.Member())
	}
	clocks[other].freeze(false)
	c.deafen(deaf, false)
	c.settle()
}

// stepClock is a clock that a test sets.
type stepClock struct{ at time.Time }

func (c *stepClock) now() time.Time                      { return c.at }
func (c *stepClock) ticker(d time.Duration) *time.Ticker { return time.NewTicker(d) }

// What counts is time in which the leader itself ran, had lost a lease, and was not handing over. It falls
// silent first.
func TestWhenALeaderCountsAsDeaf(t *testing.T) {
	clock := &stepClock{at: time.Unix(1000, 0)}
	s := &Store{cfg: Config{Logger: noLog}, identity: datadir.Identity{Member: 1}}
	s.cfg.Cluster.clock = clock
	s.lease.Begin(clock.now)
	l := &loop{s: s, leading: true, caughtUp: true}
	l.conf = membership.Conf{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}}
	tick := func(n int) {
		for range n {
			clock.at = clock.at.Add(tickInterval)
			l.listen()
		}
	}
	want := func(what string, hushed, aside bool) {
		t.Helper()
		if l.deaf.hushes(2, l.conf) != hushed || l.deaf.steppedAside() != aside || l.deaf.hushes(4, l.conf) {
			t.Errorf("%s: hushed %v, made way %v, silent to the learner %v", what, l.deaf.hushes(2, l.conf),
				l.deaf.steppedAside(), l.deaf.hushes(4, l.conf))
		}
	}
	tick(100)
	want("it never had a lease", false, false)
	s.lease.Extend(clock.at.Add(lease.Window))
	tick(int(lease.Window / tickInterval))
	l.deaf.ticks = 0
	tick(deafTicks - hushTicks - 1)
	want("not yet", false, false)
	tick(1)
	want("nearly", true, false)
	s.lease.Extend(clock.at.Add(lease.Window))
	tick(1)
	want("a late answer", false, false)
	tick(int(lease.Window/tickInterval) + deafTicks - 3)
	want("nearly again", true, false)
	clock.at = clock.at.Add(time.Minute)
	tick(1)
	want("it was paused", false, false)
	tick(deafTicks - 1)
	want("the answers did not come after the pause", true, false)
	l.s.moving.Store(true)
	tick(1)
	want("it is handing over", false, false)
	l.s.moving.Store(false)
	tick(deafTicks)
	want("deaf", true, true)
	if s.lease.Lapsed() {
		t.Error("it keeps what it had of a lease")
	}
	tick(5)
	want("until the leadership is over", true, true)
	l.hearAgain()
	want("it leads no more", false, false)
	l.conf.Voters = []uint64{1, 2}
	s.lease.Extend(clock.at.Add(1))
	tick(100)
	want("the other could elect nobody", false, false)
}

// cutOffFollower starts a cluster with a follower that receives nothing and, as its clock stands still, does not
// campaign. heal reconnects it.
func (c *testCluster) cutOffFollower() (leader, follower *machine, heal func()) {
	c.t.Helper()
	clocks := c.freezable()
	leader = c.leader()
	name := others(c.names, leader.name)[0]
	c.put("before")
	c.awaitVoters(name)
	clocks[name].freeze(true)
	c.isolate(name, true)
	return leader, c.nodes[name], func() {
		c.t.Helper()
		c.isolate(name, false)
		clocks[name].freeze(false)
		c.settle()
	}
}

// follows returns the member that this one takes for the leader, or raft.None.
func (m *machine) follows() (id uint64) {
	m.ask(func(l *loop) { id = l.node.BasicStatus().Lead })
	return id
}

// A leader that ends its stream and opens another at once, as one does that made way and then leads no more, is
// forgotten, also by a member that is so late that it hears of both together.
func TestStreamThatIsOpenedAgainAtOnce(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 303)
	leader, m, heal := c.cutOffFollower()
	s := m.store
	old := endpointOf(leader.store).Header(s.Member(), true)
	if err := acceptStream(s, old, nil); err != nil {
		t.Fatal(err)
	}
	m.ask(func(*loop) {
		endpointOf(s).Lost(old)
		if err := acceptStream(s, endpointOf(leader.store).Header(s.Member(), true), nil); err != nil {
			t.Error(err)
		}
	})
	c.poll("the leader to be forgotten", func() bool { return m.follows() == raft.None })
	heal()
}

// A stream that a member opens takes the place of an older one: once the newer one ends the leader is
// forgotten, although the older one, which a cut network has left half dead, is still open. The end of an
// older one means nothing.
func TestNewerStreamReplacesAnOlder(t *testing.T) {
	t.Parallel()
	c := preparedTestCluster(t, 3, 302)
	leader, m, heal := c.cutOffFollower()
	s := m.store
	older, newer := endpointOf(leader.store).Header(s.Member(), true), endpointOf(leader.store).Header(s.Member(), true)
	for _, h := range []*peerpb.Header{older, newer} {
		if err := acceptStream(s, h, nil); err != nil {
			t.Fatal(err)
		}
	}
	endpointOf(s).Lost(older)
	if m.follows() != leader.store.Member() {
		t.Error("the end of an older stream counts")
	}
	endpointOf(s).Lost(newer)
	c.poll("the leader to be forgotten", func() bool { return m.follows() == raft.None })
	heal()
}
