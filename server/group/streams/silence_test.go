package streams

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/lease"
)

var (
	silenceSeeds = flag.Int("silence-seeds", 100, "how many seeds TestSilence runs")
	silenceSeed  = flag.Uint64("silence-seed", 0, "the only seed to run, 0 for many")
)

// silenceDrift is how wrong every clock may be.
const silenceDrift = 0.05

// choices is what decides a run: numbers from 0 to 1, used in order.
type choices struct {
	numbers []float64
	used    int
	random  *rand.Rand // for more than there are
}

func (c *choices) next() float64 {
	if c.used == len(c.numbers) {
		c.numbers = append(c.numbers, c.random.Float64())
	}
	c.used++
	return c.numbers[c.used-1]
}

// upTo chooses a duration, often one of the ends.
func (c *choices) upTo(most time.Duration) time.Duration {
	x := c.next()
	switch {
	case x < 0.15:
		return 0
	case x > 0.85:
		return most
	}
	return time.Duration((x - 0.15) / 0.7 * float64(most))
}

func (c *choices) sometimes() bool { return c.next() < 0.5 }

// rate chooses how fast a clock runs.
func (c *choices) rate() float64 {
	switch x := c.next(); {
	case x < 0.3:
		return 1 - silenceDrift
	case x > 0.7:
		return 1 + silenceDrift
	default:
		return 1
	}
}

// silenceRun is one history: clients whose server follows a leader, the end of that leader or of the relay to
// it, what comes after, and pauses. friendly histories are those in which nothing takes longer than a sound
// network allows.
type silenceRun struct {
	*silenceWorld
	*silenceClient // the first
	choices        *choices
	friendly       bool
	a, b, f        *silentServer
	first          *silenceRelay // to a
	relay          *silenceRelay // the last
	plans          bool          // leaders hand over, mostly
	handed         int           // how often the log had that
}

// margin is how much longer the session lived than the client may believe, by the clock of the leader that
// ended it.
func (c *silenceClient) margin() time.Duration {
	return c.expired - c.spoke - c.expirer.trueTime(time.Duration(c.timeout)*time.Millisecond)
}

// silenceCrowd is how many clients there are in some histories.
const silenceCrowd = 50

func newSilenceRun(c *choices, friendly bool, clients int) *silenceRun {
	timeout := []uint64{0, 30, 300, 1000}[int(c.next()*3.99)]
	r := newSilenceRunOf(c, friendly, timeout, [3]float64{c.rate(), c.rate(), c.rate()})
	for i := 1; i < clients; i++ {
		r.openClient(r.f, []uint64{300, 1000}[i%2], 100*time.Millisecond)
	}
	slowest, steps := 200*time.Millisecond, 300*time.Millisecond/time.Duration(clients)
	if friendly {
		slowest, steps = 20*time.Millisecond, 20*time.Millisecond/time.Duration(clients)
	}
	slowest, steps = c.upTo(slowest), c.upTo(steps)
	r.latency = func() time.Duration { return c.upTo(slowest) }
	r.stride = func() time.Duration { return c.upTo(steps) }
	r.kept = func(n int) int { return int(c.next() * (float64(n) + 0.99)) }
	r.batch = func(n int) int {
		if n == 1 || c.sometimes() {
			return n
		}
		return 1 + int(c.next()*(float64(n)-0.01))
	}
	return r
}

func newSilenceRunOf(c *choices, friendly bool, timeoutMillis uint64, rates [3]float64) *silenceRun {
	none := func() time.Duration { return 0 }
	r := &silenceRun{silenceWorld: &silenceWorld{latency: none, stride: none,
		kept: func(n int) int { return 0 }, batch: func(n int) int { return n }}, choices: c,
		friendly: friendly}
	r.a, r.b, r.f = r.addServer(rates[0]), r.addServer(rates[1]), r.addServer(rates[2])
	r.leads, r.term = r.a, 0
	r.elect(r.a)
	r.apply(r.entry(r.a, &coordination.CreateNode{Path: []string{"local", "n"},
		Config: coordination.NodeConfig{SelfCheckPeriodMillis: 500, SessionGracePeriodMillis: 1500}}), true)
	r.confirmRounds(r.a)
	r.first = r.connect(r.a)
	r.silenceClient = r.openClient(r.f, timeoutMillis, 3*time.Millisecond)
	return r
}

