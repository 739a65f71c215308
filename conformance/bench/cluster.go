package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/conformance/bench/machine"
	"github.com/coordd/coordd/conformance/load"
	"github.com/coordd/coordd/conformance/loopback"
	"github.com/coordd/coordd/conformance/raw"
)

const clusterSize = 3

// measureCluster compares what one client waits for an acquire on one server and on three, which all run at
// the same time and are asked in turns.
func measureCluster(ctx context.Context, binary, dir string, runs int, length time.Duration) error {
	alone, err := startServer(binary, filepath.Join(dir, "alone"))
	if err != nil {
		return err
	}
	servers, err := startCluster(binary, filepath.Join(dir, "cluster"))
	defer func() {
		for _, s := range append(servers, alone) {
			_ = s.command.Process.Kill()
			_ = s.command.Wait()
		}
	}()
	if err != nil {
		return err
	}
	leader, err := leaderOf(ctx, binary, servers)
	if err != nil {
		return err
	}
	asked := []struct{ name, address string }{
		{"acquire, one server", alone.address},
		{"acquire, three servers, through the leader", servers[leader].address},
		{"acquire, three servers, through another", servers[(leader+1)%clusterSize].address},
	}
	for _, a := range []string{alone.address, servers[0].address} {
		if err := createNode(ctx, a); err != nil {
			return err
		}
	}
	results := make([][]result, len(asked))
	for range runs {
		for i, a := range asked {
			r, err := runAcquires(ctx, a.address, length)
			if err != nil {
				return err
			}
			results[i] = append(results[i], r)
		}
	}
	var base time.Duration
	fmt.Print("\n| one client | per second | p50 ms | p99 ms | p50 against one server |\n| --- | --- | --- | --- | --- |\n")
	for i, a := range asked {
		m := middle(results[i], func(r result) time.Duration { return r.p50 })
		if i == 0 {
			base = m.p50
		}
		fmt.Printf("| %s | %.0f | %s | %s | %.2f x |\n", a.name, m.perSecond, millis(m.p50), millis(m.p99),
			m.p50.Seconds()/base.Seconds())
	}
	return nil
}

func createNode(ctx context.Context, address string) error {
	conns, err := raw.Dial(address, 1)
	if err != nil {
		return err
	}
	defer raw.Close(conns)
	return raw.CreateNode(ctx, conns[0], nodePath)
}

// runAcquires has one session acquire and release one semaphore for a while, and times the acquires alone.
func runAcquires(ctx context.Context, address string, duration time.Duration) (result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conns, err := raw.Dial(address, 1)
	if err != nil {
		return result{}, err
	}
	defer raw.Close(conns)
	s, err := raw.Open(ctx, conns[0], &raw.Start{Path: nodePath, TimeoutMillis: 30_000})
	if err != nil {
		return result{}, err
	}
	const name = "acquired"
	if err := s.Create(name, 1); err != nil {
		return result{}, err
	}
	var stop atomic.Bool
	defer time.AfterFunc(duration, func() { stop.Store(true) }).Stop()
	var took []time.Duration
	for !stop.Load() {
		begin := time.Now()
		if err := s.Acquire(name, 1); err != nil {
			return result{}, err
		}
		took = append(took, time.Since(begin))
		if err := s.Release(name); err != nil {
			return result{}, err
		}
	}
	if len(took) == 0 {
		return result{}, errors.New("nothing was acquired")
	}
	return result{float64(len(took)) / duration.Seconds(), machine.Percentile(took, 50),
		machine.Percentile(took, 99), len(took)}, nil
}

// startCluster starts three servers and returns those that were started, also with an error.
func startCluster(binary, dir string) ([]*serverProcess, error) {
	listeners := make([]net.Listener, clusterSize)
	var initial []string
	for i := range listeners {
		l, err := loopback.Listen()
		if err != nil {
			return nil, err
		}
		listeners[i] = l
		initial = append(initial, fmt.Sprintf("s%d=%s", i, l.Addr()))
	}
	for _, l := range listeners {
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	servers := make([]*serverProcess, clusterSize)
	err := load.Together(initial, func(i int, member string) error {
		name, peer, _ := strings.Cut(member, "=")
		s, err := startServer(binary, filepath.Join(dir, name), "--name", name, "--listen-peer", peer,
			"--initial-cluster", strings.Join(initial, ","), "--insecure-peers")
		servers[i] = s
		return err
	})
	var started []*serverProcess
	for _, s := range servers {
		if s != nil {
			started = append(started, s)
		}
	}
	return started, err
}

// leaderOf asks the first server which of them leads.
func leaderOf(ctx context.Context, binary string, servers []*serverProcess) (int, error) {
	out, err := exec.CommandContext(ctx, binary, "cluster", "status", "-o", "json", "--endpoint",
		"grpc://"+servers[0].address+"/local").Output()
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
		if _, err := fmt.Sscanf(m.Name, "s%d", &i); err == nil && m.Role == "leader" && i < len(servers) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("cluster status names no leader: %s", out)
}
