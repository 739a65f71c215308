package server

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
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

// silenceRun is one history: a client whose server follows a leader, the end of that leader or of the relay to it, what
// comes after, and pauses. friendly histories are those in which nothing takes longer than a sound network allows.
type silenceRun struct {
	*silenceWorld
	choices  *choices
	friendly bool
	timeout  uint64
	a, b, f  *silentServer
	first    *silenceRelay // to a
	relay    *silenceRelay // the last
}

// margin is how much longer the session lived than the client may believe, by the clock of the leader that ended it.
func (r *silenceRun) margin() time.Duration {
	return r.expired - r.spoke - r.expirer.trueTime(time.Duration(r.timeout)*time.Millisecond)
}

func newSilenceRun(c *choices, friendly bool) *silenceRun {
	timeout := []uint64{0, 30, 300, 1000}[int(c.next()*3.99)]
	return newSilenceRunOf(c, friendly, timeout, [3]float64{c.rate(), c.rate(), c.rate()})
}

func newSilenceRunOf(c *choices, friendly bool, timeoutMillis uint64, rates [3]float64) *silenceRun {
	r := &silenceRun{silenceWorld: &silenceWorld{}, choices: c, friendly: friendly, timeout: timeoutMillis}
	r.a, r.b, r.f = r.addServer(rates[0]), r.addServer(rates[1]), r.addServer(rates[2])
	r.leads, r.term = r.a, 0
	r.elect(r.a)
	r.commit(r.a, &coordination.CreateNode{Path: []string{"local", "n"},
		Config: coordination.NodeConfig{SelfCheckPeriodMillis: 500, SessionGracePeriodMillis: 1500}})
	r.confirmRounds(r.a)
	r.first = r.connect(r.a)
	r.openClient()
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

func (r *silenceRun) openClient() {
	policy := &coordination.PingPolicy{Opaque: func() uint64 { return 1 + uint64(r.count) }, FirstMessageMillis: 10_000}
	s := &sessionStream{id: 1_000_000, group: r.f.group, pool: &writers{closed: true}, voice: r.f.server.voice,
		limits: &Hardening{Linger: time.Hour}, front: coordination.NewFront(policy), timerAt: coordination.Never, panics: &panicCounter{}}
	if err := r.f.server.streams.add(s); err != nil {
		panic(err)
	}
	r.client, r.at = s, r.f
	s.open()
	r.say(coordination.ClientMessage{Kind: coordination.ClientStart, Start: &coordination.AttachRequest{
		Path: "/local/n", TimeoutMillis: r.timeout, Nonce: 1, Server: 1}})
	r.chat()
}

// chat has the client ping, so that there is always something to answer.
func (r *silenceRun) chat() {
	const often = 3 * time.Millisecond
	if r.session != 0 {
		r.say(coordination.ClientMessage{Kind: coordination.ClientPing, Opaque: 7})
	}
	if r.client != nil {
		r.schedule(r.now+often, r.f, r.chat)
	}
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
		if !c.over || leader.group.leader == nil {
			r.f.afterFunc(10*time.Millisecond, reconnect)
			return
		}
		fresh := r.connect(leader)
		if !lastly {
			r.cut(fresh)
		}
	}
	r.schedule(r.now+again, r.f, reconnect)
}

