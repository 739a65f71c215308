package model

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// setup is the start of a sequence.
type setup struct {
	batches uint64 // seed for the grouping of the commands in flight into entries of the log
	limits  Limits
	names   []string // of all semaphores
	keys    []string // one for each client
	muted   []bool   // one for each client: does not answer pings
	first   step     // makes the node
}

// generator draws the steps of one sequence. What it likes to do differs from seed to seed, so that rare
// combinations get sequences of their own.
type generator struct {
	setup
	random    *rand.Rand
	likes     []like
	total     int
	semaphore []taste
	spellings []string
	servers   int
	zeroSeq   bool // a client as most SDKs are: it always sends seq_no 0
	number    int  // of the step
}

// like is a kind of step and how often it is wanted.
type like struct {
	draw   func(g *generator, r *run, c int) step
	weight int
}

// taste describes the clients' use of a semaphore in a sequence.
type taste struct {
	name      string
	ephemeral bool
	limit     uint64
}

var (
	dataFull    = strings.Repeat("d", 1048576)
	dataTooLong = dataFull + "d"
	nameFull    = strings.Repeat("n", 1024)
	nameTooLong = nameFull + "n"
	textFull    = strings.Repeat("t", 1024)
	textTooLong = textFull + "t"
)

func newGenerator(seed uint64) *generator {
	g := &generator{random: rand.New(rand.NewPCG(seed, 0x6b65737573)), servers: 1, zeroSeq: true}
	g.batches = seed
	g.limits = Limits{Sessions: 1000, Semaphores: 1000}
	if g.one(12) {
		g.limits.Sessions = 1 + g.random.IntN(4)
	}
	if g.one(8) {
		g.limits.Semaphores = 1 + g.random.IntN(3)
	}
	if g.one(8) {
		g.limits.Bytes = 4 + g.random.IntN(40)
	}
	if g.one(6) {
		g.limits.State = EmptyState(nodePath) + g.random.IntN(6000)
	}
	if g.one(8) {
		g.limits.Quota = EmptyState(nodePath) + g.random.IntN(6000)
	}
	if g.one(8) {
		g.limits.Described = 64 + g.random.IntN(300)
	}
	g.drawClients()
	g.drawSemaphores()
	g.drawLikes()
	g.first = g.createNode()
	return g
}

func (g *generator) drawClients() {
	for range 2 + g.random.IntN(5) {
		g.keys = append(g.keys, pick(g, "", "", "a", "b", strings.Repeat("k", 16)))
		g.muted = append(g.muted, g.one(8))
	}
	g.spellings = []string{nodePath}
	if g.one(3) {
		g.spellings = append(g.spellings, "//local/dir/node", "/local/dir//node/", "local/dir/node")
	}
	if g.one(3) {
		g.servers = 2
	}
	g.zeroSeq = g.one(3)
}

func (g *generator) drawSemaphores() {
	names := []string{"door", "a/b", "", "Door", nameFull, "\u00e9"}
	for i := range 1 + g.random.IntN(len(names)) {
		t := taste{name: names[i], ephemeral: g.one(3), limit: pick[uint64](g, 1, 2, 3, math.MaxUint64)}
		if t.ephemeral {
			t.limit = math.MaxUint64
		}
		g.semaphore = append(g.semaphore, t)
		g.names = append(g.names, t.name)
	}
	g.names = append(g.names, nameTooLong)
}

func (g *generator) drawLikes() {
	for _, l := range []like{
		{(*generator).acquire, 40}, {(*generator).release, 12}, {(*generator).create, 8},
		{(*generator).describe, 12},
		{(*generator).update, 5}, {(*generator).delete, 4}, {(*generator).start, 3},
		{(*generator).oddStart, 2}, {(*generator).advance, 10}, {(*generator).deadline, 6},
		{(*generator).close, 3}, {(*generator).stop, 2}, {(*generator).oddity, 2}, {(*generator).pong, 2},
		{(*generator).mute, 1}, {(*generator).restart, 1}, {(*generator).node, 1}, {(*generator).hold, 3},
		{(*generator).set, 4},
	} {
		l.weight = l.weight * pick(g, 0, 1, 1, 2, 5)
		if len(g.likes) == 0 && l.weight == 0 {
			l.weight = 30 // little happens without a single acquire
		}
		g.likes = append(g.likes, l)
		g.total += l.weight
	}
}

