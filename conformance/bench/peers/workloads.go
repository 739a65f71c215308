package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/conformance/bench/machine"
	"github.com/coordd/coordd/conformance/load"
)

// The columns of the table.
const (
	ours    = "coordd, raw"
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
	coordd              string
	book                *book
	failures            []string
	echo                *product
}

// inTurns has each of the contestants do something in each round, each the first one in turn. One that fails
// does not take part any longer.
func (b *bench) inTurns(what string, all []*contestant, rounds int, do func(c *contestant) error) {
	taking := slices.Clone(all)
	for round := range rounds {
		for i := range all {
			c := all[(round+i)%len(all)]
			if !slices.Contains(taking, c) {
				continue
			}
			if err := do(c); err != nil {
				b.failed(what, c.name, err)
				taking = slices.DeleteFunc(taking, func(other *contestant) bool { return other == c })
			}
		}
	}
}

func (b *bench) failed(what, who string, err error) {
	text := fmt.Sprintf("%s, %s: %v", what, who, err)
	fmt.Fprintln(os.Stderr, "peers:", text)
	b.failures = append(b.failures, text)
}

// having is those contestants whose client can do something.
func having(all []*contestant, can func(c *client) bool) []*contestant {
	return slices.DeleteFunc(slices.Clone(all), func(c *contestant) bool { return !can(c.client) })
}

// locked is what one turn of W1 or W2 gives.
type locked struct {
	took    *load.Histogram
	elapsed time.Duration
	changes int64 // of the holder
	cpu     time.Duration
}

func (b *bench) lock(ctx context.Context, c *contestant, address string, kind load.Kind, n int,
	length time.Duration) (*locked, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sessions, end, err := c.client.locks(ctx, address, kind, n)
	if err != nil {
		return nil, err
	}
	defer end()
	var last, changes atomic.Int64
	last.Store(-1)
	if kind == load.HandOver {
		for i, s := range sessions {
			sessions[i] = &holder{s, int64(i), &last, &changes}
		}
	}
	before, err := c.servers.cpu()
	if err != nil {
		return nil, err
	}
	over, result := make(chan struct{}), &locked{took: new(load.Histogram)}
	defer time.AfterFunc(length, func() { close(over) }).Stop()
	if result.elapsed, err = load.Run(kind, "", sessions, over, result.took); err != nil {
		return nil, err
	}
	after, err := c.servers.cpu()
	result.changes, result.cpu = changes.Load(), after-before
	return result, err
}

// addLocks puts down a turn of W1 or W2. What counts of W2 is how often the holder changed.
func (b *bench) addLocks(workload string, n int, name string, l *locked, kind load.Kind) {
	steps, figure := int64(l.took.Count()), pairsFigure
	if kind == load.HandOver {
		steps, figure = l.changes, handsFigure
	}
	steps = max(steps, 1)
	b.book.add(cell{workload, n, figure}, name, float64(steps)/l.elapsed.Seconds())
	b.book.add(cell{workload, n, p50Figure}, name, millis(l.took.Percentile(50)))
	b.book.add(cell{workload, n, p99Figure}, name, millis(l.took.Percentile(99)))
	b.book.add(cell{workload, n, cpuFigure}, name, micros(l.cpu)/float64(steps))
}

func (b *bench) measureLocks(ctx context.Context, workload string, all []*contestant, kind load.Kind, n int) {
	b.inTurns(fmt.Sprint(workload, ", ", n), having(all, func(c *client) bool { return c.locks != nil }),
		b.runs, func(c *contestant) error {
			l, err := b.lock(ctx, c, c.servers[0].address, kind, n, b.length)
			if err == nil {
				b.addLocks(workload, n, c.name, l, kind)
			}
			return err
		})
}

// warm lets all of them work for a while before anything counts: a Java machine compiles meanwhile, files
// grow.
func (b *bench) warm(ctx context.Context, all []*contestant) {
	b.inTurns("warming up", having(all, func(c *client) bool { return c.locks != nil }), 1,
		func(c *contestant) error {
			_, err := b.lock(ctx, c, c.servers[0].address, load.Pairs, connections, b.length)
			return err
		})
}

// measureFloor is what the machine allows in this round.
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

// changesInTurn is how many changes are watched in a turn of W3.
const changesInTurn = 30

