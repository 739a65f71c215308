package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/bench/machine"
	"github.com/coordd/coordd/conformance/bench/page"
	"github.com/coordd/coordd/conformance/load"
	"github.com/coordd/coordd/conformance/loopback"
	"github.com/coordd/coordd/conformance/raw"
)

const (
	// busyClients lock and unlock while there is much of something else.
	busyClients = 16
	// fillers create semaphores at the same time.
	fillers = 256
	// fewRows is what a million is compared with.
	fewRows = 1000
)

// scale is the sizes up to which it is measured.
type scale struct {
	semaphores, sessions, nodes, waiters int
	runs                                 int
	length                               time.Duration
	binary, dir                          string
}

// upTo is the powers of ten from a first one, and the last size.
func upTo(first, last int) []int {
	var sizes []int
	for n := first; n < last; n *= 10 {
		sizes = append(sizes, n)
	}
	return append(sizes, last)
}

// grown is what busy clients get where there is n of something.
type grown struct {
	n        int
	best     turn // the one in the middle
	resident int64
}

// measureScaling measures what operations cost where there is much of something, and writes what it finds
// into the pages, if they are given.
func measureScaling(ctx context.Context, s scale, pageFile, targetsFile string) error {
	began, loadBefore := time.Now(), machine.Load()
	var text strings.Builder
	var targets []page.Target
	rows, targets, err := s.semaphoresAndCheckpoints(ctx)
	if err != nil {
		return fmt.Errorf("semaphores: %w", err)
	}
	text.WriteString(rows)
	for _, part := range []struct {
		name    string
		measure func(context.Context) (string, error)
	}{{"sessions", s.idleSessions}, {"nodes", s.manyNodes}, {"waiters", s.manyWaiters}} {
		fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().UTC().Format(time.TimeOnly), part.name)
		table, err := part.measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		text.WriteString("\n" + table)
	}
	head := fmt.Sprintf(
		"%s, %d processors: %s; %s. Load before the run %s, the run took %v. Median of %d runs of %v.\n\n",
		began.UTC().Format("2006-01-02 15:04 UTC"), runtime.NumCPU(), machine.String(), runtime.Version(),
		loadBefore, time.Since(began).Round(time.Second), s.runs, s.length)
	fmt.Println(head + text.String() + "\n" + page.Targets(targets))
	if pageFile != "" {
		err = errors.Join(err, page.Replace(pageFile, "scaling", head+text.String()))
	}
	if targetsFile != "" {
		err = errors.Join(err, page.Replace(targetsFile, "scaling-targets", page.Targets(targets)))
	}
	return err
}

// start starts a server with metrics.
func (s scale) start(name string) (server *serverProcess, metrics string, err error) {
	addresses, err := loopback.Addresses(1)
	if err != nil {
		return nil, "", err
	}
	server, err = startServerWith(s.binary, filepath.Join(s.dir, name),
		[]string{"COORDD_LISTEN_HTTP=" + addresses[0]})
	return server, "http://" + addresses[0] + "/metrics", err
}

func kill(server *serverProcess) {
	_ = server.command.Process.Kill()
	_ = server.command.Wait()
}

// rowName is that of the i-th semaphore.
func rowName(i int) string { return fmt.Sprintf("row-%09d", i) }

// fill creates the semaphores from one number up to another, each for all busy clients at a time.
func fill(ctx context.Context, address string, from, to int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conns, err := raw.Dial(address, connections)
	if err != nil {
		return err
	}
	defer raw.Close(conns)
	return load.Together(make([]struct{}, fillers), func(first int, _ struct{}) error {
		s, err := raw.Open(ctx, conns[first%len(conns)], &raw.Start{Path: nodePath, TimeoutMillis: 30_000})
		for i := from + first; i < to && err == nil; i += fillers {
			err = s.Create(rowName(i), busyClients)
		}
		return err
	})
}

// openEach opens n sessions, spread over the connections, and has each go on by itself as soon as it is open:
// while many are being opened, the first ones have pings to answer.
func openEach(ctx context.Context, conns []*grpc.ClientConn, n int, timeoutMillis uint64,
	goOn func(*raw.Session)) error {
	return load.Together(conns, func(first int, conn *grpc.ClientConn) error {
		for i := first; i < n; i += len(conns) {
			s, err := raw.Open(ctx, conn, &raw.Start{Path: nodePath, TimeoutMillis: timeoutMillis})
			if err != nil {
				return err
			}
			go goOn(s)
		}
		return nil
	})
}

