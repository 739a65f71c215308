package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/testserver"
)

// Of chaos: the share of the time in which three servers have a leader, beside busy processes and while servers are
// stopped and killed. Both products meet the same faults at the same times.
const (
	chaosTurn   = 100 * time.Second // of one product, then it is the other one's turn on new servers
	chaosBusy   = 16                // processes
	firstSeed   = 41
	faultPeriod = 10 * time.Second
	pausedMost  = 5 * time.Second
	awayFor     = time.Second            // between kill -9 and the next start
	looksEvery  = 100 * time.Millisecond // a sample
	looksFor    = time.Second            // for the metrics of a server
	lately      = 500 * time.Millisecond // from the question on whose answer was that the server leads
)

// measureChaos alternates coordd and etcd until each has had its time.
func (b *bench) measureChaos(ctx context.Context) error {
	share := cell{"a leader, of the time", clusterSize, "%"}
	all := []*contestant{{name: "coordd", client: rawClient, product: newCoordd("coordd", b.coordd)},
		{name: etcd, client: etcdClient, product: newEtcd(b.etcd)}}
	b.inTurns(ctx, share.workload, all, max(1, int(b.chaos/chaosTurn)), func(t *turn, c *contestant) error {
		seed := uint64(firstSeed + len(b.book.values[share][c.name]))
		part, err := b.chaosTurn(t, c, rand.New(rand.NewPCG(seed, seed)))
		if err == nil {
			b.book.add(share, c.name, 100*part)
			say(fmt.Sprintf("%s, seed %d: a leader for %.1f %% of the time", c.name, seed, 100*part))
		}
		return err
	})
	for _, c := range all {
		sum, shares := 0.0, b.book.values[share][c.name]
		for _, part := range shares {
			sum += part
		}
		fmt.Printf("%s: a leader for %.1f %% of the time, in turns %.3v\n", c.name, sum/float64(len(shares)), shares)
	}
	return b.failure()
}

// chaosTurn returns the share of one turn of a product.
func (b *bench) chaosTurn(t *turn, c *contestant, random *rand.Rand) (float64, error) {
	dir, err := os.MkdirTemp(b.dir, "chaos-")
	if err != nil {
		return 0, err
	}
	t.later(func() { _ = os.RemoveAll(dir) })
	three, err := c.product.launch(t, dir, clusterSize)
	if err != nil {
		return 0, err
	}
	t.later(three.kill)
	for range chaosBusy {
		busy, err := testserver.Start(testserver.Config{Program: "sh", Args: []string{"-c", "while :; do :; done"},
			Log: filepath.Join(dir, "busy.log")})
		if err != nil {
			return 0, err
		}
		t.later(busy.Kill)
	}
	ctx, cancel := context.WithTimeout(t, min(b.chaos, chaosTurn))
	defer cancel()
	w := new(leadership)
	var work sync.WaitGroup
	for i, s := range three {
		work.Go(func() { roamOn(ctx, c.client, three.addresses(), i) })
		work.Go(func() { w.ask(ctx, i, s) })
	}
	work.Go(func() { w.sample(ctx) })
	err = trouble(ctx, three, w, random)
	work.Wait()
	return float64(w.led) / float64(max(1, w.samples)), err
}

// roamOn locks and unlocks until ctx ends, with another session once nothing has been answered for a while.
func roamOn(ctx context.Context, c *client, addresses []string, first int) {
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, faultPeriod)
		session := newTurn(bounded)
		step, err := c.roam(session, addresses, first)
		for err == nil && session.Err() == nil {
			if step(session) != nil {
				time.Sleep(roamPause)
			}
		}
		session.end()
		cancel()
		time.Sleep(roamPause)
	}
}

// leadership samples whether a server claimed lately to lead.
type leadership struct {
	samples, led int

	mutex sync.Mutex
	said  [clusterSize]time.Time // the last such answer of each
}

// ask asks one server, by itself, so that one which is stopped holds up none.
func (w *leadership) ask(ctx context.Context, i int, s *process) {
	for ctx.Err() == nil {
		begun := time.Now()
		bounded, cancel := context.WithTimeout(ctx, looksFor)
		leads, _ := s.leads(bounded)
		cancel()
		if leads {
			w.mutex.Lock()
			w.said[i] = begun
			w.mutex.Unlock()
		}
		time.Sleep(looksEvery / 2)
	}
}

// last returns the server that claimed last to lead, and when.
func (w *leadership) last() (leader int, at time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for i, said := range w.said {
		if said.After(at) {
			leader, at = i, said
		}
	}
	return leader, at
}

// sample counts until ctx ends.
func (w *leadership) sample(ctx context.Context) {
	for wait(ctx, looksEvery) {
		w.samples++
		if _, at := w.last(); time.Since(at) < lately {
			w.led++
		}
	}
}

// wait returns false if ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// trouble stops or kills a server every faultPeriod, mostly the leader.
func trouble(ctx context.Context, three servers, w *leadership, random *rand.Rand) error {
	for {
		at, kind, pause := random.IntN(4), random.IntN(3), time.Duration(random.Int64N(int64(pausedMost)))
		if !wait(ctx, faultPeriod) {
			return nil
		}
		if at >= len(three) || kind > 0 {
			at, _ = w.last()
		}
		s := three[at]
		if kind < 2 {
			_ = s.running.Pause()
			time.Sleep(pause)
			_ = s.running.Resume()
			continue
		}
		s.kill()
		time.Sleep(awayFor)
		if err := s.start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}
