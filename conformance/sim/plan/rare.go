package plan

import (
	"slices"
	"time"
)

// This file draws histories that single faults at random moments make too seldom. Each has a stream of chance of its
// own: the other plans stay as they are.

// drawThieves makes some plans steal sessions while leaders change. It has a stream of chance of its
// own: the other plans stay as they are.
func (g *generator) drawThieves() {
	g.Rand = chance(g.plan.Seed, "thieves")
	if g.members() == 1 || !g.one(12) {
		return
	}
	g.named("thieves")
	for i := range g.plan.Clients {
		c := &g.plan.Clients[i]
		c.Kind, c.Think = Thief, g.between(10*time.Millisecond, 200*time.Millisecond)
	}
	for i := range g.plan.Nodes {
		g.plan.Nodes[i].RelaxedAttach = !g.one(3) // the log knows less about thefts then
	}
	kinds := []Kind{Transfer, Transfer, Reset, Isolate, Kill}
	for range 6 + g.IntN(10) {
		if e, fits := g.draw(kinds[g.IntN(len(kinds))], g.moment()); fits {
			e.For /= 4
			g.plan.Events = append(g.plan.Events, e)
		}
	}
}

// drawRare replaces the faults of a few plans by rounds of the same few faults in the same order, some of which end in
// a crash.
func (g *generator) drawRare(members bool) {
	g.Rand = chance(g.plan.Seed, "rare")
	n := g.members()
	rounds := []rare{{"failed sync", g.failedSync}}
	switch {
	case members:
		rounds = []rare{{"grown", g.grown}}
	case n > 1:
		rounds = append(rounds, rare{"late answers", g.lateAnswers}, rare{"joined writes", g.joinedWrites},
			rare{"received", g.received}, rare{"deposed", g.deposed})
	}
	if !g.one(20) && !(members && g.one(5)) {
		return
	}
	chosen := rounds[g.IntN(len(rounds))]
	g.named("%s", chosen.name)
	g.plan.Events = nil
	g.plan.Virtual = 6000 * ms
	g.plan.Clients = g.plan.Clients[:min(4, len(g.plan.Clients))]
	for i := range g.plan.Clients {
		g.plan.Clients[i].Think = 40 * ms
	}
	for at := g.moment() / 4; at < g.plan.Virtual; {
		x := g.IntN(n)
		at = chosen.round(x, (x+1+g.IntN(max(1, n-1)))%n, max(at, Duration(time.Second)))
	}
	g.plan.Events = slices.DeleteFunc(g.plan.Events, func(e Event) bool { return e.At > g.plan.Virtual })
}

// rare is a history that is made of rounds. A round concerns servers x and y, and returns when the next one may begin.
type rare struct {
	name  string
	round func(x, y int, at Duration) Duration
}

// add adds an event some time after at, and returns when that is.
func (g *generator) add(at, low, high Duration, e Event) Duration {
	e.At = (at + g.between(low.Std(), high.Std())).rounded()
	g.plan.Events = append(g.plan.Events, e)
	return e.At
}

const ms = Duration(time.Millisecond)

// failedSync makes a sync fail whose data the next start can read all the same, and takes the power a little later.
func (g *generator) failedSync(x, y int, at Duration) Duration {
	at = g.add(at, ms, 300*ms, Event{Kind: EIO, Server: x, Other: y, N: 1 + g.Int64N(20), For: ms})
	return g.add(at, 50*ms, 800*ms, Event{Kind: Power, Server: x, Other: y, For: 10 * ms}) + 500*ms
}

// lateAnswers makes a server's questions and answers late, and then lets its questions not arrive any more: the others
// elect another leader while answers still come to the old one.
func (g *generator) lateAnswers(x, y int, at Duration) Duration {
	at = g.add(at, ms, 100*ms, Event{Kind: Transfer, Server: x, Other: y})
	late, begun, cut := 100+g.Int64N(390), at+100*ms, g.between(500*time.Millisecond, 2*time.Second)
	for other := range g.members() {
		if other != x {
			g.add(begun, ms, 2*ms, Event{Kind: Delay, Server: x, Other: other, N: late, For: cut + 3000*ms})
			g.add(begun+cut, ms, 2*ms, Event{Kind: OneWay, Server: x, Other: other, For: 2500 * ms})
		}
	}
	return begun + cut + 4000*ms
}