// next draws a step that fits what has happened so far.
func (g *generator) next(r *run) step {
	g.number++
	if r.held {
		return g.inFlight(r)
	}
	if r.model.node == nil && g.one(3) {
		return g.createNode()
	}
	c := g.random.IntN(len(g.keys))
	if current := r.slots[c].current; (current == nil || current.model.Ending() != Open) && !g.one(10) {
		return g.start(r, c)
	}
	n := g.random.IntN(g.total)
	for _, l := range g.likes {
		if n -= l.weight; n < 0 {
			return l.draw(g, r, c)
		}
	}
	panic("the weights do not add up")
}

func (g *generator) acquire(r *run, c int) step {
	t := g.taste()
	if !t.ephemeral && r.model.node != nil && r.model.findSemaphore(t.name) == nil && !g.one(8) {
		return g.create(r, c)
	}
	request := Request{Kind: Acquire, Name: t.name, Ephemeral: t.ephemeral, Data: g.data(),
		TimeoutMillis: g.waitTimeout(), Count: pick[uint64](g, 1, 1, 2, 3, t.limit, t.limit, t.limit,
			math.MaxUint64)}
	if !g.one(6) {
		request.Count = min(request.Count, t.limit)
	}
	if g.one(30) {
		request.Count = 0
	}
	if g.one(25) {
		request.Ephemeral = !request.Ephemeral
	}
	if g.one(60) {
		request.Name, request.Ephemeral = nameTooLong, true
	}
	return g.send(c, request)
}

func (g *generator) release(_ *run, c int) step {
	return g.send(c, Request{Kind: Release, Name: g.taste().name})
}

func (g *generator) create(_ *run, c int) step {
	t := g.taste()
	for range 3 {
		// Create uses ephemeral names only rarely, or no semaphore would stay ephemeral.
		if !t.ephemeral {
			break
		}
		t = g.taste()
	}
	request := Request{Kind: Create, Name: t.name, Limit: t.limit, Data: g.data()}
	if g.one(15) {
		request.Limit = 0
	}
	if g.one(40) {
		request.Name = nameTooLong
	}
	return g.send(c, request)
}

func (g *generator) update(_ *run, c int) step {
	request := Request{Kind: Update, Name: g.taste().name, Data: g.data()}
	if g.one(20) {
		request.Name = nameTooLong
	}
	return g.send(c, request)
}

func (g *generator) set(*run, int) step {
	s := step{op: opSet, request: Request{Name: g.taste().name, Data: g.data()}}
	if g.one(20) {
		s.request.Name = nameTooLong
	}
	if g.one(3) {
		s.off = pick[uint64](g, 1, math.MaxUint64)
	}
	return s
}

func (g *generator) delete(_ *run, c int) step {
	return g.send(c, Request{Kind: Delete, Name: g.taste().name, Force: g.one(2)})
}

func (g *generator) describe(_ *run, c int) step {
	return g.send(c, Request{Kind: Describe, Name: g.taste().name, IncludeOwners: g.one(2),
		IncludeWaiters: g.one(2), WatchData: g.one(2), WatchOwners: g.one(2)})
}

func (g *generator) stop(_ *run, c int) step { return g.send(c, Request{Kind: Stop}) }