func (r *silenceRun) confirmRounds(s *silentServer) {
	const every = 400 * time.Millisecond
	delay := r.choices.upTo(every)
	if r.friendly {
		delay = r.choices.upTo(20 * time.Millisecond)
	}
	s.confirm(every, delay)
}

// connect opens a relay from f. Each message takes its own time.
func (r *silenceRun) connect(to *silentServer) *silenceRelay {
	longest := 300 * time.Millisecond
	if r.friendly {
		longest = 20 * time.Millisecond
	}
	longest = r.choices.upTo(longest)
	delay := func() time.Duration { return r.choices.upTo(longest) }
	r.relay = r.open(r.f, to, delay, delay)
	return r.relay
}

// openClient opens a stream on a server, for a new session.
func (r *silenceRun) openClient(at *silentServer, timeoutMillis uint64, often time.Duration) *silenceClient {
	c := r.openStream(at)
	c.timeout = timeoutMillis
	c.start(&coordination.AttachRequest{Path: "/local/n", TimeoutMillis: timeoutMillis,
		Nonce: uint64(1 + len(r.clients))})
	c.chat(often)
	return c
}

func (r *silenceRun) openStream(at *silentServer) *silenceClient {
	policy := &coordination.PingPolicy{Opaque: func() uint64 { return 1 + uint64(r.count) },
		FirstMessageMillis: 10_000}
	number := len(r.clients)
	s := &Stream{id: coordination.StreamID(1_000_000 + number), set: at.streams, client: idle{},
		front: coordination.NewFront(policy), timerAt: coordination.Never}
	if err := at.streams.add(s); err != nil {
		panic(err)
	}
	c := &silenceClient{in: r.silenceWorld, stream: s, at: at}
	r.clients = append(r.clients, c)
	s.Open()
	return c
}

func (c *silenceClient) start(start *coordination.AttachRequest) {
	start.Server = 1
	c.say(coordination.ClientMessage{Kind: coordination.ClientStart, Start: start})
}

// pauses stops servers for a while.
func (r *silenceRun) pauses() {
	longest := 3 * time.Second
	if r.friendly {
		longest = 100 * time.Millisecond
	}
	for _, s := range []*silentServer{r.a, r.b, r.f} {
		if at, d := r.choices.upTo(4*time.Second), r.choices.upTo(longest); r.choices.sometimes() {
			r.schedule(r.now+at, nil, func() {
				r.note("a server is paused for %v", d)
				s.pausedUntil = max(s.pausedUntil, r.now+d)
			})
		}
	}
}

// cut breaks a relay: its directions fail, and its ends notice, each at a time of its own.
func (r *silenceRun) cut(c *silenceRelay) {
	within := time.Second
	if r.friendly {
		within = 50 * time.Millisecond
	}
	at := r.now
	r.schedule(at+r.choices.upTo(within), nil, func() { c.cutThere = true })
	r.schedule(at+r.choices.upTo(within), nil, func() { c.cutBack = true })
	r.schedule(at+r.choices.upTo(within), c.to, c.breakAtLeader)
	r.schedule(at+r.choices.upTo(within), c.from, c.breakAtFollower)
}

// breakRelay breaks the relay to the leader, and has the follower connect again, to the same leader.
func (r *silenceRun) breakRelay(leader *silentServer) {
	r.cut(r.relay)
	gap := 2 * time.Second
	if r.friendly {
		gap = 150 * time.Millisecond
	}
	again := r.choices.upTo(gap)
	lastly := r.choices.sometimes() || r.friendly // or the new one works for long
	c := r.relay
	var reconnect func()
	reconnect = func() {
		if !c.over || !leader.serves() {
			r.f.AfterFunc(10*time.Millisecond, reconnect)
			return
		}
		fresh := r.connect(leader)
		if !lastly {
			r.cut(fresh)
		}
	}
	r.schedule(r.now+again, r.f, reconnect)
}

// replaceLeader has b lead. a is cut off from the majority at some moment; what it asked before may still be
// answered.
func (r *silenceRun) replaceLeader() {
	isolated := r.now + r.choices.upTo(time.Second)
	r.schedule(isolated, nil, func() { r.a.confirms, r.leads = false, nil })
	without := 2 * time.Second
	if r.friendly {
		without = 500 * time.Millisecond
	}
	elected := isolated + 1 + r.choices.upTo(without)
	r.schedule(elected, nil, func() {
		r.b.pausedUntil = 0
		r.elect(r.b)
		r.confirmRounds(r.b)
	})
	// a and f hear of it each at a time of its own.
	r.schedule(elected+r.choices.upTo(without), r.a, func() {
		r.a.leaseUntil = 0
		r.a.depose()
	})
	r.schedule(elected+r.choices.upTo(without), r.f, func() {
		r.f.follow()
		r.first.breakAtFollower()
		r.schedule(r.now+r.choices.upTo(without), r.f, func() { r.connect(r.b) })
	})
}

