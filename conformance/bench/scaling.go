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
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/bench/page"
	"github.com/coordd/coordd/conformance/load"
	"github.com/coordd/coordd/conformance/raw"
)

const (
	// busyClients lock and unlock while there is much of something else.
	busyClients = 16
	// fewRows is what a million is compared with.
	fewRows = 1000
)

// scale has the sizes up to which it is measured.
type scale struct {
	*bench
	semaphores, sessions, nodes, waiters int
}

// upTo is the powers of ten from a first one, and the last size.
func upTo(first, last int) []int {
	var sizes []int
	for n := first; n < last; n *= 10 {
		sizes = append(sizes, n)
	}
	return append(sizes, last)
}

// grown is the result of busy clients beside n of something.
type grown struct {
	n        int
	best     *taken // the one in the middle
	resident int64
}

// measure measures what operations cost beside much of something, and writes the result into the pages, if they
// are given.
func (s scale) measure(ctx context.Context, pageFile, targetsFile string) error {
	rows, targets, err := s.semaphoresAndCheckpoints(ctx)
	if err != nil {
		return fmt.Errorf("semaphores: %w", err)
	}
	text := rows
	for _, part := range []struct {
		name    string
		measure func(t *turn, server *process) (string, error)
	}{{"sessions", s.idleSessions}, {"nodes", s.manyNodes}, {"waiters", s.manyWaiters}} {
		say(part.name)
		table, err := s.on(ctx, part.name, part.measure)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		text += "\n" + table
	}
	text = s.head() + text
	fmt.Println(text + "\n" + page.Targets(targets))
	if pageFile != "" {
		err = page.Replace(pageFile, "scaling", text)
	}
	if targetsFile != "" {
		err = errors.Join(err, page.Replace(targetsFile, "scaling-targets", page.Targets(targets)))
	}
	return err
}

// on measures something on a fresh server.
func (s scale) on(ctx context.Context, name string, measure func(*turn, *process) (string, error)) (string, error) {
	t := newTurn(ctx)
	defer t.end()
	server, err := s.start(t, name)
	if err != nil {
		return "", err
	}
	return measure(t, server[0])
}

// start starts a server, which ends with the turn.
func (s scale) start(t *turn, name string) (servers, error) {
	server, err := newCoordd("coordd", s.coordd).launch(t, filepath.Join(s.dir, name), 1)
	if err == nil {
		t.later(server.kill)
	}
	return server, err
}

// spread makes busy clients take and release a token of one of n semaphores, each time another one by chance.
// Nobody waits.
func spread(ctx context.Context, of servers, n int, length time.Duration) (*taken, error) {
	t := newTurn(ctx)
	defer t.end()
	sessions, err := rawSessions(t, of[0].address, busyClients, busySession)
	if err != nil {
		return nil, err
	}
	return loop(of, sessions, length, func(_ int, s *raw.Session) error { return pair(s, n) })
}

func pair(s *raw.Session, n int) error {
	name := rowName(rand.IntN(n))
	if err := s.Acquire(name, 1); err != nil {
		return err
	}
	return s.Release(name)
}

// repeat runs a workload several times and returns the run in the middle.
func (s scale) repeat(server *process, n int, workload func(run int) (*taken, error)) (grown, error) {
	var all []*taken
	for run := range s.runs {
		r, err := workload(run)
		if err != nil {
			return grown{}, fmt.Errorf("%d: %w", n, err)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *taken) int { return cmp.Compare(a.perSecond(), b.perSecond()) })
	resident, err := server.resident()
	return grown{n, all[len(all)/2], resident}, err
}

// table shows what it costs where there is more and more of something.
func table(of, unit string, rows []grown) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"| %s | %s | of the first | p50 ms | p99 ms | server CPU, us each | of the first | server resident MiB |\n", of, unit)
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %.2f | %s | %s | %.1f | %.2f | %.0f |\n", page.Count(r.n),
			page.Number(r.best.perSecond()), r.best.perSecond()/rows[0].best.perSecond(),
			threeDigits(r.best.took.Percentile(50)), threeDigits(r.best.took.Percentile(99)),
			micros(r.best.cpuEach()), float64(r.best.cpuEach())/float64(max(rows[0].best.cpuEach(), 1)),
			float64(r.resident)/(1<<20))
	}
	return b.String()
}

