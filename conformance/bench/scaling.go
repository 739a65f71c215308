package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/bench/machine"
	"github.com/coordd/coordd/conformance/bench/page"
	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/internal/load"
)

const (
	// busyClients lock and unlock while there is much of something else.
	busyClients = 16
	// fewRows is the baseline for a million.
	fewRows = 1000
	// nodesMost is just below the 10,000 entries that a server has room for.
	nodesMost = 9900
)

// measureScaling measures what operations cost beside much of something.
func (b *bench) measureScaling(ctx context.Context) error {
	text := ""
	var targets []page.Target
	for _, part := range []struct {
		name    string
		measure func(t *turn, server *process) (string, error)
	}{
		{"semaphores", func(t *turn, server *process) (string, error) {
			table, err := b.manySemaphores(t, server)
			if err != nil {
				return "", err
			}
			targets, err = b.manyAndFew(t, server)
			return table, err
		}},
		{"sessions", b.idleSessions}, {"nodes", b.manyNodes}, {"waiters", b.manyWaiters},
	} {
		if !selection(b.only)(part.name) {
			continue
		}
		say(part.name)
		t := newTurn(ctx)
		server, err := newCoordd("coordd", b.coordd).launchIn(t, filepath.Join(b.dir, part.name))
		var table string
		if err == nil {
			table, err = part.measure(t, server)
		}
		t.end()
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		text += table + "\n"
	}
	return errors.Join(b.publish("scaling.md", "scaling", b.head()+text),
		b.publish("benchmarks.md", "scaling-targets", page.Targets(targets)))
}

// grow returns a table of what it costs where there is more and more of something, up to last in powers of ten: more
// makes it, and the run of a workload that is in the middle of several counts.
func (b *bench) grow(server *process, of, unit string, first, last int, more func(from, to int) error,
	workload func(n, run int) (*taken, error)) (string, error) {
	text := fmt.Sprintf("| %s | %s | of the first | p50 ms | p99 ms | server CPU, us each | of the first | "+
		"server resident MiB |\n%s\n", of, unit, "|"+strings.Repeat(" --- |", 8))
	var least *taken
	for made, n := 0, min(first, last); made < last; made, n = n, min(10*n, last) {
		if err := more(made, n); err != nil {
			return "", fmt.Errorf("%d: %w", n, err)
		}
		var all []*taken
		for run := range b.runs {
			r, err := workload(n, run)
			if err != nil {
				return "", fmt.Errorf("%d: %w", n, err)
			}
			all = append(all, r)
		}
		slices.SortFunc(all, func(a, b *taken) int { return cmp.Compare(a.perSecond(), b.perSecond()) })
		r := all[len(all)/2]
		if least == nil {
			least = r
		}
		resident, err := machine.Resident(server.running.PID())
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("| %s | %s | %.2f | %s | %s | %.1f | %.2f | %.0f |\n", page.Count(n),
			page.Number(r.perSecond()), r.perSecond()/least.perSecond(), threeDigits(r.took.Percentile(50)),
			threeDigits(r.took.Percentile(99)), micros(r.cpuEach()),
			float64(r.cpuEach())/float64(max(least.cpuEach(), 1)), float64(resident)/(1<<20))
	}
	return text, nil
}

func threeDigits(d time.Duration) string { return fmt.Sprintf("%.3f", millis(d)) }

// spreadPairs makes busy clients take and release a token of one of n semaphores, each time another one by chance.
// Nobody waits.
func (b *bench) spreadPairs(ctx context.Context, of servers, n int) (*taken, error) {
	t := newTurn(ctx)
	defer t.end()
	sessions, err := rawSessions(t, of[0].address, busyClients)
	if err != nil {
		return nil, err
	}
	return loop(of, sessions, b.length, func(_ int, s *raw.Session) error { return pair(s, n) })
}

func pair(s *raw.Session, n int) error {
	name := rowName(rand.IntN(n))
	if err := s.Acquire(name, 1); err != nil {
		return err
	}
	return s.Release(name)
}

// manySemaphores measures on more and more semaphores.
func (b *bench) manySemaphores(t *turn, server *process) (string, error) {
	return b.grow(server, "semaphores", pairsFigure, 1, b.rows,
		func(from, to int) error {
			if err := rawRows(t, server.address, from, to); err != nil {
				return err
			}
			return settled(t, server.metrics)
		},
		func(n, _ int) (*taken, error) { return b.spreadPairs(t, servers{server}, n) })
}

// manyAndFew compares pairs on all semaphores with those on few, on another server.
func (b *bench) manyAndFew(t *turn, many *process) ([]page.Target, error) {
	rows := map[string]int{"many": b.rows, "few": min(fewRows, b.rows)}
	few, err := newCoordd("coordd", b.coordd).launchIn(t, filepath.Join(b.dir, "few"))
	if err != nil {
		return nil, err
	}
	if err := rawRows(t, few.address, 0, rows["few"]); err != nil {
		return nil, err
	}
	b.inTurns(t, "many and few semaphores", []*contestant{{name: "many", servers: servers{many}},
		{name: "few", servers: servers{few}}}, b.runs+2, func(t *turn, c *contestant) error {
		r, err := b.spreadPairs(t, c.servers, rows[c.name])
		return b.add(w1, busyClients, c.name, pairsFigure, r, err)
	})
	speed, _ := b.book.ratio(cell{w1, busyClients, pairsFigure}, "many", "few")
	cpu, _ := b.book.ratio(cell{w1, busyClients, cpuFigure}, "many", "few")
	return []page.Target{
		{Figure: fmt.Sprintf("pairs/s of 16 clients, uniformly over %s semaphores, of the same over %s",
			page.Count(b.rows), page.Count(rows["few"])), Limit: 0.8, Is: speed},
		{Figure: "server CPU for a pair, likewise", Limit: 1.2, AtMost: true, Is: cpu},
	}, b.failure()
}