// oddity is a message that is wrong or has no effect.
func (g *generator) oddity(_ *run, c int) step {
	switch g.random.IntN(6) {
	case 0:
		return g.send(c, Request{Kind: Start, Path: nodePath, TimeoutMillis: 1000})
	case 1:
		return g.send(c, Request{Kind: Empty})
	case 2:
		return g.send(c, Request{Kind: Unsupported})
	}
	return g.send(c, Request{Kind: Ping, Opaque: pick[uint64](g, 0, 7, math.MaxUint64)})
}

func (g *generator) pong(_ *run, c int) step {
	if g.one(4) {
		return step{op: opEcho, slot: c}
	}
	return step{op: opPong, slot: c, pong: pick(g, pongRight, pongRight, pongPrevious, pongZero, pongZero,
		pongWrong)}
}

func (g *generator) mute(_ *run, c int) step { return step{op: opMute, slot: c} }

func (g *generator) close(_ *run, c int) step { return step{op: opClose, slot: c} }

// start attaches a client as it should be done: to a new session, its own, or, as a thief, to somebody's.
func (g *generator) start(r *run, c int) step {
	s := step{op: opStart, slot: c, other: c, server: g.server(), key: keyRight, session: sessionNew,
		request: Request{Kind: Start, Path: g.spelling(), TimeoutMillis: g.sessionTimeout()}}
	if r.slots[c].session != 0 && !g.one(4) {
		s.session = sessionOf
	}
	if g.one(12) {
		s.session, s.other = sessionOf, g.random.IntN(len(g.keys))
	}
	if !g.zeroSeq {
		s.seq = pick(g, 0, 1, 1, 2)
	}
	if g.one(8) {
		s.key = pick(g, keyEmpty, keyWrong, keyFull)
	}
	if g.one(10) {
		s.seq = -1
	}
	if g.one(20) {
		s.request.Description = textFull
	}
	if last := r.slots[c].current; s.session == sessionOf && s.other == c && last != nil && g.one(2) {
		// As a client does that only wants its session back.
		s.request.TimeoutMillis, s.request.Description = last.start.TimeoutMillis, last.start.Description
	}
	return s
}

// oddStart is a stream that should not come to anything.
func (g *generator) oddStart(r *run, c int) step {
	s := g.start(r, c)
	switch g.random.IntN(8) {
	case 0:
		s.request.Path = pick(g, "", "/", "//", "/local", "/local/dir/nodes", "/local/dir",
			"/local/dir/node/x")
	case 1:
		s.request.TimeoutMillis = pick[uint64](g, 1800001, math.MaxUint64)
	case 2:
		s.request.Description = textTooLong
	case 3:
		s.key = keyLong
	case 4:
		s.session = sessionBogus
	case 5:
		s.seq = -1 - g.random.IntN(2)
		s.request.TimeoutMillis = pick(g, s.request.TimeoutMillis, 1800001)
	case 6:
		return step{op: opCloseOnly, slot: c, server: s.server}
	case 7:
		kind := pick(g, Stop, Ping, Pong, Empty, Unsupported, Create, Acquire, Describe)
		return step{op: opFirst, slot: c, server: s.server, request: Request{Kind: kind, Count: 1, Limit: 1}}
	}
	return s
}

func (g *generator) advance(*run, int) step {
	most := pick(g, 20*time.Millisecond, time.Second, 5*time.Second, 20*time.Second, time.Minute, time.Hour)
	by := time.Duration(g.random.Int64N(int64(most))).Truncate(time.Millisecond)
	return step{op: opAdvance, by: by}
}

// deadline goes to just before, or just behind, the next moment at which something runs out.
func (g *generator) deadline(*run, int) step {
	return step{op: opDeadline, by: pick(g, 0, 0, -time.Millisecond)}
}

func (g *generator) hold(*run, int) step { return step{op: opHold} }