// play runs a history to its end.
func (r *silenceRun) play() {
	r.run(2 * time.Second)
	r.pauses()
	switch {
	case r.choices.sometimes():
		r.breakRelay(r.a)
		r.run(6 * time.Second)
	default:
		r.replaceLeader()
		r.run(6 * time.Second)
		if r.choices.sometimes() && r.relay != r.first {
			r.breakRelay(r.b)
			r.run(10 * time.Second)
		}
	}
	r.run(r.now + 4*time.Second)
	for _, c := range r.clients {
		if c.stream != nil {
			c.stream.stopTimers()
		}
	}
}

func (r *silenceRun) problem() error {
	for _, c := range r.clients {
		switch {
		case c.session == 0: // the network is too slow for the client ever to be told
		case c.late > 0:
			return fmt.Errorf("the client of session %d was told that it lives %v after its session had ended",
				c.session, c.late)
		case c.expired != 0 && c.margin() < 0:
			return fmt.Errorf("session %d ended %v before its client's time was over", c.session, -c.margin())
		}
	}
	return nil
}

// oneGoroutine fails a test that starts goroutines: such a test must not run without the race detector. Tests that call
// it run one after the other.
func oneGoroutine(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine() // of tests that are over some may still be ending
	t.Cleanup(func() {
		if now := runtime.NumGoroutine(); now > before {
			t.Errorf("%d goroutines run, %d did before", now, before)
		}
	})
}

// TestSilence looks for a history in which a client is told that it lives although the leader, the old or the
// new one, may have ended its session. Every seed is a history, some of them with a crowd of clients; the
// worst ones are then made worse step by step.
func TestSilence(t *testing.T) {
	testmode.WithoutRace(t)
	oneGoroutine(t)
	first, last := uint64(1), uint64(*silenceSeeds)
	if *silenceSeed != 0 {
		first, last = *silenceSeed, *silenceSeed
	}
	worst := silenceWorst{margin: time.Hour}
	ended := 0
	for seed := first; seed <= last; seed++ {
		random := rand.New(rand.NewPCG(seed, 0))
		clients := 1
		if seed%silenceCrowdEvery == 0 {
			clients = silenceCrowd
		}
		if worst.try(t, seed, &choices{random: random}, clients) {
			ended++
		}
	}
	t.Logf("%d of %d sessions ended; the smallest margin is %v, of seed %d", ended, last-first+1,
		worst.margin, worst.seed)
	random := rand.New(rand.NewPCG(worst.seed, 3))
	for range *silenceSeeds / 2 {
		numbers := slices.Clone(worst.numbers)
		for range 1 + random.IntN(3) {
			numbers[random.IntN(len(numbers))] = random.Float64()
		}
		worst.try(t, worst.seed, &choices{numbers: numbers,
			random: rand.New(rand.NewPCG(random.Uint64(), 0))}, worst.clients)
	}
	t.Logf("made worse, the margin is %v", worst.margin)
	if *silenceSeed != 0 { // for whoever wants to see one
		r := newSilenceRun(&choices{random: rand.New(rand.NewPCG(*silenceSeed, 0))}, false, worst.clients)
		r.play()
		t.Log(strings.Join(r.history, "\n"))
	}
}

// silenceWorst is the history with the smallest margin so far.
type silenceWorst struct {
	margin  time.Duration
	seed    uint64
	clients int
	numbers []float64
}

// silenceCrowdEvery is how rare a crowd is.
const silenceCrowdEvery = 20

// try plays a history and reports whether its session ended.
func (w *silenceWorst) try(t *testing.T, seed uint64, c *choices, clients int) bool {
	t.Helper()
	r := newSilenceRun(c, false, clients)
	r.play()
	if err := r.problem(); err != nil {
		t.Fatalf("-silence-seed=%d: %v\n%s", seed, err, strings.Join(r.history, "\n"))
	}
	ended := false
	for _, client := range r.clients {
		if client.expired == 0 || client.session == 0 {
			continue
		}
		ended = true
		if m := client.margin(); m < w.margin && !client.left {
			w.margin, w.seed, w.clients, w.numbers = m, seed, clients, c.numbers
		}
	}
	return ended
}

