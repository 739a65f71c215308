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
	"github.com/coordd/coordd/conformance/load"
)

// The columns of the table.
const (
	ours    = "coordd, raw"
	older   = "the other program, raw"
	oursSDK = "coordd, Go SDK"
	bare    = "stub, no log"
	etcd    = "etcd"
	zoo     = "ZooKeeper"
	redisOf = "Redis"
	// floor is no contestant but the machine.
	floor = "floor"
)

// Figures.
const (
	pairsFigure  = "pairs/s"
	handsFigure  = "hand-overs/s"
	p50Figure    = "p50 ms"
	p99Figure    = "p99 ms"
	askedFigure  = "p50 ms of the acquire alone"
	cpuFigure    = "server CPU, us each"
	toldFigure   = "all told ms"
	listsFigure  = "lists/s"
	openFigure   = "opened/s"
	bytesFigure  = "server bytes each"
	shareFigure  = "server CPU, % of a core"
	nextFigure   = "ms until the next one has it"
	silentFigure = "longest silence of a client, ms"
	stayedFigure = "the same, of clients whose server lives, ms"
	startFigure  = "s until the first answer"
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
	w4          = "W4 idle sessions"
	w5          = "W5 list of a group"
	w6          = "W6 holder cut off, timeout 5 s"
	w7          = "W7 leader killed, of three"
	w8          = "W8 restart with rows"
	floorSync   = "200 bytes written and synced"
	floorStream = "gRPC stream round trip"
)

// contestant is a client on the servers of a product, which it may share with another contestant.
type contestant struct {
	name    string
	client  *client
	product *product
	servers servers
}