// joinedWrites isolates a server with a slow disk, so that others write over the end of its log, and gives it new terms
// while those writes wait.
func (g *generator) joinedWrites(x, y int, at Duration) Duration {
	slow := 20 + g.Int64N(300)
	at = g.add(at, ms, 100*ms, Event{Kind: Transfer, Server: x, Other: y})
	away := g.between(time.Second, 2*time.Second)
	healed := away + g.add(at, 200*ms, 500*ms, Event{Kind: Isolate, Server: x, Other: y, For: away})
	g.add(healed-200*ms, ms, 10*ms, Event{Kind: SlowSync, Server: x, Other: y, N: slow, For: 2000 * ms})
	for range 3 {
		g.add(healed, 10*ms, 500*ms, Event{Kind: Transfer, Server: y, Other: x})
	}
	return g.add(healed, 50*ms, 1500*ms, Event{Kind: Power, Server: x, Other: y, N: g.Int64N(2), Share: g.share(),
		For: 10 * ms}) + 800*ms
}

// received lets a server fall behind until it is sent a checkpoint, and ends it at a moment of its installation.
func (g *generator) received(x, y int, at Duration) Duration {
	l := &g.plan.Limits
	l.CheckpointCommands, l.TailEntries, l.LagEntries = 20, 1, 2
	away := g.between(500*time.Millisecond, 2*time.Second)
	at = g.add(at, ms, 100*ms, Event{Kind: Isolate, Server: x, Other: y, For: away}) + away
	if g.one(2) {
		g.add(at-10*ms, ms, 2*ms, Event{Kind: SlowSync, Server: x, Other: y, N: 1 + g.Int64N(50), For: 1000 * ms})
	}
	e := Event{Kind: CrashAt, Server: x, Other: y, N: 1 + g.Int64N(60), Share: g.share(), For: 10 * ms}
	switch g.IntN(6) {
	case 0, 1:
		e.Kind = Kill
	case 2: // the disk is full when the checkpoint comes
		e.Kind, e.For = ENOSPC, 300*ms
	}
	return g.add(at-5*ms, ms, 300*ms, e) + 500*ms
}

// deposed cuts a leader off whose connections are lost at the same moment: the others elect another one at once, while
// it has its lease, and clients.
func (g *generator) deposed(x, y int, at Duration) Duration {
	for i := range g.plan.Nodes {
		g.plan.Nodes[i].RelaxedAttach = true // clients come back to it without the others
	}
	for i := range g.plan.Clients {
		g.plan.Clients[i].Timeout = min(g.plan.Clients[i].Timeout, 300*ms+10*g.plan.Links.Max)
	}
	at = g.add(at, ms, 100*ms, Event{Kind: Transfer, Server: x, Other: y})
	at = g.add(at, 500*ms, 900*ms, Event{Kind: Reset, Server: x, Other: y})
	cut := g.between(time.Second, 2*time.Second)
	for other := range g.members() {
		if other != x {
			g.plan.Events = append(g.plan.Events, Event{At: at, Kind: Cut, Server: x, Other: other, For: cut})
		}
	}
	return at + cut + 300*ms
}

// grown adds servers one after the other, and ends one that knows of them before a leader change writes that down.
func (g *generator) grown(_, _ int, at Duration) Duration {
	n, all := g.members(), len(g.plan.Servers)
	first, x := n+g.IntN(all-n), g.IntN(n)
	if g.one(2) {
		slow := 20 + g.Int64N(200)
		g.add(at, ms, 2*ms, Event{Kind: SlowSync, Server: x, Other: first, All: true, N: slow, For: 4000 * ms})
	}
	for i := range 2 {
		s := n + (first-n+i)%(all-n)
		if g.one(2) {
			at = g.add(at, ms, 50*ms, Event{Kind: Remove, Server: s, Other: x})
		}
		at = g.add(at, ms, 200*ms, Event{Kind: Add, Server: s, Other: x})
	}
	return g.add(at, 50*ms, 2000*ms, Event{Kind: []Kind{Kill, Power}[g.IntN(2)], Server: x, Other: (x + 1) % all,
		All: g.one(4), Share: g.share(), For: g.between(10*time.Millisecond, 500*time.Millisecond)}) + 200*ms
}
