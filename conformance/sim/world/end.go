package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coordd/coordd/conformance/sim/client"
	"github.com/coordd/coordd/conformance/sim/plan"
	"github.com/coordd/coordd/conformance/sim/rt"
)

const (
	// goroutinesAlone and goroutinesOfPeer bound the goroutines of a server without clients: it has 22, and 34 for each
	// other member.
	goroutinesAlone, goroutinesOfPeer = 35, 48
	// quiescence is the time after which nothing of a client's stream is left, deadQuiescence that after which nothing
	// is left of a half-open connection: a server pings it after 20 s, waits 10 s for an answer, and its clock may be
	// slow.
	quiescence, deadQuiescence = 15 * time.Second, 35 * time.Second
	// unitsOfStart bounds what a limiter grants besides its rate for each start of a server and each term of a leader:
	// buckets begin full, with a fifth of a second, and the last grant may be larger than the rest of a bucket.
	unitsOfStart = client.MostUnits + client.UnitsPerSecond/5
)

// compareEnds compares what the servers have at the very end, when all members have executed the same entries.
func (w *World) compareEnds() {
	quiet := w.program == "" && w.plan.Chance("leaks").IntN(10) == 0 &&
		!slices.ContainsFunc(w.plan.Events, jumpsBack)
	if quiet {
		for _, conn := range w.shared {
			_ = conn.Close() // its error is that it was closed before
		}
		time.Sleep(quiescence)
		for waited := quiescence; waited < deadQuiescence && w.excess() != ""; waited += time.Second {
			time.Sleep(time.Second)
		}
	}
	excess := w.excess()
	w.do(func() {
		if quiet && excess != "" {
			w.violation("%s", excess)
		}
		var first *life
		for _, s := range w.servers {
			l := s.life
			if !s.serves() || l.machine == nil {
				continue
			}
			if first == nil {
				first = l
			}
			a, b := first.machine, l.machine
			if a.Index() == b.Index() && a.Digest() != b.Digest() {
				w.violation("%s and %s have other states after the last entry %d: digests %x and %x", first.name,
					l.name, a.Index(), a.Digest(), b.Digest())
			}
		}
		w.compareUnits()
	})
}

// end kills what still runs of the servers: their files are about to be removed, beside which nobody may write.
func (w *World) end() {
	w.do(func() {
		for _, s := range w.servers {
			if s.life != nil {
				s.life.kill()
			}
		}
	})
	rt.HookDisk(func(op rt.Op, name, _ string, _ int64, _ []byte) (int, error) {
		if strings.HasPrefix(name, w.dir) && op != rt.Remove {
			panic("a server outlives its world: " + string(op) + " of " + name)
		}
		return 0, nil
	})
}

// jumpsBack reports whether an event sets a wall clock back: gRPC measures silence by it, and keeps a half-open
// connection for as much longer.
func jumpsBack(e plan.Event) bool { return e.Kind == plan.Jump && e.N < 0 }

// excess names a server with more goroutines than it has without clients; "" if all have fewer.
func (w *World) excess() (text string) {
	most := goroutinesAlone + goroutinesOfPeer*(len(w.servers)-1)
	w.do(func() {
		for _, s := range w.servers {
			if !s.serves() {
				continue
			}
			if n := rt.Goroutines(s.life.node); n > most {
				text = fmt.Sprintf("%s has %d goroutines without clients, at most %d are expected", s.name, n, most)
			}
		}
	})
	return text
}

// compareUnits compares what rate limiters have granted with their rate, by clocks that are fast by 5 % at most.
func (w *World) compareUnits() {
	disturbances := uint64(w.counts["starts"] + w.logs.counts["this server leads the cluster"] +
		w.logs.counts["the leader is lost"])
	most := uint64(w.trace.Now().Seconds()*client.UnitsPerSecond*1.06) + disturbances*unitsOfStart
	for node := range w.plan.Nodes {
		if units := w.granted[node]; units > most {
			w.violation("the rate limiter of node %d has granted %d units, at most %d are due", node, units, most)
		} else if units > 0 {
			w.counts["limiters compared"]++
		}
	}
}
