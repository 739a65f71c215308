package streams

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/testmode"
)

// movesLast is for how long leaders move in a history of short reigns. Then one of them stays.
const movesLast = 40 * time.Second

// move has another server lead after a reign that is short.
func (r *silenceRun) move(from, to *silentServer) {
	c := r.choices
	reign := c.upTo([]time.Duration{300 * time.Millisecond, 3 * time.Second}[int(c.next()*1.99)])
	if !r.plans || c.next() < 0.3 {
		r.change(from, to, r.now+reign, 600*time.Millisecond)
		return
	}
	r.schedule(r.now+reign, nil, func() {
		r.note("a hand-over begins")
		from.quiet = true
		r.handOver(from, to, r.now+time.Second)
	})
}

// handOver goes on with a hand-over, as Group.Transfer does. The transfer may fail, and the leader be lost afterwards.
func (r *silenceRun) handOver(from, to *silentServer, patience time.Duration) {
	c := r.choices
	switch {
	case from.replica.Handed() || r.now > patience:
		if from.replica.Handed() {
			r.handed++
		}
		from.leaseUntil = 0
		if c.next() < 0.7 {
			r.change(from, to, r.now, 50*time.Millisecond)
			return
		}
		r.note("the hand-over fails")
		r.schedule(r.now+c.upTo(300*time.Millisecond), nil, func() {
			if from.replica.IsQuiet() {
				from.replica.EndQuiet()
			} else {
				from.quiet = false
			}
			from.turn()
			r.change(from, to, r.now+c.upTo(700*time.Millisecond), 600*time.Millisecond)
		})
		return
	case !from.replica.IsQuiet() && from.peers.SilentFrom() <= from.Now():
		from.replica.Quiet()
		from.turn()
	}
	r.schedule(r.now+5*time.Millisecond, nil, func() { r.handOver(from, to, patience) })
}

// change has another server lead. The old leader does not know it for a while, and the follower connects to the new one
// a little later. Both may be long.
func (r *silenceRun) change(from, to *silentServer, isolated, leaderless time.Duration) {
	const unaware = 400 * time.Millisecond
	c := r.choices
	r.schedule(isolated, nil, func() { from.confirms, r.leads = false, nil })
	elected := isolated + 1 + c.upTo(leaderless)
	deposed := elected + c.upTo(unaware)
	r.schedule(elected, nil, func() {
		to.pausedUntil, to.confirms = 0, true
		r.elect(to)
		r.confirmRounds(to)
	})
	r.schedule(deposed, nil, func() {
		from.leaseUntil = 0
		from.depose()
	})
	hears := elected + c.upTo(unaware)
	r.schedule(hears, nil, func() {
		r.f.follow()
		for _, old := range r.relays {
			if !old.over {
				old.breakAtFollower()
			}
		}
		r.schedule(r.now+c.upTo(unaware/2), r.f, func() {
			if to.serves() {
				r.connect(to)
			}
		})
	})
	r.schedule(max(deposed, hears)+unaware, nil, func() {
		for _, old := range r.relays {
			if old.to == from {
				old.breakAtLeader()
			}
		}
		if r.now < movesLast {
			r.move(to, from)
		}
	})
}

// comings has clients leave, and some of them come back, again and again, or not.
func (r *silenceRun) comings(c *silenceClient) {
	stays := 200*time.Millisecond + r.choices.upTo(4*time.Second)
	r.schedule(r.now+stays, nil, func() {
		if c.stream != nil {
			r.note("the client of session %d leaves, last heard %v", c.session, c.spoke)
			s := c.stream
			s.mutex.Lock()
			s.settle(s.front.Close())
			s.mutex.Unlock()
			c.stream = nil
			s.stopTimers()
			c.at.streams.remove(s)
		}
		if c.session == 0 || r.choices.next() < 0.3 {
			return
		}
		r.schedule(r.now+r.choices.upTo(time.Duration(2*c.timeout)*time.Millisecond), nil, func() {
			if c.expired != 0 {
				return
			}
			again := r.openStream(r.f)
			again.timeout, again.session = c.timeout, 0
			again.start(&coordination.AttachRequest{Path: "/local/n", Session: c.session, TimeoutMillis: c.timeout,
				SeqNo: uint64(len(r.clients))})
			again.chat(30 * time.Millisecond)
			r.comings(again)
		})
	})
}