// with calls do with n sessions.
func with(ctx context.Context, address string, n int, do func([]*raw.Session) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conns, err := raw.Dial(address, min(n, connections))
	if err != nil {
		return err
	}
	defer raw.Close(conns)
	sessions, err := openSessions(ctx, conns, n, 30_000)
	if err != nil {
		return err
	}
	return do(sessions)
}

// spread has busy clients take and release a token of one of n semaphores, each time another one by chance.
// Nobody waits.
func spread(ctx context.Context, address string, n int, duration time.Duration) (result, error) {
	var r result
	err := with(ctx, address, busyClients, func(sessions []*raw.Session) error {
		took, begun := new(load.Histogram), time.Now()
		err := load.Together(sessions, func(_ int, s *raw.Session) error {
			for time.Since(begun) < duration {
				start := time.Now()
				if err := pair(s, n); err != nil {
					return err
				}
				took.Add(time.Since(start))
			}
			return nil
		})
		r = result{float64(took.Count()) / time.Since(begun).Seconds(), took.Percentile(50),
			took.Percentile(99), int(max(took.Count(), 1))}
		return err
	})
	return r, err
}

func pair(s *raw.Session, n int) error {
	name := rowName(rand.IntN(n))
	if err := s.Acquire(name, 1); err != nil {
		return err
	}
	return s.Release(name)
}

// repeat runs a workload several times and returns the turn in the middle.
func (s scale) repeat(server *serverProcess, n int, workload func() (result, error)) (grown, error) {
	c := contestant{process: server}
	var turns []turn
	for range s.runs {
		t, err := c.take(func(string) (result, error) { return workload() })
		if err != nil {
			return grown{}, fmt.Errorf("%d: %w", n, err)
		}
		turns = append(turns, t)
	}
	resident, err := server.resident()
	return grown{n, middle(turns, func(t turn) float64 { return t.perSecond }), resident}, err
}

// table shows what it costs where there is more and more of something.
func table(of, unit string, rows []grown) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"| %s | %s | of the first | p50 ms | p99 ms | server CPU, us each | of the first | server resident MiB |\n", of, unit)
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %.2f | %s | %s | %.1f | %.2f | %.0f |\n", page.Count(r.n),
			page.Number(r.best.perSecond), r.best.perSecond/rows[0].best.perSecond, millis(r.best.p50),
			millis(r.best.p99), r.best.cpu.Seconds()*1e6,
			float64(r.best.cpu)/float64(max(rows[0].best.cpu, 1)), float64(r.resident)/(1<<20))
	}
	return b.String()
}

// semaphoresAndCheckpoints measures on more and more semaphores, then on most of them and on few in turns,
// and at last while checkpoints of most of them are stored.
func (s scale) semaphoresAndCheckpoints(ctx context.Context) (string, []page.Target, error) {
	many, metrics, err := s.start("many")
	if err != nil {
		return "", nil, err
	}
	defer kill(many)
	few, _, err := s.start("few")
	if err != nil {
		return "", nil, err
	}
	defer kill(few)
	for _, server := range []*serverProcess{many, few} {
		if err := createNode(ctx, server.address); err != nil {
			return "", nil, err
		}
	}
	var rows []grown
	made := 0
	for _, n := range upTo(1, s.semaphores) {
		if err := fill(ctx, many.address, made, n); err != nil {
			return "", nil, err
		}
		made = n
		fmt.Fprintf(os.Stderr, "%s %d semaphores\n", time.Now().UTC().Format(time.TimeOnly), n)
		if err := settled(ctx, metrics); err != nil {
			return "", nil, err
		}
		g, err := s.repeat(many, n, func() (result, error) { return spread(ctx, many.address, n, s.length) })
		if err != nil {
			return "", nil, err
		}
		rows = append(rows, g)
	}
	text := table("semaphores", "pairs/s", rows)
	smaller := min(fewRows, s.semaphores)
	if err := fill(ctx, few.address, 0, smaller); err != nil {
		return "", nil, err
	}
	speed, cpu, err := s.inTurns(ctx, many, few, s.semaphores, smaller)
	if err != nil {
		return "", nil, err
	}
	targets := []page.Target{
		{Figure: fmt.Sprintf("pairs/s of 16 clients, uniformly over %s semaphores, of the same over %s",
			page.Count(s.semaphores), page.Count(smaller)), Wanted: "at least 0.8", Limit: 0.8, Is: speed},
		{Figure: "server CPU for a pair, likewise", Wanted: "at most 1.2", Limit: 1.2, AtMost: true, Is: cpu},
	}
	stored, target, err := s.checkpoints(ctx, many, metrics)
	if err != nil {
		return "", nil, fmt.Errorf("checkpoints: %w", err)
	}
	return text + "\n" + stored, append(targets, target), nil
}