// bench is one run of this program.
type bench struct {
	dir                 string
	runs                int
	length              time.Duration
	idle, rows          int
	settle, idleMeasure time.Duration
	coordd              string // the program
	began               time.Time
	loadBefore          string
	book                *book
	failures            []string
	echo                *product
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

func (b *bench) failed(what, who string, err error) {
	text := fmt.Sprintf("%s, %s: %v", what, who, err)
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
	took         *load.Histogram
	steps        float64 // that count
	elapsed, cpu time.Duration
	asked        *load.Histogram // of acquires alone, nil if they were not measured
}

func (r *taken) perSecond() float64 { return r.steps / r.elapsed.Seconds() }

// cpuEach is the processor time of the servers for a step.
func (r *taken) cpuEach() time.Duration { return time.Duration(float64(r.cpu) / r.steps) }

// loop has clients take steps for a while, and measures the servers meanwhile.
func loop[S any](of servers, clients []S, length time.Duration, step func(int, S) error) (*taken, error) {
	before, err := of.cpu()
	if err != nil {
		return nil, err
	}
	over, r := make(chan struct{}), &taken{took: new(load.Histogram)}
	defer time.AfterFunc(length, func() { close(over) }).Stop()
	if r.elapsed, err = load.Loop(clients, over, r.took, step); err != nil {
		return nil, err
	}
	after, err := of.cpu()
	r.steps, r.cpu = float64(r.took.Count()), after-before
	return r, err
}

// lock is W1 or W2. The steps that count of W2 are changes of the holder.
func lock(t *turn, c *contestant, address string, kind load.Kind, n int, length time.Duration) (*taken, error) {
	sessions, err := c.client.locks(t, address, kind, n)
	if err != nil {
		return nil, err
	}
	asked := new(load.Histogram)
	var last, changes atomic.Int64
	last.Store(-1)
	if kind == load.HandOver || n == 1 {
		for i, s := range sessions {
			sessions[i] = &observed{s, int64(i), &last, &changes, asked}
		}
	}
	r, err := loop(c.servers, sessions, length, load.Step[load.Session](kind, "", n))
	if err == nil && n == 1 {
		r.asked = asked
	}
	if err == nil && kind == load.HandOver {
		r.steps = float64(max(changes.Load(), 1))
	}
	return r, err
}

// add puts down a turn of a closed loop.
func (b *bench) add(workload string, n int, name, figure string, r *taken) {
	b.book.add(cell{workload, n, figure}, name, r.perSecond())
	b.book.add(cell{workload, n, p50Figure}, name, millis(r.took.Percentile(50)))
	b.book.add(cell{workload, n, p99Figure}, name, millis(r.took.Percentile(99)))
	if r.asked != nil {
		b.book.add(cell{workload, n, askedFigure}, name, millis(r.asked.Percentile(50)))
	}
	b.book.add(cell{workload, n, cpuFigure}, name, micros(r.cpuEach()))
}

func (b *bench) measureLocks(ctx context.Context, workload string, all []*contestant, kind load.Kind, n int) {
	figure := pairsFigure
	if kind == load.HandOver {
		figure = handsFigure
	}
	b.inTurns(ctx, fmt.Sprint(workload, ", ", n), having(all, func(c *client) bool { return c.locks != nil }),
		b.runs, func(t *turn, c *contestant) error {
			r, err := lock(t, c, c.servers[0].address, kind, n, b.length)
			if err == nil {
				b.add(workload, n, c.name, figure, r)
			}
			return err
		})
}

// warm lets all of them work for a while before anything counts: a Java machine compiles meanwhile, files
// grow.
func (b *bench) warm(ctx context.Context, all []*contestant) {
	b.inTurns(ctx, "warming up", having(all, func(c *client) bool { return c.locks != nil }), 1,
		func(t *turn, c *contestant) error {
			_, err := lock(t, c, c.servers[0].address, load.Pairs, connections, b.length)
			return err
		})
}

// measureFloor measures the machine: one durable write, and one round trip on an empty gRPC stream.
func (b *bench) measureFloor(ctx context.Context) error {
	echo, err := b.echo.launch(ctx, b.dir, 1)
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

// changesInTurn is the number of changes watched in a turn of W3.
const changesInTurn = 30

func (b *bench) measureWatch(ctx context.Context, all []*contestant, n int) {
	b.inTurns(ctx, fmt.Sprint(w3, ", ", n), having(all, func(c *client) bool { return c.watch != nil }), b.runs,
		func(t *turn, c *contestant) error {
			w, err := c.client.watch(t, c.servers[0].address, n)
			if err != nil {
				return err
			}
			var took []time.Duration
			for range changesInTurn {
				d, err := w.round(n)
				if err != nil {
					return err
				}
				took = append(took, d)
			}
			b.book.add(cell{w3, n, toldFigure}, c.name, millis(machine.Percentile(took, 50)))
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

// listersAtOnce is the number of clients that list the group in W5.
const listersAtOnce = 8

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
			if err == nil {
				b.add(w5, members, c.name, listsFigure, r)
			}
			return err
		})
}

// measureIdle is W4, once, on servers that have not done anything before.
func (b *bench) measureIdle(ctx context.Context, all []*contestant) {
	idle := having(all, func(c *client) bool { return c.idle != nil })
	b.inTurns(ctx, w4, idle, 1, func(t *turn, c *contestant) error {
		fresh, err := c.product.launch(t, filepath.Join(b.dir, "idle"), 1)
		if err != nil {
			return err
		}
		t.later(fresh.kill)
		server := fresh[0]
		err = server.collect(t)
		before, unread := server.resident()
		if err := errors.Join(err, unread); err != nil {
			return err
		}
		lost, begun := make(chan error, b.idle*4), time.Now()
		if err := c.client.idle(t, server.address, b.idle, lost); err != nil {
			return err
		}
		opened := time.Since(begun)
		wait := func(d time.Duration) (time.Duration, error) {
			select {
			case err := <-lost:
				return 0, fmt.Errorf("an idle session ended: %w", err)
			case <-time.After(d):
				return server.cpu()
			}
		}
		cpuBefore, err := wait(b.settle)
		if err != nil {
			return err
		}
		cpuAfter, err := wait(b.idleMeasure)
		if err != nil {
			return err
		}
		if err := server.collect(t); err != nil {
			return err
		}
		after, err := server.resident()
		b.book.add(cell{w4, b.idle, openFigure}, c.name, float64(b.idle)/opened.Seconds())
		b.book.add(cell{w4, b.idle, bytesFigure}, c.name, float64(after-before)/float64(b.idle))
		b.book.add(cell{w4, b.idle, shareFigure}, c.name,
			100*(cpuAfter-cpuBefore).Seconds()/b.idleMeasure.Seconds())
		return err
	})
}

// cutAtOnce is how many holders are cut off in W6, each of a lock of its own, at other moments between two
// keep-alives, and cutPatience bounds the wait for the next holder.
const (
	cutAtOnce   = 5
	cutPatience = time.Minute
)

func (b *bench) measureCut(ctx context.Context, all []*contestant) {
	holding := having(all, func(c *client) bool { return c.hold != nil })
	b.inTurns(ctx, w6, holding, 1, func(t *turn, c *contestant) error {
		took := make([]time.Duration, cutAtOnce)
		err := load.Together(took, func(i int, _ time.Duration) error {
			own := newTurn(t)
			defer own.end()
			h, err := c.client.hold(own, c.servers[0].address, i)
			if err != nil {
				return err
			}
			waited := make(chan error, 1)
			go func() { waited <- h.wait() }()
			// the waiter is in the queue by then
			time.Sleep(time.Second + time.Duration(i)*cutSession/3/cutAtOnce)
			cut := time.Now()
			h.cut()
			select {
			case err = <-waited:
			case <-time.After(cutPatience):
				err = fmt.Errorf("not granted within %v", cutPatience)
			}
			took[i] = time.Since(cut)
			return err
		})
		if err != nil {
			return err
		}
		for _, d := range took {
			b.book.add(cell{w6, cutAtOnce, nextFigure}, c.name, millis(d))
		}
		return nil
	})
}