func threeDigits(d time.Duration) string { return fmt.Sprintf("%.3f", millis(d)) }

// semaphoresAndCheckpoints measures on more and more semaphores, then on most of them and on few in turns,
// and at last while checkpoints of most of them are stored.
func (s scale) semaphoresAndCheckpoints(ctx context.Context) (string, []page.Target, error) {
	t := newTurn(ctx)
	defer t.end()
	many, err := s.start(t, "many")
	if err != nil {
		return "", nil, err
	}
	few, err := s.start(t, "few")
	if err != nil {
		return "", nil, err
	}
	var rows []grown
	made := 0
	for _, n := range upTo(1, s.semaphores) {
		if err := rawRows(t, many[0].address, made, n); err != nil {
			return "", nil, err
		}
		made = n
		say(fmt.Sprint(n, " semaphores"))
		if err := settled(t, many[0].metrics); err != nil {
			return "", nil, err
		}
		g, err := s.repeat(many[0], n, func(int) (*taken, error) { return spread(t, many, n, s.length) })
		if err != nil {
			return "", nil, err
		}
		rows = append(rows, g)
	}
	text := table("semaphores", "pairs/s", rows)
	smaller := min(fewRows, s.semaphores)
	if err := rawRows(t, few[0].address, 0, smaller); err != nil {
		return "", nil, err
	}
	targets, err := s.inTurnsOn(t, many, few, smaller)
	if err != nil {
		return "", nil, err
	}
	stored, target, err := s.checkpoints(t, many)
	if err != nil {
		return "", nil, fmt.Errorf("checkpoints: %w", err)
	}
	return text + "\n" + stored, append(targets, target), nil
}

// inTurnsOn compares pairs on all semaphores with those on few.
func (s scale) inTurnsOn(t *turn, many, few servers, smaller int) ([]page.Target, error) {
	rows := map[string]int{"many": s.semaphores, "few": smaller}
	s.inTurns(t, "many and few semaphores", []*contestant{{name: "many", servers: many},
		{name: "few", servers: few}}, s.runs+2, func(t *turn, c *contestant) error {
		r, err := spread(t, c.servers, rows[c.name], s.length)
		if err == nil {
			s.add(w1, busyClients, c.name, pairsFigure, r)
		}
		return err
	})
	speed, _ := s.book.ratio(cell{w1, busyClients, pairsFigure}, "many", "few")
	cpu, _ := s.book.ratio(cell{w1, busyClients, cpuFigure}, "many", "few")
	return []page.Target{
		{Figure: fmt.Sprintf("pairs/s of 16 clients, uniformly over %s semaphores, of the same over %s",
			page.Count(s.semaphores), page.Count(smaller)), Wanted: "at least 0.8", Limit: 0.8, Is: speed},
		{Figure: "server CPU for a pair, likewise", Wanted: "at most 1.2", Limit: 1.2, AtMost: true, Is: cpu},
	}, s.failure()
}

// idleSessions measures beside more and more sessions that do nothing but answer pings.
func (s scale) idleSessions(t *turn, server *process) (string, error) {
	conns, err := rawConns(t, server.address, s.sessions)
	if err != nil {
		return "", err
	}
	var rows []grown
	made := 0
	for _, n := range upTo(10, s.sessions) {
		lost := make(chan error, n)
		if err := openEach(t, conns, n-made, busySession, func(_ int, session *raw.Session) {
			go func() { _, err := session.Receive(); lost <- err }() // pings, until the end
		}); err != nil {
			return "", err
		}
		made = n
		g, err := s.repeat(server, n, func(int) (*taken, error) {
			own := newTurn(t)
			defer own.end()
			return lock(own, &contestant{client: rawClient, servers: servers{server}}, server.address, load.Pairs,
				busyClients, s.length)
		})
		if err != nil {
			return "", err
		}
		if len(lost) > 0 {
			return "", fmt.Errorf("an idle session ended: %w", <-lost)
		}
		rows = append(rows, g)
	}
	return table("idle sessions", "pairs/s", rows), nil
}