// inTurns returns what the speed and the processor time of a pair on many semaphores are of those on few.
func (s scale) inTurns(ctx context.Context, many, few *serverProcess, manyRows, fewRows int) (speed,
	cpu float64, err error) {
	var speeds, cpus []float64
	for round := range s.runs + 2 {
		var turns [2]turn
		for i := range turns {
			of := (round + i) % 2
			server, rows := many, manyRows
			if of == 1 {
				server, rows = few, fewRows
			}
			turns[of], err = contestant{process: server}.take(func(address string) (result,
				error) {
				return spread(ctx, address, rows, s.length)
			})
			if err != nil {
				return 0, 0, err
			}
		}
		speeds = append(speeds, turns[0].perSecond/turns[1].perSecond)
		cpus = append(cpus, turns[0].cpu.Seconds()/max(turns[1].cpu.Seconds(), 1e-9))
	}
	same := func(f float64) float64 { return f }
	return middle(speeds, same), middle(cpus, same), nil
}

// checkpointing reports whether a server is at work on a checkpoint: writes it, or brings its rows to their
// place.
func checkpointing(ctx context.Context, metrics string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, metrics, nil)
	if err != nil {
		return false, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "coordd_checkpoint_open "); ok {
			return value != "0", nil
		}
	}
	return false, errors.Join(lines.Err(),
		fmt.Errorf("%s says nothing of checkpoints: %s", metrics, answer.Status))
}

// settled waits until there has been no work on a checkpoint for two seconds, so that what was filled in is
// not measured.
func settled(ctx context.Context, metrics string) error {
	for quiet := 0; quiet < 2; quiet++ {
		time.Sleep(time.Second)
		switch open, err := checkpointing(ctx, metrics); {
		case err != nil:
			return err
		case open:
			quiet = -1
		}
	}
	return nil
}

// sample is one pair.
type sample struct {
	begun time.Time
	took  time.Duration
}

// Of the checkpoints that are measured.
const (
	wantedCheckpoints  = 4
	wantedPairs        = 1000 // meanwhile, for their 99th percentile to say anything
	checkpointPatience = 4 * time.Minute
	checkpointPoll     = 100 * time.Millisecond
)

// span is from when until when something was seen.
type span struct{ begun, done time.Time }