// TestFriendlySilence plays histories in which nothing takes long: leaders change, relays break and come
// back, servers pause for a moment. No session may end, no stream either, and the client is spoken to at the
// end.
func TestFriendlySilence(t *testing.T) {
	testmode.WithoutRace(t)
	oneGoroutine(t)
	for seed := uint64(1); seed <= uint64(*silenceSeeds/3); seed++ {
		clients := 1
		if seed%silenceCrowdEvery == 0 {
			clients = silenceCrowd
		}
		r := newSilenceRun(&choices{random: rand.New(rand.NewPCG(seed, 1))}, true, clients)
		r.play()
		for i, c := range r.clients {
			if c.expired != 0 || c.ended != coordination.EndingNone || r.now-c.spoke > 2*time.Second {
				t.Fatalf("seed %d, client %d: the session ended at %v, the stream's ending is %d, the client last "+
					"heard something at %v of %v\n%s",
					seed, i, c.expired, c.ended, c.spoke, r.now, strings.Join(r.history, "\n"))
			}
		}
	}
}

// TestLostServer loses the relay of a server whose client has a session: the countdown begins relayLease
// later, and a client whose server comes back too late is told that its session has expired (§2.10, §7.1).
func TestLostServer(t *testing.T) {
	testmode.WithoutRace(t)
	oneGoroutine(t)
	const timeout = 1000 * time.Millisecond
	for _, back := range []bool{true, false} {
		r := newSilenceRunOf(&choices{random: rand.New(rand.NewPCG(1, 2))}, true, 1000, [3]float64{1, 1, 1})
		r.run(2 * time.Second)
		lost := r.first
		lost.breakAtLeader()
		at := r.now
		if back { // in time
			r.run(at + relayLease + timeout - 100*time.Millisecond)
			lost.breakAtFollower()
			r.connect(r.a)
			r.run(at + 10*time.Second)
			if r.expired != 0 || r.ended != coordination.EndingNone || r.now-r.spoke > time.Second {
				t.Errorf("back in time: ended at %v with %d, last heard %v", r.expired-at, r.ended,
					r.spoke-at)
			}
			continue
		}
		r.run(at + relayLease + timeout + time.Second)
		if r.expired-at != relayLease+timeout {
			t.Errorf("the session ended %v after the loss, want %v", r.expired-at, relayLease+timeout)
		}
		if r.spoke > at+relayPermit {
			t.Errorf("the client heard something %v after the loss", r.spoke-at)
		}
		lost.breakAtFollower()
		r.connect(r.a)
		r.run(r.now + time.Second)
		if !r.heardOfExpiry() {
			t.Errorf("the client of the server that came back: ending %d, %v", r.ended, r.refusal)
		}
	}
}

// TestOrphansAreSilent has a server come back to the leader after the session of its client has ended. A
// permit comes with the leader's first answer, and only later it is the stream's turn to tell who it is: in
// between nothing is said, neither a ping nor what was kept.
func TestOrphansAreSilent(t *testing.T) {
	testmode.WithoutRace(t)
	oneGoroutine(t)
	r := newSilenceRunOf(&choices{random: rand.New(rand.NewPCG(1, 2))}, true, 300, [3]float64{1, 1, 1})
	r.run(2 * time.Second)
	r.first.breakAtLeader()
	r.first.breakAtFollower()
	r.run(r.now + relayLease + 300*time.Millisecond)
	if r.expired == 0 {
		t.Fatal("the session has not ended")
	}
	const turn = 500 * time.Millisecond
	r.stride = func() time.Duration { return turn }
	back := r.now
	r.connect(r.a)
	r.run(back + turn)
	if r.f.streams.Speaking() == nil || r.ended != coordination.EndingNone {
		t.Fatalf("the server has no permit, or the stream's turn has come: ending %d", r.ended)
	}
	r.run(back + 2*turn)
	if r.late != 0 {
		t.Errorf("the client heard something %v after its session had ended", r.late)
	}
	if !r.heardOfExpiry() {
		t.Errorf("the stream's ending is %d, %v", r.ended, r.refusal)
	}
}

