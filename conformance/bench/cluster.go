package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/load"
)

const clusterSize = 3

// leads reports whether a server leads, by its metrics.
func (p *process) leads(ctx context.Context) (bool, error) {
	text, err := fetch(ctx, "http://"+p.metrics+"/metrics")
	return strings.Contains(text, "\ncoordd_leads 1") || strings.Contains(text, "\netcd_server_is_leader 1"), err
}

// leader returns the number of the server that leads.
func (s servers) leader(ctx context.Context) (int, error) {
	for i, p := range s {
		if leads, err := p.leads(ctx); leads || err != nil {
			return i, err
		}
	}
	return 0, fmt.Errorf("none of %v leads", s.addresses())
}

// measureCluster is W1 on three servers: a single client at each of them, and many at the leader.
func (b *bench) measureCluster(ctx context.Context, all []*contestant) {
	places := []struct {
		workload string
		n        int
		behind   int // the leader, in the order of the servers
	}{
		{w1Leader, 1, 0}, {w1Follower1, 1, 1}, {w1Follower2, 1, 2}, {w1Leader, 64, 0}, {w1Leader, 256, 0},
	}
	for _, place := range places {
		b.inTurns(ctx, fmt.Sprint(place.workload, ", ", place.n), all, b.runs, func(t *turn, c *contestant) error {
			leader, err := c.servers.leader(t)
			if err != nil {
				return err
			}
			at := c.servers[(leader+place.behind)%clusterSize].address
			r, err := b.lockAt(t, c, at, false, place.n)
			return b.add(place.workload, place.n, c.name, pairsFigure, r, err)
		})
	}
}

// Of W7.
const (
	roamers      = 6 // two begin at each server
	roamBefore   = 2 * time.Second
	roamAfter    = 20 // steps of each client after the kill
	roamPatience = 30 * time.Second
	roamPause    = 10 * time.Millisecond // between two attempts
)

// measureFailOver is W7: the leader is killed with kill -9 while clients lock and unlock, each its own lock.
func (b *bench) measureFailOver(ctx context.Context, all []*contestant) {
	b.inTurns(ctx, w7, all, b.runs, func(t *turn, c *contestant) error {
		leader, err := c.servers.leader(t)
		if err != nil {
			return err
		}
		silences, err := failOver(t, c, leader)
		if err != nil {
			return err
		}
		var longest, stayed time.Duration
		for i, silence := range silences {
			longest = max(longest, silence)
			if i%clusterSize != leader {
				stayed = max(stayed, silence)
			}
		}
		b.book.add(cell{w7, roamers, silentFigure}, c.name, millis(longest))
		b.book.add(cell{w7, roamers, "the same, of clients whose server lives, ms"}, c.name, millis(stayed))
		if err := c.servers[leader].start(t); err != nil {
			return err
		}
		time.Sleep(roamBefore) // it catches up
		return nil
	})
}

// failOver kills the leader, and returns the longest time that each client had no answer from then on. The i-th
// begins at server i.
func failOver(t *turn, c *contestant, leader int) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(t, roamPatience)
	defer cancel()
	steps := make([]func(context.Context) error, roamers)
	for i := range steps {
		var err error
		if steps[i], err = c.client.roam(t, c.servers.addresses(), i); err != nil {
			return nil, err
		}
	}
	killed := make(chan struct{})
	go func() {
		time.Sleep(roamBefore)
		c.servers[leader].kill()
		close(killed)
	}()
	silences := make([]time.Duration, roamers)
	err := load.Together(steps, func(i int, step func(context.Context) error) (err error) {
		silences[i], err = roam(ctx, step, killed)
		return err
	})
	<-killed
	return silences, err
}

// roam locks and unlocks until it has done so often enough after the kill.
func roam(ctx context.Context, step func(context.Context) error, killed <-chan struct{}) (time.Duration, error) {
	var longest time.Duration
	last, after := time.Now(), 0
	for after < roamAfter {
		if err := step(ctx); err != nil {
			if ctx.Err() != nil {
				return longest, fmt.Errorf("no answer for %v: %w", time.Since(last), err)
			}
			time.Sleep(roamPause)
			continue
		}
		now := time.Now()
		select {
		case <-killed:
			longest = max(longest, now.Sub(last))
			after++
		default:
		}
		last = now
	}
	return longest, nil
}
