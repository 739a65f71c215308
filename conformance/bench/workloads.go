package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/conformance/bench/machine"
	"github.com/coordd/coordd/internal/load"
)

// The columns of the table.
const (
	ours    = "coordd, raw"
	older   = "the other program, raw"
	oursSDK = "coordd, Go SDK"
	bare    = "stub with the log"
	etcd    = "etcd"
	zoo     = "ZooKeeper"
	redisOf = "Redis"
	// floor is no contestant but the machine.
	floor = "floor"
)

// Figures that several measurements have.
const (
	pairsFigure  = "pairs/s"
	handsFigure  = "hand-overs/s"
	p50Figure    = "p50 ms"
	p99Figure    = "p99 ms"
	askedFigure  = "p50 ms of the acquire alone"
	cpuFigure    = "server CPU, us each"
	toldFigure   = "all told ms"
	listsFigure  = "lists/s"
	bytesFigure  = "server bytes each"
	shareFigure  = "server CPU, % of a core"
	silentFigure = "longest silence of a client, ms"
	againFigure  = "s until the first answer"
	floorFigure  = "ms"
)

// Workloads.
const (
	w1          = "W1 lock+unlock"
	w1Leader    = "W1, three servers, at the leader"
	w1Follower1 = "W1, three servers, at a follower"
	w1Follower2 = "W1, three servers, at the other follower"
	w2          = "W2 hand-over"
	w3          = "W3 watchers"
	w3Each      = "W3 watchers, a connection each"
	w4          = "W4 idle sessions"
	w5          = "W5 list of a group"
	w7          = "W7 leader killed, of three"
	w8          = "W8 restart with rows"
	floorSync   = "200 bytes written and synced"
	floorStream = "gRPC stream round trip"
)

// Sizes of the workloads.
const (
	watchers      = 1000 // W3
	changesInTurn = 30
	members       = 1000 // W5
	listersAtOnce = 8
	idleMeasure   = 10 * time.Second // W4, and as long before, in which the server settles
)

// contestant is a client on the servers of a product, which it may share with another contestant.
type contestant struct {
	name    string
	client  *client
	product *product
	servers servers
}

// inTurns has each of the contestants do something in each round, each the first one in turn. One that fails
// does not take part any longer.
func (b *bench) inTurns(ctx context.Context, what string, all []*contestant, rounds int,
	do func(t *turn, c *contestant) error) {
	taking := slices.Clone(all)
	for round := range rounds {
		for i := range all {
			c := all[(round+i)%len(all)]
			if !slices.Contains(taking, c) {
				continue
			}
			t := newTurn(ctx)
			err := do(t, c)
			t.end()
			if err != nil {
				b.failed(what, c.name, err)
				taking = slices.DeleteFunc(taking, func(other *contestant) bool { return other == c })
			}
		}
	}
}

func (b *bench) failed(what, contestant string, err error) {
	text := fmt.Sprintf("%s, %s: %v", what, contestant, err)
	fmt.Fprintln(os.Stderr, "bench:", text)
	b.failures = append(b.failures, text)
}

// failure is the error of a measurement in which a contestant failed.
func (b *bench) failure() error {
	if len(b.failures) > 0 {
		return errors.New(strings.Join(b.failures, "; "))
	}
	return nil
}

// having returns those contestants whose client can do something.
func having(all []*contestant, can func(c *client) bool) []*contestant {
	return slices.DeleteFunc(slices.Clone(all), func(c *contestant) bool { return !can(c.client) })
}

// taken is the result of one turn of a closed loop.
type taken struct {
	took         load.Times
	steps        float64 // that count
	elapsed, cpu time.Duration
	asked        load.Times // of acquires alone, nil if they were not measured
}

func (r *taken) perSecond() float64 { return r.steps / r.elapsed.Seconds() }

// cpuEach is the processor time of the servers for a step.
func (r *taken) cpuEach() time.Duration { return time.Duration(float64(r.cpu) / r.steps) }

// loop has clients take steps for a while, and measures the servers meanwhile.
func loop[S any](of servers, clients []S, length time.Duration, step func(int, S) error) (r *taken, err error) {
	r = new(taken)
	if r.cpu, err = of.spent(func() error {
		over := make(chan struct{})
		defer time.AfterFunc(length, func() { close(over) }).Stop()
		r.took, r.elapsed, err = load.Loop(clients, over, step)
		return err
	}); err != nil {
		return nil, err
	}
	r.steps = float64(len(r.took))
	return r, nil
}

