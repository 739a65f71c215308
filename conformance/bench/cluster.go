package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/coordd/coordd/conformance/load"
)

const clusterSize = 3

// leader returns the number of the server that leads.
func (s servers) leader(ctx context.Context, program string) (int, error) {
	if s[0].name == "etcd" {
		return etcdLeader(ctx, s.addresses())
	}
	out, err := exec.CommandContext(ctx, program, "cluster", "status", "-o", "json", "--endpoint",
		"grpc://"+s[0].address+"/local").Output()
	if err != nil {
		return 0, fmt.Errorf("cluster status: %w", err)
	}
	var status struct {
		Members []struct{ Name, Role string }
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return 0, fmt.Errorf("cluster status: %w", err)
	}
	for _, m := range status.Members {
		var i int
		if _, err := fmt.Sscanf(m.Name, "s%d", &i); err == nil && m.Role == "leader" {
			return i, nil
		}
	}
	return 0, fmt.Errorf("cluster status names no leader: %s", out)
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
			leader, err := c.servers.leader(t, b.coordd)
			if err != nil {
				return err
			}
			at := c.servers[(leader+place.behind)%clusterSize].address
			r, err := lock(t, c, at, load.Pairs, place.n, b.length)
			if err == nil {
				b.add(place.workload, place.n, c.name, pairsFigure, r)
			}
			return err
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

// silence is a time in which a client had no answer.
type silence struct {
	first   int // the server at which it began
	longest time.Duration
}

// measureFailOver is W7: the leader is killed with kill -9 while clients lock and unlock, each its own lock.
func (b *bench) measureFailOver(ctx context.Context, all []*contestant) {
	b.inTurns(ctx, w7, all, b.runs, func(t *turn, c *contestant) error {
		leader, err := c.servers.leader(t, b.coordd)
		if err != nil {
			return err
		}
		silences, err := failOver(t, c, leader)
		if err != nil {
			return err
		}
		var longest, stayed time.Duration
		for _, s := range silences {
			longest = max(longest, s.longest)
			if s.first != leader {
				stayed = max(stayed, s.longest)
			}
		}
		b.book.add(cell{w7, roamers, silentFigure}, c.name, millis(longest))
		b.book.add(cell{w7, roamers, stayedFigure}, c.name, millis(stayed))
		if err := c.servers[leader].start(t, c.product.first); err != nil {
			return err
		}
		time.Sleep(roamBefore) // it catches up
		return nil
	})
}

func failOver(t *turn, c *contestant, leader int) ([]silence, error) {
	ctx, cancel := context.WithTimeout(t, roamPatience)
	defer cancel()
	killed := make(chan struct{})
	silences := make([]silence, roamers)
	failures := make(chan error, roamers)
	var clients sync.WaitGroup
	for i := range roamers {
		step, err := c.client.roam(t, c.servers.addresses(), i)
		if err != nil {
			return nil, err
		}
		clients.Go(func() {
			var err error
			silences[i], err = roam(ctx, step, killed)
			silences[i].first = i % clusterSize
			failures <- err
		})
	}
	time.Sleep(roamBefore)
	c.servers[leader].kill()
	close(killed)
	clients.Wait()
	var err error
	for range roamers {
		err = errors.Join(err, <-failures)
	}
	return silences, err
}

// roam locks and unlocks until it has done so often enough after the kill.
func roam(ctx context.Context, step func(context.Context) error, killed <-chan struct{}) (silence, error) {
	var s silence
	last, after := time.Now(), 0
	for after < roamAfter {
		if err := step(ctx); err != nil {
			if ctx.Err() != nil {
				return s, fmt.Errorf("no answer for %v: %w", time.Since(last), err)
			}
			time.Sleep(roamPause)
			continue
		}
		now := time.Now()
		select {
		case <-killed:
			s.longest = max(s.longest, now.Sub(last))
			after++
		default:
		}
		last = now
	}
	return s, nil
}

// measureRestart is W8: one server, killed with kill -9 when it has acknowledged all rows, is started again
// on them.
func (b *bench) measureRestart(ctx context.Context, all []*contestant) {
	var filled []*contestant
	b.inTurns(ctx, w8, having(all, func(c *client) bool { return c.fill != nil }), 1,
		func(t *turn, c *contestant) error {
			fresh, err := c.product.launch(t, filepath.Join(b.dir, "restart"), 1)
			if err != nil {
				return err
			}
			defer fresh.kill()
			err = c.client.fill(t, fresh[0].address, b.rows)
			if err == nil {
				filled = append(filled, &contestant{c.name, c.client, c.product, fresh})
			}
			return err
		})
	b.inTurns(ctx, w8, filled, b.runs, func(t *turn, c *contestant) error {
		begun := time.Now()
		err := c.servers[0].start(t, c.product.first)
		took := time.Since(begun)
		if err != nil {
			return err
		}
		cpu, err := c.servers.cpu()
		c.servers.kill()
		b.book.add(cell{w8, b.rows, startFigure}, c.name, took.Seconds())
		b.book.add(cell{w8, b.rows, "server CPU until then, s"}, c.name, cpu.Seconds())
		return err
	})
}