// checkpoints has busy clients lock and unlock, and as many others change the data of semaphores, together at
// half of what the server can, until it has worked on some checkpoints meanwhile; it compares the pairs during
// these with the others. A lock that was released leaves nothing to store, so without the changes the
// checkpoints would be empty.
func (s scale) checkpoints(ctx context.Context, server *serverProcess, metrics string) (string, page.Target,
	error) {
	most, err := spread(ctx, server.address, s.semaphores, s.length)
	if err != nil {
		return "", page.Target{}, err
	}
	if err := settled(ctx, metrics); err != nil {
		return "", page.Target{}, err
	}
	fmt.Fprintf(os.Stderr, "%s checkpoints\n", time.Now().UTC().Format(time.TimeOnly))
	// A change is one command, a pair are two: three in the time in which there could be six.
	period := time.Duration(busyClients / (most.perSecond / 3) * float64(time.Second))
	var over atomic.Bool
	samples, ended := make([][]sample, busyClients), make(chan error, 1)
	go func() {
		ended <- with(ctx, server.address, 2*busyClients, func(sessions []*raw.Session) error {
			return load.Together(sessions, func(i int, session *raw.Session) (err error) {
				if i < busyClients {
					samples[i], err = paced(period, &over, func() error { return pair(session, s.semaphores) })
				} else {
					_, err = paced(period, &over, func() error {
						return session.Update(rowName(rand.IntN(s.semaphores)), []byte(time.Now().String()))
					})
				}
				return err
			})
		})
	}()
	var spans []span
	begun, last := time.Now(), false
	for err == nil && time.Since(begun) < checkpointPatience && len(ended) == 0 {
		time.Sleep(checkpointPoll)
		var open bool
		open, err = checkpointing(ctx, metrics)
		switch now := time.Now(); {
		case open && !last:
			spans = append(spans, span{now.Add(-checkpointPoll), now})
		case open || last:
			spans[len(spans)-1].done = now
		}
		if last && !open && len(spans) == wantedCheckpoints {
			break
		}
		last = open
	}
	over.Store(true)
	if err := errors.Join(err, <-ended); err != nil {
		return "", page.Target{}, err
	}
	var during, otherwise []time.Duration
	for _, one := range slices.Concat(samples...) {
		end := one.begun.Add(one.took)
		if slices.ContainsFunc(spans, func(s span) bool {
			return one.begun.Before(s.done) && end.After(s.begun)
		}) {
			during = append(during, one.took)
		} else {
			otherwise = append(otherwise, one.took)
		}
	}
	target := page.Target{Figure: fmt.Sprintf("p99 of W1 while a checkpoint of a state of %s rows is stored, of p99 otherwise", page.Count(s.semaphores)),
		Wanted: "at most 1.5", Limit: 1.5, AtMost: true}
	if len(during) == 0 || len(otherwise) == 0 {
		target.Missing = fmt.Sprintf("no checkpoint within %v", checkpointPatience)
		return "No checkpoint was stored in time.\n", target, nil
	}
	var longest time.Duration
	for _, one := range spans {
		longest = max(longest, one.done.Sub(one.begun))
	}
	with99, without99 := machine.Percentile(during, 99), machine.Percentile(otherwise, 99)
	target.Is = with99.Seconds() / without99.Seconds()
	if len(during) < wantedPairs {
		target.Missing = fmt.Sprintf("only %d pairs fell into a checkpoint, %d are wanted", len(during),
			wantedPairs)
	}
	text := fmt.Sprintf("16 clients that lock and unlock, and 16 that change data, at half of what the server can, %s pairs/s and as many changes, uniformly over %s semaphores, while there was work on %d checkpoints (on the longest %.1f s):\n\n",
		page.Number(most.perSecond/3), page.Count(s.semaphores), len(spans), longest.Seconds())
	text += "| | pairs | p50 ms | p99 ms |\n| --- | --- | --- | --- |\n"
	for _, row := range []struct {
		name string
		took []time.Duration
	}{{"while a checkpoint is stored", during}, {"otherwise", otherwise}} {
		text += fmt.Sprintf("| %s | %s | %s | %s |\n", row.name, page.Count(len(row.took)),
			millis(machine.Percentile(row.took, 50)), millis(machine.Percentile(row.took, 99)))
	}
	return text, target, nil
}

// paced does something once in a period. What begins late, since the one before took so long, counts from when
// it was due.
func paced(period time.Duration, over *atomic.Bool, do func() error) ([]sample, error) {
	var samples []sample
	due := time.Now().Add(rand.N(period))
	for !over.Load() {
		begun := due
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
			begun = time.Now()
		}
		if err := do(); err != nil {
			return samples, err
		}
		samples = append(samples, sample{begun, time.Since(begun)})
		due = due.Add(period)
	}
	return samples, nil
}