// lockName is the lock of the i-th session: one of its own (W1), or the one of all (W2).
func lockName(handOver bool, i int) string {
	if handOver {
		return "one"
	}
	return fmt.Sprint("own-", i)
}

// lock is W1 or W2. The steps that count of W2 are changes of the holder.
func lock(of servers, sessions []locker, handOver bool, length time.Duration) (*taken, error) {
	var asked load.Times
	var last, changes atomic.Int64
	last.Store(-1)
	r, err := loop(of, sessions, length, func(i int, s locker) error {
		name, begun := lockName(handOver, i), time.Now()
		if err := s.Acquire(name, 1); err != nil {
			return err
		}
		if len(sessions) == 1 {
			asked = append(asked, time.Since(begun))
		}
		if handOver && last.Swap(int64(i)) != int64(i) {
			changes.Add(1)
		}
		return s.Release(name)
	})
	if err == nil {
		r.asked = asked
		if handOver {
			r.steps = float64(max(changes.Load(), 1))
		}
	}
	return r, err
}

// lockAt opens sessions at a server, and measures W1 or W2.
func (b *bench) lockAt(t *turn, c *contestant, address string, handOver bool, n int) (*taken, error) {
	sessions, err := c.client.locks(t, address, handOver, n)
	if err != nil {
		return nil, err
	}
	return lock(c.servers, sessions, handOver, b.length)
}

// add puts down a turn of a closed loop, unless that has failed.
func (b *bench) add(workload string, n int, name, figure string, r *taken, err error) error {
	if err != nil {
		return err
	}
	b.book.add(cell{workload, n, figure}, name, r.perSecond())
	b.book.add(cell{workload, n, p50Figure}, name, millis(r.took.Percentile(50)))
	b.book.add(cell{workload, n, p99Figure}, name, millis(r.took.Percentile(99)))
	if r.asked != nil {
		b.book.add(cell{workload, n, askedFigure}, name, millis(r.asked.Percentile(50)))
	}
	b.book.add(cell{workload, n, cpuFigure}, name, micros(r.cpuEach()))
	return nil
}

func (b *bench) measureLocks(ctx context.Context, all []*contestant, handOver bool, n int) {
	workload, figure := w1, pairsFigure
	if handOver {
		workload, figure = w2, handsFigure
	}
	b.inTurns(ctx, fmt.Sprint(workload, ", ", n), all, b.runs, func(t *turn, c *contestant) error {
		r, err := b.lockAt(t, c, c.servers[0].address, handOver, n)
		return b.add(workload, n, c.name, figure, r, err)
	})
}

// warm lets all of them work for a while before anything counts: a Java machine compiles meanwhile, files
// grow.
func (b *bench) warm(ctx context.Context, all []*contestant) {
	b.inTurns(ctx, "warming up", all, 1, func(t *turn, c *contestant) error {
		_, err := b.lockAt(t, c, c.servers[0].address, false, connections)
		return err
	})
}

// measureFloor measures the machine: one durable write, and one round trip on an empty gRPC stream.
func (b *bench) measureFloor(ctx context.Context) error {
	echo, err := newSelf("echo", false).launch(ctx, b.dir, 1)
	if err != nil {
		return err
	}
	defer echo.kill()
	for range b.runs {
		sync, err := machine.Sync(b.dir)
		if err != nil {
			return err
		}
		stream, err := machine.Stream(ctx, echo[0].address)
		if err != nil {
			return err
		}
		b.book.add(cell{floorSync, 1, floorFigure}, floor, millis(sync))
		b.book.add(cell{floorStream, 1, floorFigure}, floor, millis(stream))
	}
	return nil
}

func (b *bench) measureWatch(ctx context.Context, all []*contestant, workload string, n int) {
	if workload == w3Each {
		defer func(shared int) { connections = shared }(connections)
		connections = n
	}
	b.inTurns(ctx, fmt.Sprint(workload, ", ", n), having(all, func(c *client) bool { return c.watch != nil }), b.runs,
		func(t *turn, c *contestant) error {
			w, err := c.client.watch(t, c.servers[0].address, n)
			if err != nil {
				return err
			}
			var took load.Times
			for range changesInTurn {
				d, err := w.round(n)
				if err != nil {
					return err
				}
				took = append(took, d)
			}
			b.book.add(cell{workload, n, toldFigure}, c.name, millis(took.Percentile(50)))
			return nil
		})
}