// heardLast returns the moment of the last sign of life among the clients that have had a session.
func (r *silenceRun) heardLast(session coordination.SessionID) time.Duration {
	last := time.Duration(0)
	for _, c := range r.clients {
		if c.session == session {
			last = max(last, c.spoke)
		}
	}
	return last
}

// playMoves plays a history of short reigns, and reports how long after the last word to its client each session
// ended.
func (r *silenceRun) playMoves() (ends []time.Duration, err error) {
	for _, c := range r.clients {
		r.comings(c)
	}
	r.run(time.Second)
	r.move(r.a, r.b)
	r.run(movesLast + 20*time.Second)
	for _, c := range r.clients {
		if c.stream != nil {
			c.stream.stopTimers()
		}
		if c.session == 0 {
			continue
		}
		heard := r.heardLast(c.session)
		// what is lost with each reign adds up, so this is no promise
		most := 2*time.Duration(c.timeout+1500)*time.Millisecond + 9*time.Second
		// by the fastest of the clocks that may have counted
		least := time.Duration(float64(c.timeout) / (1 + silenceDrift) * float64(time.Millisecond))
		switch {
		case c.late > 0:
			return nil, fmt.Errorf("the client of session %d was told that it lives %v after its session had ended",
				c.session, c.late)
		case c.expired == 0 && r.now-heard > most || c.expired-heard > most:
			return nil, fmt.Errorf("session %d of %d ms ended at %v, its client last heard something at %v", c.session,
				c.timeout, c.expired, heard)
		case c.expired != 0 && c.expired-heard < least-time.Millisecond:
			return nil, fmt.Errorf("session %d ended %v after its client had heard something, its timeout is %d ms",
				c.session, c.expired-heard, c.timeout)
		case c.expired != 0:
			ends = append(ends, c.expired-heard)
		}
	}
	return ends, nil
}

// TestSilenceOfShortReigns moves the leader again and again, each time before a session that has lost its client
// would have ended by that leader's own count. The session ends nevertheless, and no client has a
// sign of life less than its timeout before.
func TestSilenceOfShortReigns(t *testing.T) {
	testmode.WithoutRace(t)
	oneGoroutine(t)
	first, last := uint64(1), uint64(*silenceSeeds*3)
	if *silenceSeed != 0 {
		first, last = *silenceSeed, *silenceSeed
	}
	var ends []time.Duration
	handed := 0
	for seed := first; seed <= last; seed++ {
		c := &choices{random: rand.New(rand.NewPCG(seed, 5))}
		timeout := []uint64{300, 1000, 5000}[seed%3]
		r := newSilenceRunOf(c, false, timeout, [3]float64{c.rate(), c.rate(), c.rate()})
		if seed%2 == 0 {
			r.apply(r.entry(r.a, &coordination.AlterNode{Path: []string{"local", "n"}, Config: coordination.NodeConfig{
				AttachConsistencyMode: coordination.ConsistencyRelaxed}}), true)
		}
		r.plans = seed%4 > 1
		slowest := c.upTo(150 * time.Millisecond)
		r.latency = func() time.Duration { return c.upTo(slowest) }
		r.kept = func(n int) int { return int(c.next() * (float64(n) + 0.99)) }
		more, err := r.playMoves()
		if err != nil {
			t.Fatalf("-silence-seed=%d: %v\n%s", seed, err, strings.Join(r.history, "\n"))
		}
		ends, handed = append(ends, more...), handed+r.handed
	}
	if len(ends) < 10 || last-first > 3 && handed < 10 {
		t.Fatalf("only %d sessions ended, and %d hand-overs", len(ends), handed)
	}
	slices.Sort(ends)
	t.Logf("%d hand-overs; %d sessions ended, half of them %v after the last word to their clients, all after %v",
		handed, len(ends),
		ends[len(ends)/2], ends[len(ends)-1])
}