// manyNodes measures among more and more nodes, each of the busy clients in another one.
func (s scale) manyNodes(t *turn, server *process) (string, error) {
	conns, err := rawConns(t, server.address, connections)
	if err != nil {
		return "", err
	}
	path := func(i int) string { return fmt.Sprintf("/local/node-%06d", i) }
	var rows []grown
	made := 0
	for _, n := range upTo(1, s.nodes) {
		err := load.Together(conns, func(first int, conn *grpc.ClientConn) (err error) {
			for i := made + first; i < n && err == nil; i += len(conns) {
				err = raw.CreateNode(t, conn, path(i))
			}
			return err
		})
		if err != nil {
			return "", err
		}
		made = n
		g, err := s.repeat(server, n, func(int) (*taken, error) {
			return pairsOfNodes(t, servers{server}, conns, func(i int) string { return path(i * n / busyClients) },
				s.length)
		})
		if err != nil {
			return "", err
		}
		rows = append(rows, g)
	}
	return table("nodes", "pairs/s", rows), nil
}

// pairsOfNodes is W1 with a node for each of the busy clients.
func pairsOfNodes(ctx context.Context, of servers, conns []*grpc.ClientConn, path func(client int) string,
	length time.Duration) (*taken, error) {
	t := newTurn(ctx)
	defer t.end()
	sessions := make([]*raw.Session, busyClients)
	names := load.Pairs.Semaphores("", busyClients)
	err := load.Together(sessions, func(i int, _ *raw.Session) (err error) {
		if sessions[i], err = raw.Open(t, conns[i%len(conns)],
			&raw.Start{Path: path(i), TimeoutMillis: millisOf(busySession)}); err != nil {
			return err
		}
		return sessions[i].Create(names[i], 1)
	})
	if err != nil {
		return nil, err
	}
	return loop(of, sessions, length, load.Step[*raw.Session](load.Pairs, "", busyClients))
}

// manyWaiters measures hand-overs of one semaphore among more and more sessions, all of which wait for it.
func (s scale) manyWaiters(t *turn, server *process) (string, error) {
	var rows []grown
	for _, n := range upTo(10, s.waiters) {
		g, err := s.repeat(server, n, func(run int) (*taken, error) {
			return queue(t, server, fmt.Sprintf("queue-%d-%d", n, run), n, s.length)
		})
		if err != nil {
			return "", err
		}
		rows = append(rows, g)
	}
	return table("waiters", "hand-overs/s", rows), nil
}

// queue makes n sessions hand a semaphore over, and counts from when all of them are in its queue. The times
// are those from when one has it, and lets go at once, to when the next one has it.
func queue(ctx context.Context, server *process, name string, n int, length time.Duration) (*taken, error) {
	t := newTurn(ctx)
	defer t.end()
	conns, err := rawConns(t, server.address, n)
	if err != nil {
		return nil, err
	}
	holder, err := open(t, conns[0], idleSession)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(holder.Create(name, 1), holder.Acquire(name, 1)); err != nil {
		return nil, err
	}
	letGo, gone := make(chan struct{}), make(chan error, 1)
	go func() { gone <- holdUntil(letGo, holder, name) }()
	var released atomic.Int64 // when the last one let go
	took := new(load.Histogram)
	queued := make(chan error, n)
	// Those that are still in the queue in the end vanish with their streams, which is why each run has a
	// semaphore of its own.
	err = openEach(t, conns, n, idleSession, func(_ int, s *raw.Session) {
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
				took.Add(time.Duration(time.Now().UnixNano() - released.Load()))
				released.Store(time.Now().UnixNano())
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
	before, err := server.cpu()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	released.Store(begun.UnixNano())
	close(letGo)
	if err := <-gone; err != nil {
		return nil, err
	}
	time.Sleep(length)
	r := &taken{took: took, steps: float64(took.Count()), elapsed: time.Since(begun)}
	after, err := server.cpu()
	if r.cpu = after - before; r.steps == 0 {
		err = errors.Join(err, errors.New("nothing was handed over"))
	}
	return r, err
}

// holdUntil answers the pings of a session that holds a semaphore, until it lets go.
func holdUntil(letGo <-chan struct{}, holder *raw.Session, name string) error {
	for {
		select {
		case <-letGo:
			return holder.Release(name)
		case <-time.After(time.Second / 4):
		}
		if err := holder.Create(name, 1); err != nil { // it is there; pings are answered meanwhile
			return err
		}
	}
}