// round returns the time from a write until all watchers have heard of it.
func (w *watching) round(n int) (time.Duration, error) {
	watchers := make([]struct{}, n)
	if w.arm != nil {
		if err := load.Together(watchers, func(i int, _ struct{}) error { return w.arm(i) }); err != nil {
			return 0, err
		}
	}
	heard := make(chan error, 1)
	begun := time.Now()
	go func() { heard <- load.Together(watchers, func(i int, _ struct{}) error { return w.heard(i) }) }()
	if err := w.write(); err != nil {
		return 0, err
	}
	err := <-heard
	return time.Since(begun), err
}

func (b *bench) measureList(ctx context.Context, all []*contestant, members int) {
	b.inTurns(ctx, w5, having(all, func(c *client) bool { return c.list != nil }), b.runs,
		func(t *turn, c *contestant) error {
			list, err := c.client.list(t, c.servers[0].address, members, listersAtOnce)
			if err != nil {
				return err
			}
			r, err := loop(c.servers, make([]struct{}, listersAtOnce), b.length,
				func(i int, _ struct{}) error {
					n, err := list(i)
					if err == nil && n != members {
						err = fmt.Errorf("%d members of %d", n, members)
					}
					return err
				})
			return b.add(w5, members, c.name, listsFigure, r, err)
		})
}

// measureIdle is W4, once, on servers that have not done anything before.
func (b *bench) measureIdle(ctx context.Context, all []*contestant) {
	idle := having(all, func(c *client) bool { return c.idle != nil })
	b.inTurns(ctx, w4, idle, 1, func(t *turn, c *contestant) error {
		fresh, err := c.product.launchIn(t, filepath.Join(b.dir, "idle"))
		if err != nil {
			return err
		}
		before, err := fresh.resident(t)
		if err != nil {
			return err
		}
		lost, begun := make(chan error, b.idle*4), time.Now()
		if err := c.client.idle(t, fresh.address, b.idle, lost); err != nil {
			return err
		}
		opened := time.Since(begun)
		wait := func() error {
			select {
			case err := <-lost:
				return fmt.Errorf("an idle session ended: %w", err)
			case <-time.After(idleMeasure):
				return nil
			}
		}
		if err := wait(); err != nil {
			return err
		}
		cpu, err := servers{fresh}.spent(wait)
		if err != nil {
			return err
		}
		after, err := fresh.resident(t)
		b.book.add(cell{w4, b.idle, "opened/s"}, c.name, float64(b.idle)/opened.Seconds())
		b.book.add(cell{w4, b.idle, bytesFigure}, c.name, float64(after-before)/float64(b.idle))
		b.book.add(cell{w4, b.idle, shareFigure}, c.name, 100*cpu.Seconds()/idleMeasure.Seconds())
		return err
	})
}

// measureRestart is W8: one server, killed with kill -9 when it has acknowledged all rows, is started again
// on them.
func (b *bench) measureRestart(ctx context.Context, all []*contestant) {
	var filled []*contestant
	b.inTurns(ctx, w8, having(all, func(c *client) bool { return c.fill != nil }), 1,
		func(t *turn, c *contestant) error {
			fresh, err := c.product.launchIn(t, filepath.Join(b.dir, "restart"))
			if err == nil {
				err = c.client.fill(t, fresh.address, b.rows)
			}
			if err == nil {
				filled = append(filled, &contestant{c.name, c.client, c.product, servers{fresh}})
			}
			return err
		})
	b.inTurns(ctx, w8, filled, b.runs, func(t *turn, c *contestant) error {
		begun := time.Now()
		if err := c.servers[0].start(t); err != nil {
			return err
		}
		took := time.Since(begun)
		cpu, err := c.servers.cpu()
		c.servers.kill()
		b.book.add(cell{w8, b.rows, againFigure}, c.name, took.Seconds())
		b.book.add(cell{w8, b.rows, "server CPU until then, s"}, c.name, cpu.Seconds())
		return err
	})
}