// idleSessions measures beside more and more sessions that do nothing but answer pings.
func (b *bench) idleSessions(t *turn, server *process) (string, error) {
	sessions := b.rows / 20
	conns, err := rawConns(t, server.address, sessions)
	if err != nil {
		return "", err
	}
	lost := make(chan error, sessions)
	return b.grow(server, "idle sessions", pairsFigure, 10, sessions,
		func(from, to int) error {
			return openEach(t, conns, to-from, busySession, func(s *raw.Session) {
				go func() { _, err := s.Receive(); lost <- err }() // pings, until the end
			})
		},
		func(int, int) (*taken, error) {
			own := newTurn(t)
			defer own.end()
			r, err := b.lockAt(own, &contestant{client: rawClient, servers: servers{server}}, server.address, false,
				busyClients)
			if err == nil && len(lost) > 0 {
				err = fmt.Errorf("an idle session ended: %w", <-lost)
			}
			return r, err
		})
}

// manyNodes measures among more and more nodes, each of the busy clients in another one.
func (b *bench) manyNodes(t *turn, server *process) (string, error) {
	conns, err := rawConns(t, server.address, connections)
	if err != nil {
		return "", err
	}
	path := func(i int) string { return fmt.Sprintf("/local/node-%06d", i) }
	return b.grow(server, "nodes", pairsFigure, 1, min(b.rows, nodesMost),
		func(from, to int) error {
			return spread(conns, to-from, func(conn *grpc.ClientConn, i int) error {
				return raw.CreateNode(t, conn, path(from+i))
			})
		},
		func(n, _ int) (*taken, error) {
			own := newTurn(t)
			defer own.end()
			sessions := make([]locker, busyClients)
			if err := load.Together(sessions, func(i int, _ locker) error {
				s, err := raw.Open(own, conns[i%len(conns)],
					&raw.Start{Path: path(i * n / busyClients), TimeoutMillis: millisOf(busySession)})
				if err != nil {
					return err
				}
				sessions[i] = s
				return s.Create(lockName(false, i), 1)
			}); err != nil {
				return nil, err
			}
			return lock(servers{server}, sessions, false, b.length)
		})
}

// manyWaiters measures hand-overs of one semaphore among more and more sessions, all of which wait for it.
func (b *bench) manyWaiters(t *turn, server *process) (string, error) {
	return b.grow(server, "waiters", handsFigure, 10, b.rows/100, func(int, int) error { return nil },
		func(n, run int) (*taken, error) { return b.queue(t, server, fmt.Sprintf("queue-%d-%d", n, run), n) })
}

// queue makes n sessions hand a semaphore over, and counts from when all of them are in its queue. The times are those
// from when one has it, and lets go at once, to when the next one has it.
func (b *bench) queue(ctx context.Context, server *process, name string, n int) (*taken, error) {
	t := newTurn(ctx)
	defer t.end()
	conns, err := rawConns(t, server.address, n)
	if err != nil {
		return nil, err
	}
	holder, err := open(t, conns[0], busySession)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(holder.Create(name, 1), holder.Acquire(name, 1)); err != nil {
		return nil, err
	}
	var mutex sync.Mutex
	var released time.Time // when the last one let go
	var took load.Times
	has := func() {
		mutex.Lock()
		defer mutex.Unlock()
		took = append(took, time.Since(released))
		released = time.Now()
	}
	queued := make(chan error, n)
	// Those that are still in the queue in the end vanish with their streams, which is why each run has a
	// semaphore of its own.
	err = openEach(t, conns, n, idleSession, func(s *raw.Session) {
		go func() {
			answer, err := s.StartAcquire(name, 1)
			if err == nil && answer.GetAcquireSemaphorePending() == nil {
				err = fmt.Errorf("a waiter was answered %v", answer)
			}
			queued <- err
			if err == nil {
				_, err = s.Receive()
			}
			for err == nil { // until the stream is ended
				has()
				if err = s.Release(name); err == nil {
					err = s.Acquire(name, 1)
				}
			}
		}()
	})
	for range n {
		if err == nil {
			err = <-queued
		}
	}
	if err != nil {
		return nil, err
	}
	r := new(taken)
	r.cpu, err = servers{server}.spent(func() error {
		mutex.Lock()
		released = time.Now()
		mutex.Unlock()
		begun := time.Now()
		if err := holder.Release(name); err != nil {
			return err
		}
		time.Sleep(b.length)
		mutex.Lock()
		defer mutex.Unlock()
		if len(took) == 0 {
			return errors.New("nothing was handed over")
		}
		r.took, r.steps, r.elapsed = slices.Clone(took), float64(len(took)), time.Since(begun)
		return nil
	})
	return r, err
}
