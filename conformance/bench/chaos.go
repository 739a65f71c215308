package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Of chaos: the share of the time in which three servers have a leader, beside busy processes and while servers are stopped
// and killed. Every product meets the same faults at the same times.
const (
	chaosTurn   = 100 * time.Second // of one product, then it is the other one's turn on new servers
	faultPeriod = 10 * time.Second
	pausedMost  = 5 * time.Second
	awayFor     = time.Second            // between kill -9 and the next start
	looksEvery  = 100 * time.Millisecond // a sample
	looksFor    = time.Second            // for the metrics of a server
	lately      = 500 * time.Millisecond // from the question on whose answer was that the server leads
)

// chaos alternates the products until each has had its time, and prints the shares.
func (b *bench) chaos(ctx context.Context, products []*product, clients map[*product]*client, long time.Duration,
	busy int, seed uint64) error {
	shares := make(map[*product][]float64)
	for turn := range max(1, int(long/chaosTurn)) {
		order := slices.Clone(products)
		if turn%2 == 1 {
			slices.Reverse(order)
		}
		for _, p := range order {
			share, err := b.chaosTurn(ctx, p, clients[p], min(long, chaosTurn), busy, seed+uint64(turn))
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			shares[p] = append(shares[p], share)
			say(fmt.Sprintf("%s, seed %d: a leader for %.1f %% of the time", p.name, seed+uint64(turn), 100*share))
		}
	}
	for _, p := range products {
		sum := 0.0
		for _, share := range shares[p] {
			sum += share
		}
		fmt.Printf("%s: a leader for %.1f %% of the time, in turns %.3v\n", p.name, 100*sum/float64(len(shares[p])), shares[p])
	}
	return nil
}

// chaosTurn returns the share of one turn of a product.
func (b *bench) chaosTurn(ctx context.Context, p *product, c *client, long time.Duration, busy int,
	seed uint64) (float64, error) {
	dir, err := os.MkdirTemp(b.dir, "chaos-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	three, err := p.launch(ctx, filepath.Join(dir, "three"), clusterSize)
	if err != nil {
		return 0, err
	}
	defer three.kill()
	spinning, err := spin(busy)
	defer func() {
		for _, s := range spinning {
			_ = s.Process.Kill()
			_ = s.Wait()
		}
	}()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	var work sync.WaitGroup
	for i := range clusterSize {
		work.Go(func() { roamOn(ctx, c, three.addresses(), i) })
	}
	w := &watch{servers: three}
	work.Go(func() { w.look(ctx) })
	err = trouble(ctx, p, three, w, rand.New(rand.NewPCG(seed, seed)))
	work.Wait()
	return float64(w.led) / float64(max(1, w.samples)), err
}

// spin starts busy processes.
func spin(n int) (spinning []*exec.Cmd, err error) {
	for range n {
		s := exec.Command("sh", "-c", "while :; do :; done")
		if err := s.Start(); err != nil {
			return spinning, err
		}
		spinning = append(spinning, s)
	}
	return spinning, nil
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

// watch samples whether a server said lately that it leads.
type watch struct {
	servers      servers
	samples, led int

	mutex  sync.Mutex
	said   [clusterSize]time.Time // when it said so last
	leader int                    // the last one that did
}

// look asks each server by itself, so that one which is stopped holds up none, and samples until ctx ends.
func (w *watch) look(ctx context.Context) {
	var asking sync.WaitGroup
	for i, s := range w.servers {
		asking.Go(func() {
			for ctx.Err() == nil {
				begun := time.Now()
				if leads(ctx, s.metrics) {
					w.mutex.Lock()
					w.said[i], w.leader = begun, i
					w.mutex.Unlock()
				}
				time.Sleep(looksEvery / 2)
			}
		})
	}
	for {
		select {
		case <-ctx.Done():
			asking.Wait()
			return
		case <-time.After(looksEvery):
		}
		w.mutex.Lock()
		w.samples++
		if slices.ContainsFunc(w.said[:], func(at time.Time) bool { return time.Since(at) < lately }) {
			w.led++
		}
		w.mutex.Unlock()
	}
}

// leads reports whether a server says that it leads.
func leads(ctx context.Context, metrics string) bool {
	ctx, cancel := context.WithTimeout(ctx, looksFor)
	defer cancel()
	text, err := fetch(ctx, "http://"+metrics+"/metrics")
	return err == nil && (strings.Contains(text, "\ncoordd_leads 1") ||
		strings.Contains(text, "\netcd_server_is_leader 1"))
}

// trouble stops or kills a server every faultPeriod, mostly the leader.
func trouble(ctx context.Context, p *product, three servers, w *watch, random *rand.Rand) error {
	for {
		victim, kind, pause := random.IntN(4), random.IntN(3), time.Duration(random.Int64N(int64(pausedMost)))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(faultPeriod):
		}
		at := victim
		if victim >= len(three) || kind > 0 {
			w.mutex.Lock()
			at = w.leader
			w.mutex.Unlock()
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
		if err := s.start(context.WithoutCancel(ctx), p.first); err != nil {
			return err
		}
	}
}
