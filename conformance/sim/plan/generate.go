package plan

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// generator draws a plan.
type generator struct {
	*rand.Rand
	plan   Plan
	spoilt map[int]bool // servers whose disk the plan ruins: always the same minority
}

// Generate returns the plan of a seed. Each seed draws a mixture first, with a few kinds of faults that have rates of
// their own: a run with everything at once reaches less than many runs with little each.
func Generate(seed uint64) Plan {
	g := &generator{Rand: chance(seed, "plan"), plan: Plan{Seed: seed, Settle: Duration(time.Minute)},
		spoilt: make(map[int]bool)}
	members := g.IntN(8) == 0
	if members {
		g.drawCluster(1+2*g.IntN(2), 5)
	} else {
		g.drawCluster(g.servers(), 0)
	}
	g.drawLength(members)
	g.drawLimits()
	g.drawLinks()
	g.drawNodes()
	g.drawClients()
	if members {
		g.drawChanges()
	} else {
		g.drawFaults()
		g.drawThieves()
	}
	g.drawRare(members)
	if g.Rand = chance(seed, "neighbours"); g.one(3) {
		g.plan.Neighbours = 1 + g.IntN(4)
	}
	slices.SortStableFunc(g.plan.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return g.plan
}

// named adds a word to the description of the mixture.
func (g *generator) named(format string, args ...any) {
	g.plan.Profile = strings.TrimSpace(g.plan.Profile + " " + fmt.Sprintf(format, args...))
}

// between draws evenly by magnitude: as often between 1 and 10 as between 10 and 100.
func (g *generator) between(low, high time.Duration) Duration {
	span := math.Log(float64(high) / float64(low))
	d := time.Duration(float64(low) * math.Exp(span*g.Float64()))
	return Duration(d.Round(max(time.Microsecond, d/100)))
}

// one is true once in n times.
func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

func (g *generator) servers() int {
	switch at := g.IntN(100); {
	case at < 42:
		return 1
	case at < 94:
		return 3
	case at < 98:
		return 5
	case at < 99:
		return 2
	default:
		return 4
	}
}

// drawCluster makes members, and others that can be added.
func (g *generator) drawCluster(members, others int) {
	g.named("%d servers", members)
	for i := range members + others {
		s := Server{Name: fmt.Sprintf("s%d", i+1), Member: i < members}
		if g.one(2) {
			s.ClockPPM = g.Int64N(90_001) - 45_000
		}
		g.plan.Servers = append(g.plan.Servers, s)
	}
}

// drawLength draws how long faults happen: two short runs reach more than one of twice the length.
func (g *generator) drawLength(members bool) {
	switch at := g.IntN(100); {
	case at == 0:
		g.named("long")
		g.plan.Virtual = g.between(20*time.Second, 40*time.Second)
	case at < 75 && !members:
		g.plan.Virtual = g.between(2500*time.Millisecond, 5*time.Second)
	default:
		g.plan.Virtual = g.between(5*time.Second, 12*time.Second)
	}
	if g.one(3) {
		g.plan.Yield = 1 << g.IntN(15)
	}
}

func (g *generator) drawLimits() {
	l := &g.plan.Limits
	l.SegmentBytes = 4096 << g.IntN(5)
	l.CheckpointCommands = 20 + g.Int64N(1+int64(20)<<g.IntN(5))
	l.TailEntries = 1 + g.Uint64N(50)
	l.LagEntries = l.TailEntries + g.Uint64N(200)
	l.TailBytes = 1024 << g.IntN(8)
	if g.one(20) {
		g.named("full")
		l.StateBytes = 16 << 10 << g.IntN(4)
	}
}

func (g *generator) drawLinks() {
	l := &g.plan.Links
	switch at := g.IntN(10); {
	case at < 6:
		l.Min, l.Max = Duration(50*time.Microsecond), Duration(500*time.Microsecond)
	case at < 8:
		g.named("far")
		l.Min, l.Max = Duration(20*time.Millisecond), Duration(40*time.Millisecond)
	default:
		g.named("tail")
		l.Min, l.Max = Duration(100*time.Microsecond), Duration(2*time.Millisecond)
		l.Tail, l.TailShare = g.between(20*time.Millisecond, 500*time.Millisecond), 0.001+0.03*g.Float64()
	}
}

func (g *generator) drawNodes() {
	for range 1 + g.IntN(2) {
		n := Node{StrictReads: g.one(2), RelaxedAttach: g.one(3)}
		if !g.one(3) {
			n.SelfCheck = g.between(500*time.Millisecond, 2*time.Second)
			n.Grace = n.SelfCheck + g.between(time.Second, 5*time.Second)
		}
		g.plan.Nodes = append(g.plan.Nodes, n)
	}
}

func (g *generator) drawClients() {
	common, rare := Kinds[:6], Kinds[6:]
	fastest, slowest := 30*time.Millisecond, g.between(200*time.Millisecond, time.Second).Std()
	if g.one(12) { // a request takes more of a processor than a virtual second without any
		g.named("busy")
		fastest, slowest = time.Millisecond, 30*time.Millisecond
	}
	shared := g.one(4)
	for range 1 + g.IntN(5) {
		kind := common[g.IntN(len(common))]
		if g.one(25) {
			kind = rare[g.IntN(len(rare))]
		} else if g.one(20) {
			kind = Limited
		}
		shortest := 200*time.Millisecond + 10*g.plan.Links.Max.Std() // a request through a follower takes six ways
		c := Client{Kind: kind, Node: g.IntN(len(g.plan.Nodes)), Server: g.IntN(len(g.plan.Servers)),
			Timeout: g.between(shortest, 10*time.Second), Think: g.between(fastest, slowest), Pipeline: 1,
			Names: 1 + g.IntN(3), Shared: shared}
		if g.one(2) {
			c.Pipeline = 1 + g.IntN(8)
		}
		switch {
		case g.one(10):
			c.Requests = 1 + g.IntN(30)
		case fastest < 10*time.Millisecond:
			c.Requests = 100 + g.IntN(400)
		}
		g.plan.Clients = append(g.plan.Clients, c)
	}
	if g.one(150) {
		g.named("crowd")
		for range 100 {
			g.plan.Clients = append(g.plan.Clients, Client{Kind: Watcher, Server: g.IntN(len(g.plan.Servers)),
				Timeout: g.between(5*time.Second, 10*time.Second), Think: Duration(3 * time.Second), Pipeline: 1,
				Names: 1, Shared: true})
		}
	}
}

// members is the number of servers that are members at the beginning.
func (g *generator) members() int {
	n := 0
	for _, s := range g.plan.Servers {
		if s.Member {
			n++
		}
	}
	return n
}

// moment draws when something happens. The first second is for the start.
func (g *generator) moment() Duration {
	return Duration(time.Second) + Duration(g.Int64N(max(1, int64(g.plan.Virtual)-int64(time.Second)))).rounded()
}

// rounded drops digits that do not matter.
func (d Duration) rounded() Duration { return Duration(d.Std().Round(100 * time.Microsecond)) }

// drawFaults draws some kinds of faults, and for each how often it happens.
func (g *generator) drawFaults() {
	if g.one(40) {
		g.named("calm")
		return
	}
	kinds := slices.Clone(anyServers)
	if g.members() > 1 {
		kinds = append(kinds, severalServers...)
	}
	g.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	most := g.between(2*time.Second, 20*time.Second)
	for _, kind := range kinds[:2+g.IntN(5)] {
		g.named("%s", kind)
		often := 1 + g.IntN(1+int(g.plan.Virtual/max(Duration(time.Second), most/4)))
		for range min(often, 8) {
			if e, fits := g.draw(kind, g.moment()); fits {
				g.plan.Events = append(g.plan.Events, e)
			}
		}
	}
	if g.one(4) {
		for i := range g.plan.Events {
			g.together(&g.plan.Events[i])
		}
	}
}

// together makes an event that ends servers, now and then, one of all servers.
func (g *generator) together(e *Event) {
	switch e.Kind {
	case Kill, Power, Freeze, Suspend, Reset, SlowSync:
		e.All = g.one(4)
	}
}

// anyServers are the faults of a server by itself, severalServers those that need others.
var (
	anyServers = []Kind{Isolate, Reset, ResetOne, HalfOpen, Freeze, FreezeSync, Clock, Jump, Suspend, Kill, Power,
		CrashAt, EIO, ENOSPC, ShortWrite, LowSpace, SlowSync, Stop}
	severalServers = []Kind{Cut, OneWay, Partial, Delay, SlowLink, Transfer, Rot, Wipe, Upgrade, Cut, OneWay, Isolate,
		Power}
)

// draw returns an event of a kind; fits is false if the plan has no place for it.
func (g *generator) draw(kind Kind, at Duration) (e Event, fits bool) {
	n := g.members()
	e = Event{At: at, Kind: kind, Server: g.IntN(n)}
	if n > 1 {
		e.Other = (e.Server + 1 + g.IntN(n-1)) % n
	}
	e.For = g.between(20*time.Millisecond, 5*time.Second)
	switch kind {
	case Reset, ResetOne, HalfOpen, Transfer:
		e.For, e.N = 0, g.Int64N(8)
	case Partial:
		e.N = 1 + g.Int64N(1<<n-2)
	case Delay:
		e.N = 1 + g.Int64N(1+g.Int64N(1000))
	case SlowLink:
		e.N = 1000 << g.IntN(10)
	case Clock:
		e.For, e.N = 0, g.Int64N(90_001)-45_000
	case Jump:
		e.For, e.N = 0, (g.Int64N(2)*2-1)*g.between(time.Second, time.Hour).Std().Milliseconds()
	case Power:
		e.N, e.Share = g.Int64N(2), g.share()
	case CrashAt, EIO, ShortWrite:
		e.N, e.Share = 1+g.Int64N(1+g.Int64N(500)), g.share()
	case SlowSync:
		e.N = 1 + g.Int64N(1+g.Int64N(2000))
	case LowSpace:
		e.N = g.Int64N(64 << 20)
	case Rot, Wipe:
		return e, g.ruin(&e)
	case Upgrade:
		return e, g.upgrade(&e)
	}
	return e, true
}

// share draws the part of unsynced writes that survives: nothing, all, or something between.
func (g *generator) share() float64 { return []float64{0, 1, 0.5, 0.9}[g.IntN(4)] }

// ruin takes a server for an event that ends its data, so that a majority of servers keeps its own.
func (g *generator) ruin(e *Event) bool {
	if !g.spoilt[e.Server] && len(g.spoilt) >= (g.members()-1)/2 {
		return false
	}
	if e.Kind == Wipe && g.spoilt[e.Server] {
		return false
	}
	g.spoilt[e.Server] = true
	return true
}

// upgrade makes all servers old at the beginning, and one new.
func (g *generator) upgrade(e *Event) bool {
	for i := range g.plan.Servers {
		g.plan.Servers[i].Version = 1
	}
	e.N, e.For = 0, g.between(10*time.Millisecond, time.Second)
	return true
}

// drawChanges is the mixture of changes of members and restarts, of which each order leaves something else in logs
// and checkpoints.
func (g *generator) drawChanges() {
	g.named("members")
	kinds := []Kind{Add, Add, Add, Remove, Remove, Kill, Kill, Power, Stop, Transfer, Cut, Isolate, Promote}
	at := g.moment() / 4
	for range 4 + g.IntN(12) {
		kind := kinds[g.IntN(len(kinds))]
		e, fits := g.draw(kind, max(at, Duration(time.Second)).rounded())
		if !fits {
			continue
		}
		n := len(g.plan.Servers)
		e.Server = g.IntN(n)
		e.Other = (e.Server + 1 + g.IntN(n-1)) % n
		e.For = g.between(10*time.Millisecond, 3*time.Second)
		switch kind {
		case Add, Remove, Promote, Transfer:
			e.For = 0
			if kind == Add && g.one(3) {
				e.N = 1
			}
		case Kill, Power:
			e.All = g.one(6)
		}
		g.plan.Events = append(g.plan.Events, e)
		if at += g.between(5*time.Millisecond, 3*time.Second); at > g.plan.Virtual {
			return
		}
	}
}