func (b *bench) measureWatch(ctx context.Context, all []*contestant, n int) {
	b.inTurns(fmt.Sprint(w3, ", ", n), having(all, func(c *client) bool { return c.watch != nil }), b.runs,
		func(c *contestant) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			w, err := c.client.watch(ctx, c.servers[0].address, n)
			if err != nil {
				return err
			}
			defer w.close()
			watchers := make([]struct{}, n)
			var took []time.Duration
			for round := range changesInTurn {
				if w.arm != nil {
					if err := load.Together(watchers,
						func(i int, _ struct{}) error { return w.arm(i) }); err != nil {
						return err
					}
				}
				heard := make(chan error, 1)
				begun := time.Now()
				go func() {
					heard <- load.Together(watchers, func(i int, _ struct{}) error { return w.heard(i) })
				}()
				if err := w.write(round); err != nil {
					return err
				}
				if err := <-heard; err != nil {
					return err
				}
				took = append(took, time.Since(begun))
			}
			b.book.add(cell{w3, n, toldFigure}, c.name, millis(middle(took)))
			return nil
		})
}

// listersAtOnce is how many clients list the group in W5.
const listersAtOnce = 8

func (b *bench) measureList(ctx context.Context, all []*contestant, members int) {
	b.inTurns(w5, having(all, func(c *client) bool { return c.group != nil }), b.runs,
		func(c *contestant) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			l, err := c.client.group(ctx, c.servers[0].address, members, listersAtOnce)
			if err != nil {
				return err
			}
			defer l.close()
			before, err := c.servers.cpu()
			if err != nil {
				return err
			}
			took, begun := new(load.Histogram), time.Now()
			err = load.Together(make([]struct{}, listersAtOnce), func(i int, _ struct{}) error {
				for time.Since(begun) < b.length {
					start := time.Now()
					if n, err := l.list(i); err != nil || n != members {
						return fmt.Errorf("%d members of %d: %w", n, members, err)
					}
					took.Add(time.Since(start))
				}
				return nil
			})
			elapsed := time.Since(begun)
			if err != nil {
				return err
			}
			after, err := c.servers.cpu()
			lists := float64(max(took.Count(), 1))
			b.book.add(cell{w5, members, listsFigure}, c.name, lists/elapsed.Seconds())
			b.book.add(cell{w5, members, p50Figure}, c.name, millis(took.Percentile(50)))
			b.book.add(cell{w5, members, cpuFigure}, c.name, micros(after-before)/lists)
			return err
		})
}

// measureIdle is W4, once, on servers that have not done anything before.
func (b *bench) measureIdle(ctx context.Context, all []*contestant) {
	b.inTurns(w4, having(all, func(c *client) bool { return c.idle != nil }), 1, func(c *contestant) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		fresh, err := c.product.launch(ctx, b.dir+"/idle", 1)
		if err != nil {
			return err
		}
		defer fresh.kill()
		server := fresh[0]
		if err := server.collect(ctx); err != nil {
			return err
		}
		before, err := machine.Resident(server.running.Process.Pid)
		if err != nil {
			return err
		}
		lost, begun := make(chan error, b.idle*4), time.Now()
		end, err := c.client.idle(ctx, server.address, b.idle, lost)
		if err != nil {
			return err
		}
		defer end()
		opened := time.Since(begun)
		wait := func(d time.Duration) error {
			select {
			case err := <-lost:
				return fmt.Errorf("an idle session ended: %w", err)
			case <-time.After(d):
				return nil
			}
		}
		if err := wait(b.settle); err != nil {
			return err
		}
		cpuBefore, err := server.cpu()
		if err != nil {
			return err
		}
		if err := wait(b.idleMeasure); err != nil {
			return err
		}
		cpuAfter, err := server.cpu()
		if err != nil {
			return err
		}
		if err := server.collect(ctx); err != nil {
			return err
		}
		after, err := machine.Resident(server.running.Process.Pid)
		b.book.add(cell{w4, b.idle, openFigure}, c.name, float64(b.idle)/opened.Seconds())
		b.book.add(cell{w4, b.idle, bytesFigure}, c.name, float64(after-before)/float64(b.idle))
		b.book.add(cell{w4, b.idle, shareFigure}, c.name,
			100*(cpuAfter-cpuBefore).Seconds()/b.idleMeasure.Seconds())
		return err
	})
}

// cutAtOnce is how many holders are cut off in W6, each of a lock of its own, at other moments between two
// keep-alives.
const cutAtOnce = 5

func (b *bench) measureCut(ctx context.Context, all []*contestant) {
	b.inTurns(w6, having(all, func(c *client) bool { return c.hold != nil }), 1, func(c *contestant) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		holders, took := make([]*holding, cutAtOnce), make([]time.Duration, cutAtOnce)
		err := load.Together(holders, func(i int, _ *holding) (err error) {
			holders[i], err = c.client.hold(ctx, c.servers[0].address, i)
			return err
		})
		if err != nil {
			return err
		}
		err = load.Together(holders, func(i int, h *holding) error {
			defer h.close()
			waited := make(chan error, 1)
			go func() { waited <- h.wait() }()
			// the waiter is in the queue by then
			time.Sleep(time.Second + time.Duration(i)*cutSession/3/cutAtOnce)
			cut := time.Now()
			h.cut()
			err := <-waited
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