// idleSessions measures beside more and more sessions that do nothing but answer pings.
func (s scale) idleSessions(ctx context.Context) (string, error) {
	server, _, err := s.start("sessions")
	if err != nil {
		return "", err
	}
	defer kill(server)
	if err := createNode(ctx, server.address); err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conns, err := raw.Dial(server.address, connections)
	if err != nil {
		return "", err
	}
	defer raw.Close(conns)
	var rows []grown
	made := 0
	for _, n := range upTo(10, s.sessions) {
		lost := make(chan error, n)
		// pings, until the end
		answer := func(session *raw.Session) { _, err := session.Receive(); lost <- err }
		if err := openEach(ctx, conns, n-made, 30_000, answer); err != nil {
			return "", err
		}
		made = n
		g, err := s.repeat(server, n, func() (result, error) {
			return runPairs(ctx, server.address, busyClients, s.length)
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
func (s scale) manyNodes(ctx context.Context) (string, error) {
	server, _, err := s.start("nodes")
	if err != nil {
		return "", err
	}
	defer kill(server)
	conns, err := raw.Dial(server.address, connections)
	if err != nil {
		return "", err
	}
	defer raw.Close(conns)
	path := func(i int) string { return fmt.Sprintf("/local/node-%06d", i) }
	var rows []grown
	made := 0
	for _, n := range upTo(1, s.nodes) {
		err := load.Together(conns, func(first int, conn *grpc.ClientConn) error {
			for i := made + first; i < n; i += len(conns) {
				if err := raw.CreateNode(ctx, conn, path(i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return "", err
		}
		made = n
		g, err := s.repeat(server, n, func() (result, error) {
			return pairsOfNodes(ctx, conns, func(i int) string { return path(i * n / busyClients) }, s.length)
		})
		if err != nil {
			return "", err
		}
		rows = append(rows, g)
	}
	return table("nodes", "pairs/s", rows), nil
}

// pairsOfNodes is W1 with a node for each of the busy clients.
func pairsOfNodes(ctx context.Context, conns []*grpc.ClientConn, path func(client int) string,
	duration time.Duration) (result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sessions := make([]*raw.Session, busyClients)
	names := load.Pairs.Semaphores("", busyClients)
	err := load.Together(sessions, func(i int, _ *raw.Session) (err error) {
		if sessions[i], err = raw.Open(ctx, conns[i%len(conns)],
			&raw.Start{Path: path(i), TimeoutMillis: 30_000}); err != nil {
			return err
		}
		return sessions[i].Create(names[i], 1)
	})
	if err != nil {
		return result{}, err
	}
	over, took := make(chan struct{}), new(load.Histogram)
	defer time.AfterFunc(duration, func() { close(over) }).Stop()
	elapsed, err := load.Run(load.Pairs, "", sessions, over, took)
	return result{float64(took.Count()) / elapsed.Seconds(), took.Percentile(50), took.Percentile(99),
		int(max(took.Count(), 1))}, err
}

// manyWaiters measures hand-overs of one semaphore among more and more sessions, all of which wait for it.
func (s scale) manyWaiters(ctx context.Context) (string, error) {
	server, _, err := s.start("waiters")
	if err != nil {
		return "", err
	}
	defer kill(server)
	if err := createNode(ctx, server.address); err != nil {
		return "", err
	}
	var rows []grown
	for _, n := range upTo(10, s.waiters) {
		var turns []turn
		for run := range s.runs {
			t, err := queue(ctx, server, fmt.Sprintf("queue-%d-%d", n, run), n, s.length)
			if err != nil {
				return "", fmt.Errorf("%d: %w", n, err)
			}
			turns = append(turns, t)
		}
		resident, err := server.resident()
		if err != nil {
			return "", err
		}
		rows = append(rows, grown{n, middle(turns, func(t turn) float64 { return t.perSecond }), resident})
	}
	return table("waiters", "hand-overs/s", rows), nil
}

// queue has n sessions hand a semaphore over, and counts from when all of them are in its queue. The times
// are those from when one has it, and lets go at once, to when the next one has it.
func queue(ctx context.Context, server *serverProcess, name string, n int, duration time.Duration) (turn,
	error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conns, err := raw.Dial(server.address, min(n, connections))
	if err != nil {
		return turn{}, err
	}
	defer raw.Close(conns)
	holders, err := openSessions(ctx, conns, 1, 10_000)
	if err != nil {
		return turn{}, err
	}
	holder := holders[0]
	if err := errors.Join(holder.Create(name, 1), holder.Acquire(name, 1)); err != nil {
		return turn{}, err
	}
	letGo, gone := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for waiting := true; waiting && err == nil; {
			select {
			case <-letGo:
				waiting, err = false, holder.Release(name)
			case <-time.After(time.Second / 4):
				err = holder.Create(name, 1) // it is there; pings are answered meanwhile
			}
		}
		gone <- err
	}()
	var handed, released atomic.Int64 // released is when the last one let go
	took := new(load.Histogram)
	queued := make(chan error, n)
	// Those that are still in the queue in the end vanish with their streams, which is why each run has a
	// semaphore of its own.
	err = openEach(ctx, conns, n, 10_000, func(s *raw.Session) {
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
			handed.Add(1)
			released.Store(time.Now().UnixNano())
			if err = s.Release(name); err == nil {
				err = s.Acquire(name, 1)
			}
		}
	})
	for range n {
		if err == nil {
			err = <-queued
		}
	}
	if err != nil {
		return turn{}, err
	}
	before, err := server.cpu()
	if err != nil {
		return turn{}, err
	}
	begun := time.Now()
	released.Store(begun.UnixNano())
	close(letGo)
	if err := <-gone; err != nil {
		return turn{}, err
	}
	time.Sleep(duration)
	steps, elapsed := handed.Load(), time.Since(begun)
	r := result{float64(steps) / elapsed.Seconds(), took.Percentile(50), took.Percentile(99),
		int(max(steps, 1))}
	after, err := server.cpu()
	if steps == 0 {
		err = errors.Join(err, errors.New("nothing was handed over"))
	}
	return turn{r, (after - before) / time.Duration(r.steps)}, err
}