// replaceLeader has b lead. a is cut off from the majority at some moment; what it asked before may still be answered.
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
		r.a.group.lead(nil)
	})
	r.schedule(elected+r.choices.upTo(without), r.f, func() {
		r.f.group.lead(nil)
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
	if r.client != nil {
		r.client.stopTimers()
	}
}

func (r *silenceRun) problem() error {
	switch {
	case r.session == 0: // the network is too slow for the client ever to be told
		return nil
	case r.late > 0:
		return fmt.Errorf("the client was told that it lives %v after its session had ended", r.late)
	case r.expired != 0 && r.margin() < 0:
		return fmt.Errorf("the session ended %v before the client's time was over", -r.margin())
	}
	return nil
}

// TestSilence looks for a history in which a client is told that it lives although the leader, the old or the new one,
// may have ended its session. Every seed is a history; the worst ones are then made worse step by step.
func TestSilence(t *testing.T) {
	first, last := uint64(1), uint64(*silenceSeeds)
	if *silenceSeed != 0 {
		first, last = *silenceSeed, *silenceSeed
	}
	worst := silenceWorst{margin: time.Hour}
	ended := 0
	for seed := first; seed <= last; seed++ {
		random := rand.New(rand.NewPCG(seed, 0))
		if worst.try(t, seed, &choices{random: random}) {
			ended++
		}
	}
	t.Logf("%d of %d sessions ended; the smallest margin is %v, of seed %d", ended, last-first+1, worst.margin, worst.seed)
	random := rand.New(rand.NewPCG(worst.seed, 3))
	for range *silenceSeeds / 2 {
		numbers := slices.Clone(worst.numbers)
		for range 1 + random.IntN(3) {
			numbers[random.IntN(len(numbers))] = random.Float64()
		}
		worst.try(t, worst.seed, &choices{numbers: numbers, random: rand.New(rand.NewPCG(random.Uint64(), 0))})
	}
	t.Logf("made worse, the margin is %v", worst.margin)
	if *silenceSeed != 0 { // for whoever wants to see one
		r := newSilenceRun(&choices{random: rand.New(rand.NewPCG(*silenceSeed, 0))}, false)
		r.play()
		t.Log(strings.Join(r.history, "\n"))
	}
}

// silenceWorst is the history with the smallest margin so far.
type silenceWorst struct {
	margin  time.Duration
	seed    uint64
	numbers []float64
}

// try plays a history and reports whether its session ended.
func (w *silenceWorst) try(t *testing.T, seed uint64, c *choices) bool {
	t.Helper()
	r := newSilenceRun(c, false)
	r.play()
	if err := r.problem(); err != nil {
		t.Fatalf("-silence-seed=%d: %v\n%s", seed, err, strings.Join(r.history, "\n"))
	}
	if r.expired == 0 || r.session == 0 {
		return false
	}
	if m := r.margin(); m < w.margin && !r.left {
		w.margin, w.seed, w.numbers = m, seed, c.numbers
	}
	return true
}

// TestFriendlySilence plays histories in which nothing takes long: leaders change, relays break and come back, servers
// pause for a moment. No session may end, no stream either, and the client is spoken to at the end.
func TestFriendlySilence(t *testing.T) {
	for seed := uint64(1); seed <= uint64(*silenceSeeds/3); seed++ {
		r := newSilenceRun(&choices{random: rand.New(rand.NewPCG(seed, 1))}, true)
		r.play()
		if r.expired != 0 || r.ended != coordination.EndingNone || r.now-r.spoke > 2*time.Second {
			t.Fatalf("seed %d: the session ended at %v, the stream's ending is %d, the client last heard something at %v of %v\n%s",
				seed, r.expired, r.ended, r.spoke, r.now, strings.Join(r.history, "\n"))
		}
	}
}

// TestLostServer loses the relay of a server whose client has a session: the countdown begins relayLease later, and a
// client whose server comes back too late is told that its session has expired (§2.10, §7.1).
func TestLostServer(t *testing.T) {
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
				t.Errorf("back in time: ended at %v with %d, last heard %v", r.expired-at, r.ended, r.spoke-at)
			}
			continue
		}
		r.run(at + relayLease + timeout + time.Second)
		if r.expired-at != relayLease+timeout {
			t.Errorf("the session ended %v after the loss, want %v", r.expired-at, relayLease+timeout)
		}
		if r.spoke > at+relayLeave {
			t.Errorf("the client heard something %v after the loss", r.spoke-at)
		}
		lost.breakAtFollower()
		r.connect(r.a)
		r.run(r.now + time.Second)
		if r.ended != coordination.EndingOK || r.refusal == nil || *r.refusal != *coordination.SessionExpired {
			t.Errorf("the client of the server that came back: ending %d, %v", r.ended, r.refusal)
		}
	}
}

// TestSilenceOfATransfer hands the leadership over, in vain and then with success. A leader says nothing from the moment
// at which it begins, and the silence must stay far below what clients put up with: the Python SDK gives up after 3 s.
func TestSilenceOfATransfer(t *testing.T) {
	for seed := range uint64(20) {
		r := newSilenceRunOf(&choices{random: rand.New(rand.NewPCG(seed, 4))}, true, 5000, [3]float64{1, 1, 1})
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
		r.a.group.lead(nil)
		r.f.group.lead(nil)
		r.first.breakAtFollower()
		r.run(r.now + 20*time.Millisecond)
		r.connect(r.b)
		r.run(r.now + 2*time.Second)
		if most := 300 * time.Millisecond; r.longest > most || r.longest == 0 || r.ended != coordination.EndingNone {
			t.Errorf("seed %d: with success: %v of silence, want at most %v; ending %d", seed, r.longest, most, r.ended)
		}
	}
}

// TestSilenceArithmetic is the worst case by hand, with clocks that are wrong by silenceDrift against each other: a leader
// gives leave at the end of its lease, and its successor was elected when that lease began; or a relay is lost at the
// moment at which leave is asked for.
func TestSilenceArithmetic(t *testing.T) {
	slow := func(d time.Duration) time.Duration { return time.Duration(float64(d) / (1 - silenceDrift)) }
	fast := func(d time.Duration) time.Duration { return time.Duration(float64(d) / (1 + silenceDrift)) }
	smallestGrace := time.Duration(coordination.NodeConfig{SelfCheckPeriodMillis: 1, SessionGracePeriodMillis: 1}.EffectiveGraceMillis()) * time.Millisecond
	if speaks, expires := slow(raftstore.LeaseWindow)+slow(relayLeave), fast(smallestGrace); speaks >= expires {
		t.Errorf("after a leader change: spoken until %v, expired from %v", speaks, expires)
	}
	if speaks, expires := slow(relayLeave), fast(relayLease); speaks >= expires {
		t.Errorf("after the loss of a relay: spoken until %v, expired from %v", speaks, expires)
	}
}