// TestFrozenServer freezes a server whose client has a session: its connections stay, but nothing comes over
// them. The leader gives the relay up, and the session ends as when a relay breaks; the client is told when
// its server goes on.
func TestFrozenServer(t *testing.T) {
	testmode.WithoutRace(t)
	oneGoroutine(t)
	const timeout = 1000 * time.Millisecond
	for _, back := range []bool{true, false} {
		r := newSilenceRunOf(&choices{random: rand.New(rand.NewPCG(1, 2))}, true, 1000, [3]float64{1, 1, 1})
		r.run(2 * time.Second)
		at := r.now
		r.f.pausedUntil = at + time.Minute
		if back { // while the leader still waits
			r.f.pausedUntil = at + relayPatience - renewInterval - 50*time.Millisecond
			r.run(at + time.Minute)
			if r.expired != 0 || r.ended != coordination.EndingNone || r.now-r.spoke > time.Second {
				t.Errorf("back in time: ended at %v with %d, last heard %v", r.expired-at, r.ended,
					r.spoke-at)
			}
			continue
		}
		r.run(at + 30*time.Second)
		if latest := relayPatience + relayLease + timeout + 50*time.Millisecond; r.expired-at > latest ||
			r.expired-at < latest-2*renewInterval {
			t.Errorf("the session ended %v after its server froze, want %v", r.expired-at, latest)
		}
		r.run(at + time.Minute + 100*time.Millisecond)
		r.first.breakAtFollower()
		r.connect(r.a)
		r.run(r.now + time.Second)
		if !r.heardOfExpiry() {
			t.Errorf("the client of the server that goes on: ending %d, %v", r.ended, r.refusal)
		}
	}
}

// TestSilenceOfATransfer hands the leadership over, in vain and then with success. A leader says nothing from
// the moment at which it begins, and the silence must stay far below what clients put up with: the Python SDK
// gives up after 3 s.
func TestSilenceOfATransfer(t *testing.T) {
	testmode.WithoutRace(t)
	oneGoroutine(t)
	for seed := range uint64(20) {
		r := newSilenceRunOf(&choices{random: rand.New(rand.NewPCG(seed, 4))}, true, 5000,
			[3]float64{1, 1, 1})
		r.run(2 * time.Second)
		r.longest = 0
		const raftGivesUp = time.Second
		r.a.leaseUntil, r.a.confirms = 0, false
		r.run(r.now + raftGivesUp)
		r.a.confirms = true
		r.confirmRounds(r.a)
		r.run(r.now + 2*time.Second)
		if most := raftGivesUp + 200*time.Millisecond; r.longest > most || r.longest == 0 {
			t.Errorf("seed %d: in vain: %v of silence, want at most %v", seed, r.longest, most)
		}
		r.longest = 0
		r.a.leaseUntil, r.a.confirms, r.leads = 0, false, nil
		r.run(r.now + 20*time.Millisecond)
		r.elect(r.b)
		r.confirmRounds(r.b)
		r.a.depose()
		r.f.follow()
		r.first.breakAtFollower()
		r.run(r.now + 20*time.Millisecond)
		r.connect(r.b)
		r.run(r.now + 2*time.Second)
		if most := 300 * time.Millisecond; r.longest > most || r.longest == 0 ||
			r.ended != coordination.EndingNone {
			t.Errorf("seed %d: with success: %v of silence, want at most %v; ending %d", seed, r.longest,
				most, r.ended)
		}
	}
}

// TestSilenceArithmetic is the worst case by hand, with clocks that are wrong by silenceDrift against each
// other: a leader gives a permit at the end of its lease, and its successor was elected when that lease
// began; or a relay is lost at the moment at which a permit is asked for.
func TestSilenceArithmetic(t *testing.T) {
	slow := func(d time.Duration) time.Duration { return time.Duration(float64(d) / (1 - silenceDrift)) }
	fast := func(d time.Duration) time.Duration { return time.Duration(float64(d) / (1 + silenceDrift)) }
	smallestGrace := time.Duration(coordination.NodeConfig{SelfCheckPeriodMillis: 1,
		SessionGracePeriodMillis: 1}.EffectiveGraceMillis()) * time.Millisecond
	if speaks, expires := slow(lease.Window)+slow(relayPermit),
		fast(smallestGrace); speaks >= expires {
		t.Errorf("after a leader change: spoken until %v, expired from %v", speaks, expires)
	}
	if speaks, expires := slow(relayPermit), fast(relayLease); speaks >= expires {
		t.Errorf("after the loss of a relay: spoken until %v, expired from %v", speaks, expires)
	}
}
