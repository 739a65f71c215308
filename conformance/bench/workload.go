package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/bench/machine"
	"github.com/coordd/coordd/conformance/load"
	"github.com/coordd/coordd/conformance/raw"
)

const nodePath = "/local/bench"

// connections is how many the sessions share.
var connections = 16

// openSessions opens n sessions, spread over the connections.
func openSessions(ctx context.Context, conns []*grpc.ClientConn, n int, timeoutMillis uint64) ([]*raw.Session,
	error) {
	sessions := make([]*raw.Session, n)
	err := load.Together(conns, func(first int, conn *grpc.ClientConn) error {
		for i := first; i < n; i += len(conns) {
			s, err := raw.Open(ctx, conn, &raw.Start{Path: nodePath, TimeoutMillis: timeoutMillis})
			if err != nil {
				return err
			}
			sessions[i] = s
		}
		return nil
	})
	return sessions, err
}

// result is what one run of a workload gives.
type result struct {
	perSecond float64
	p50, p99  time.Duration
	steps     int
}

// runPairs is W1: every session takes and releases a semaphore of its own for a while.
func runPairs(ctx context.Context, address string, n int, duration time.Duration) (result, error) {
	return run(ctx, address, load.Pairs, n, duration)
}

// runHandover is W2: all sessions want the same semaphore. Every acquire but the first is a hand-over.
func runHandover(ctx context.Context, address string, n int, duration time.Duration) (result, error) {
	return run(ctx, address, load.HandOver, n, duration)
}

func run(ctx context.Context, address string, kind load.Kind, n int, duration time.Duration) (result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conns, err := raw.Dial(address, min(n, connections))
	if err != nil {
		return result{}, err
	}
	defer raw.Close(conns)
	sessions, err := openSessions(ctx, conns, n, 30_000)
	if err != nil {
		return result{}, err
	}
	for i, name := range kind.Semaphores("", n) {
		if err := sessions[i].Create(name, 1); err != nil {
			return result{}, err
		}
	}
	over, took := make(chan struct{}), new(load.Histogram)
	timer := time.AfterFunc(duration, func() { close(over) })
	defer timer.Stop()
	elapsed, err := load.Run(kind, "", sessions, over, took)
	steps := int(took.Count())
	if err != nil || steps == 0 {
		return result{}, fmt.Errorf("%d steps: %w", steps, err)
	}
	return result{float64(steps) / elapsed.Seconds(), took.Percentile(50), took.Percentile(99), steps}, nil
}

// runWatch is W3: one session changes the data of a semaphore that n others watch; the time until all have
// heard.
func runWatch(ctx context.Context, address string, n, rounds int) (result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conns, err := raw.Dial(address, connections)
	if err != nil {
		return result{}, err
	}
	defer raw.Close(conns)
	sessions, err := openSessions(ctx, conns, n+1, 30_000)
	if err != nil {
		return result{}, err
	}
	writer, watchers := sessions[n], sessions[:n]
	const name = "watched"
	if err := writer.Create(name, 1); err != nil {
		return result{}, err
	}
	var took []time.Duration
	for round := range rounds {
		if err := load.Together(watchers, func(_ int, s *raw.Session) error {
			_, err := s.Describe(name, true)
			return err
		}); err != nil {
			return result{}, err
		}
		start := time.Now()
		heard := make(chan error, 1)
		go func() {
			heard <- load.Together(watchers, func(_ int, s *raw.Session) error {
				_, err := s.Receive()
				return err
			})
		}()
		if err := writer.Update(name, fmt.Appendf(nil, "%d %d", start.UnixNano(), round)); err != nil {
			return result{}, err
		}
		if err := <-heard; err != nil {
			return result{}, err
		}
		took = append(took, time.Since(start))
	}
	p50 := machine.Percentile(took, 50)
	return result{float64(n) / p50.Seconds(), p50, machine.Percentile(took, 99), rounds}, nil
}

// runList is W5: members hold a semaphore with 64 bytes of data each, and listers list them for a while.
func runList(ctx context.Context, address string, members int, duration time.Duration) (result, error) {
	const (
		name    = "group"
		listers = 8
	)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conns, err := raw.Dial(address, connections)
	if err != nil {
		return result{}, err
	}
	defer raw.Close(conns)
	sessions, err := openSessions(ctx, conns, members+listers, 30_000)
	if err != nil {
		return result{}, err
	}
	if err := sessions[0].Create(name, 1<<20); err != nil {
		return result{}, err
	}
	data := make([]byte, 64)
	if err := load.Together(sessions[:members],
		func(_ int, s *raw.Session) error { return s.Hold(name, data) }); err != nil {
		return result{}, err
	}
	took := new(load.Histogram)
	start := time.Now()
	err = load.Together(sessions[members:], func(_ int, s *raw.Session) error {
		for time.Since(start) < duration {
			begun := time.Now()
			if d, err := s.Describe(name, false); err != nil || len(d.GetOwners()) != members {
				return fmt.Errorf("%d owners of %d: %w", len(d.GetOwners()), members, err)
			}
			took.Add(time.Since(begun))
		}
		return nil
	})
	steps := int(took.Count())
	if err != nil || steps == 0 {
		return result{}, fmt.Errorf("%d lists: %w", steps, err)
	}
	elapsed := time.Since(start)
	// Members that only vanished would stay until their sessions have timed out, and be counted in the next
	// run.
	err = load.Together(sessions[:members], func(_ int, s *raw.Session) error { return s.Release(name) })
	return result{float64(steps) / elapsed.Seconds(), took.Percentile(50), took.Percentile(99), steps}, err
}

// idleResult is what W4 gives.
type idleResult struct {
	bytesPerSession float64
	cpuPercent      float64 // of one core
	openedPerSecond float64
}

// runIdle is W4: sessions that do nothing but answer pings.
func runIdle(ctx context.Context, server *serverProcess, n int, settle, measure time.Duration) (idleResult,
	error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conns, err := raw.Dial(server.address, connections)
	if err != nil {
		return idleResult{}, err
	}
	defer raw.Close(conns)
	if err := raw.CreateNode(ctx, conns[0], nodePath); err != nil {
		return idleResult{}, err
	}
	before, err := server.resident()
	if err != nil {
		return idleResult{}, err
	}
	start := time.Now()
	sessions, err := openSessions(ctx, conns, n, 30_000)
	if err != nil {
		return idleResult{}, err
	}
	opened := time.Since(start)
	failed := make(chan error, n)
	for _, s := range sessions {
		go func() { _, err := s.Receive(); failed <- err }() // answers pings until the end
	}
	wait := func(d time.Duration) error {
		select {
		case err := <-failed:
			return fmt.Errorf("an idle session ended: %w", err)
		case <-time.After(d):
			return nil
		}
	}
	if err := wait(settle); err != nil {
		return idleResult{}, err
	}
	cpuBefore, err := server.cpu()
	if err != nil {
		return idleResult{}, err
	}
	if err := wait(measure); err != nil {
		return idleResult{}, err
	}
	cpuAfter, err := server.cpu()
	if err != nil {
		return idleResult{}, err
	}
	after, err := server.resident()
	return idleResult{
		bytesPerSession: float64(after-before) / float64(n),
		cpuPercent:      100 * (cpuAfter - cpuBefore).Seconds() / measure.Seconds(),
		openedPerSecond: float64(n) / opened.Seconds(),
	}, err
}