// inFlight draws a step for while requests stay in flight: messages of those who have a stream.
func (g *generator) inFlight(r *run) step {
	var live []int
	for c := range g.keys {
		if p := r.slots[c].current; p != nil && p.model.Ending() == Open {
			live = append(live, c)
		}
	}
	if g.one(5) {
		c := g.random.IntN(len(g.keys))
		if p := r.slots[c].current; p != nil && p.model.Attaching() {
			return step{op: opClose, slot: c}
		}
		return g.start(r, c)
	}
	if len(live) == 0 || g.one(8) {
		if g.one(6) {
			return g.restart(r, 0)
		}
		return step{op: opRelease}
	}
	draws := []func(*generator, *run, int) step{
		(*generator).acquire, (*generator).acquire, (*generator).acquire, (*generator).acquire,
		(*generator).release, (*generator).release, (*generator).create, (*generator).update,
		(*generator).delete, (*generator).describe, (*generator).describe, (*generator).oddity,
		(*generator).pong, (*generator).stop, (*generator).close, (*generator).deadline,
		(*generator).deadline, (*generator).advance}
	return draws[g.random.IntN(len(draws))](g, r, live[g.random.IntN(len(live))])
}

func (g *generator) restart(*run, int) step {
	return step{op: pick(g, opRestart, opReload, opHand)}
}

func (g *generator) node(*run, int) step {
	switch g.random.IntN(4) {
	case 0:
		return step{op: opDrop}
	case 1:
		return g.createNode()
	}
	s := g.createNode()
	s.op = opAlter
	return s
}

// createNode draws a configuration. All its grace periods are whole seconds: see sessionTimeout.
func (g *generator) createNode() step {
	return step{op: opCreate,
		config: Config{SelfCheckMillis: pick[uint64](g, 0, 0, 10, 3000, 20000),
			GraceMillis: pick[uint64](g, 0, 0, 10, 2000, 40000),
			AttachMode:  pick[int32](g, 0, 1, 2, 7), ReadMode: pick[int32](g, 0, 1, 2)}}
}

// send numbers a request. A few share a number, which is allowed.
func (g *generator) send(c int, request Request) step {
	request.ReqID = uint64(g.number)
	if g.one(15) {
		request.ReqID = pick[uint64](g, 0, 1)
	}
	return step{op: opSend, slot: c, request: request}
}

// sessionTimeout draws an even number of milliseconds and waitTimeout an odd one, and neither the same one
// twice, so that what a restart begins anew at one moment does not end at one moment. The values at the
// limits are excepted.
func (g *generator) sessionTimeout() uint64 {
	unique := uint64(2 * (g.number % 500))
	switch n := g.random.IntN(100); {
	case n < 4:
		return 0
	case n < 5:
		return 1800000
	case n < 15:
		return unique
	case n < 60:
		return 1000*uint64(1+g.random.IntN(5)) + unique
	}
	return 1000*uint64(10+g.random.IntN(50)) + unique
}

func (g *generator) waitTimeout() uint64 {
	unique := uint64(2*(g.number%500) + 1)
	switch n := g.random.IntN(100); {
	case n < 20:
		return 0
	case n < 45:
		return Infinite
	case n < 46:
		return 86400000
	case n < 48:
		return pick[uint64](g, 86400001, Infinite-1)
	case n < 60:
		return unique
	}
	return 1000*uint64(1+g.random.IntN(40)) + unique
}

func (g *generator) data() string {
	if most := max(g.limits.Bytes, g.limits.Described/8); most > 0 && g.one(2) {
		return strings.Repeat("z", g.random.IntN(most+2))
	}
	if g.one(150) {
		return pick(g, dataFull, dataTooLong)
	}
	return pick(g, "", "", "x", "y", "\x00\xff")
}

func (g *generator) taste() taste { return g.semaphore[g.random.IntN(len(g.semaphore))] }

func (g *generator) spelling() string { return g.spellings[g.random.IntN(len(g.spellings))] }

func (g *generator) server() uint64 { return uint64(1 + g.random.IntN(g.servers)) }

// one is true once in n times.
func (g *generator) one(n int) bool { return g.random.IntN(n) == 0 }

func pick[T any](g *generator, from ...T) T { return from[g.random.IntN(len(from))] }
