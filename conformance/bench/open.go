package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/coordd/coordd/conformance/bench/machine"
	"github.com/coordd/coordd/conformance/bench/openloop"
	"github.com/coordd/coordd/conformance/bench/page"
	"github.com/coordd/coordd/internal/load"
)

const (
	firstRate, mostRate = 500, 200_000 // requests a second among which the knee is sought
	kneeTurn            = 3 * time.Second
	generatorHeap       = 1 << 30 // bytes, below which the generator collects no garbage
	commonRate          = 1000    // requests a second, at which the systems are compared
	// A server that has just got its rows lets its heap grow at first: each page of memory that it has not had before
	// costs it a visit to the system. It gets so many requests a second until it has collected garbage.
	warmRate, warmTurn = 30_000, 15 * time.Second
)

// openCell is one measurement.
type openCell struct {
	name    string
	product string
	servers int
	rows    int     // beside which it is
	rate    float64 // requests a second; below 1 a part of the product's own knee on so many servers
	beside  *disturbance
}

// openCells lists the cells of the page. Those with the same servers follow each other: these stay.
func (b *bench) openCells() (cells []openCell) {
	for _, product := range []string{ours, etcd, zoo, redisOf} {
		cells = append(cells, openCell{"one server", product, 1, 0, commonRate, nil})
		if product == ours {
			cells = append(cells, openCell{"10 % of the knee", product, 1, 0, 0.1, nil},
				openCell{"25 % of the knee", product, 1, 0, 0.25, nil})
		}
		cells = append(cells, openCell{"half of the knee", product, 1, 0, 0.5, nil})
		if product == ours {
			cells = append(cells, openCell{"80 % of the knee", product, 1, 0, 0.8, nil})
		}
		if product == ours || product == etcd {
			cells = append(cells, openCell{"beside a buffered writer", product, 1, 0, commonRate, &buffered},
				openCell{"beside a writer that syncs", product, 1, 0, commonRate, &syncing})
		}
	}
	for _, product := range []string{ours, etcd} {
		cells = append(cells, openCell{"three servers", product, clusterSize, 0, commonRate, nil},
			openCell{"the leader moves each 5 s", product, clusterSize, 0, commonRate, &moving},
			openCell{"a follower stands still half of the time", product, clusterSize, 0, commonRate, &slowFollower},
			openCell{"a follower restarts each 10 s", product, clusterSize, 0, commonRate, &restarts})
	}
	return append(cells, openCell{"with rows: 25 % of the knee", ours, 1, b.rows, 0.25, nil},
		openCell{"with rows: half of the knee", ours, 1, b.rows, 0.5, nil},
		openCell{"with rows: beside checkpoints", ours, 1, b.rows, 0.25, &checkpointed})
}

// openRow is a row of the table.
type openRow struct {
	*openloop.Row
	cell   openCell
	probes machine.Probes
	floor  *openloop.Row // the null run at the same rate
	probe  load.Times    // of a program beside the cell that only writes and syncs
	parts  []openPart    // of the requests, by what went on meanwhile
}

// openPart is a part of the requests.
type openPart struct {
	name string
	took load.Times
}

// measureOpen measures cells, each beside a null run: the same against the stub with the log.
func (b *bench) measureOpen(ctx context.Context) error {
	runtime.GOMAXPROCS(runtime.NumCPU() + 2) // the generator's thread finds one free when it wakes
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(generatorHeap)
	t := newTurn(ctx)
	defer t.end()
	null, err := newSelf("stub", true).launchIn(t, filepath.Join(b.dir, "open"))
	if err != nil {
		return err
	}
	o := &openBench{bench: b, null: null, floors: make(map[float64]*openloop.Row), knees: make(map[string]float64)}
	defer o.end()
	for _, cell := range b.openCells() {
		if !selection(b.only)(cell.name) || !selection(b.peers)(cell.product) && cell.product != ours {
			continue
		}
		if err := o.measure(ctx, cell); err != nil && ctx.Err() == nil {
			b.failed(cell.name, cell.product, err)
			o.end()
		} else if err != nil {
			return err
		}
	}
	return b.publish("benchmarks.md", "open", fmt.Sprintf(
		"%s Each row a run of %v, %d sessions, Poisson arrivals; the rows are %s semaphores. The knees, requests a "+
			"second, by system and number of servers: %s.\n\n%s\n%s\n%s",
		b.conditions(), b.length, b.n, page.Count(b.rows), strings.Trim(fmt.Sprint(o.knees), "map[]"),
		compared(o.rows, b.n), openTable(o.rows), page.Targets(openTargets(o.rows))))
}

// openTargets lists the targets and whether each was reached.
func openTargets(rows []openRow) (all []page.Target) {
	late := false // in one of the figures that come next
	at := func(name, product string, p float64) time.Duration {
		for _, r := range rows {
			if r.cell.name == name && r.cell.product == product && len(r.Void()) == 0 {
				late = late || r.AtMost(p)
				return r.Took.Percentile(p)
			}
		}
		return 0
	}
	add := func(figure string, limit float64, of, to time.Duration) {
		t := page.Target{Figure: figure, Limit: limit, AtMost: true, Is: of.Seconds() / to.Seconds()}
		if of == 0 || to == 0 {
			t.Missing = "void, or not in this run"
		} else if late {
			t.Figure += " (the generator was late)"
		}
		late = false
		all = append(all, t)
	}
	for _, rows := range []string{"", "with rows: "} {
		for _, load := range []struct {
			name  string
			limit float64
		}{{"25 % of the knee", 2.5}, {"half of the knee", 4}} {
			add(rows+load.name+": p99 of p50", load.limit, at(rows+load.name, ours, 99), at(rows+load.name, ours, 50))
		}
		add(rows+"half of the knee: p99.9 of p50", 12, at(rows+"half of the knee", ours, 99.9),
			at(rows+"half of the knee", ours, 50))
	}
	for _, p := range []float64{99, 99.9} {
		add(fmt.Sprintf("half of the knee: p%g with rows, of that without", p), 1.3,
			at("with rows: half of the knee", ours, p), at("half of the knee", ours, p))
		for _, name := range []string{"one server", "three servers"} {
			add(fmt.Sprintf("%s, %d requests a second: p%g of etcd's", name, commonRate, p), 0.5, at(name, ours, p),
				at(name, etcd, p))
		}
	}
	var parts [3]time.Duration
	for _, r := range rows {
		if len(r.Void()) > 0 || r.cell.product != ours {
			continue
		}
		if len(r.probe) > 0 {
			add(r.cell.name+": p99 of that of a program that writes and syncs", 1.5, at(r.cell.name, ours, 99),
				r.probe.Percentile(99))
		}
		for i, part := range r.parts {
			parts[i] = part.took.Percentile(99)
		}
	}
	add("with rows: while a checkpoint is stored: p99 of that otherwise", 1.5, parts[0], parts[2])
	return all
}

// openBench measures cells.
type openBench struct {
	*bench
	null    *process
	turn    *turn // of the servers that run, nil without any
	present openCell
	servers servers
	floors  map[float64]*openloop.Row
	knees   map[string]float64 // by product and number of servers
	rows    []openRow
}

func (o *openBench) end() {
	if o.turn != nil {
		o.turn.end()
		o.turn = nil
	}
}

// start starts the servers of a cell, unless they run.
func (o *openBench) start(ctx context.Context, cell openCell) (err error) {
	if o.turn != nil && cell.product == o.present.product && cell.servers == o.present.servers &&
		cell.rows == o.present.rows {
		return nil
	}
	o.end()
	product := map[string]*product{ours: newCoordd("coordd", o.coordd), etcd: newEtcd(o.etcd),
		zoo: newZooKeeper(o.java, o.jars), redisOf: newRedis(o.redis)}[cell.product]
	if product.absent != "" {
		return fmt.Errorf("%s", product.absent)
	}
	o.turn, o.present = newTurn(ctx), cell
	dir, err := os.MkdirTemp(o.dir, "open-")
	if err != nil {
		return err
	}
	o.turn.later(func() { _ = os.RemoveAll(dir) })
	if o.servers, err = product.launch(o.turn, dir, cell.servers); err != nil {
		return err
	}
	o.turn.later(o.servers.kill)
	if cell.rows > 0 {
		if err = rawRows(ctx, o.servers[0].address, 0, cell.rows); err == nil {
			err = settled(ctx, o.servers[0].metrics)
		}
		if err == nil {
			err = o.warmUp(ctx)
		}
	}
	return err
}

// warmUp asks a server until it has collected garbage.
func (o *openBench) warmUp(ctx context.Context) error {
	collections := func() (float64, error) {
		return value(ctx, "http://"+o.servers[0].metrics+"/metrics", "go_gc_duration_seconds_count ")
	}
	begun, err := collections()
	for now := begun; err == nil && now == begun; now, err = collections() {
		if _, err = o.run(ctx, openCell{"warm-up", ours, 1, 0, warmRate, nil}, o.servers, warmTurn); err != nil {
			return err
		}
	}
	return err
}

// measure measures a cell.
func (o *openBench) measure(ctx context.Context, cell openCell) error {
	if err := o.start(ctx, cell); err != nil {
		return err
	}
	if cell.rate < 1 {
		knee, err := o.knee(ctx, cell)
		if err != nil {
			return err
		}
		cell.rate = math.Round(cell.rate * knee)
	}
	floor := o.floors[cell.rate]
	if floor == nil {
		row, err := o.run(ctx, openCell{name: "null run", product: bare, rate: cell.rate}, servers{o.null}, o.length)
		if err != nil {
			return fmt.Errorf("the null run at %.0f/s: %w", cell.rate, err)
		}
		floor, o.floors[cell.rate] = row.Row, row.Row
	}
	row, err := o.run(ctx, cell, o.servers, o.length)
	row.floor = floor
	o.rows = append(o.rows, row)
	return err
}

// knee returns the knee of a cell's product on so many servers, without rows.
func (o *openBench) knee(ctx context.Context, cell openCell) (float64, error) {
	key := fmt.Sprintf("%s, %d", cell.product, cell.servers)
	if o.knees[key] > 0 {
		return o.knees[key], nil
	}
	plain := openCell{name: "knee", product: cell.product}
	most, err := openloop.Knee(firstRate, mostRate, func(rate float64) (*openloop.Row, error) {
		plain.rate = rate
		row, err := o.run(ctx, plain, o.servers, kneeTurn)
		return row.Row, err
	})
	if err == nil && most == 0 {
		err = fmt.Errorf("even %d requests a second are beyond the knee: the machine is too busy", firstRate)
	}
	if err == nil {
		o.knees[key] = math.Round(most)
	}
	return most, err
}

// compared shows the systems at the same rate, in the columns of the table of peers.
func compared(rows []openRow, n int) string {
	text := "| | n | | stub | coordd, raw | coordd, Go SDK | etcd | ZooKeeper | Redis |\n|" +
		strings.Repeat(" --- |", 9) + "\n"
	for _, p := range []float64{50, 99, 99.9} {
		cells := make(map[string]string)
		for _, r := range rows {
			if r.cell.name == "one server" {
				cells[r.cell.product], cells[bare] = figure(r.Row, p), figure(r.floor, p)
			}
		}
		text += fmt.Sprintf("| Open loop, %s/s | %d | p%g ms | %s | %s | | %s | %s | %s |\n", page.Count(commonRate), n,
			p, cells[bare], cells[ours], cells[etcd], cells[zoo], cells[redisOf])
	}
	return text
}

// run is one run.
func (o *openBench) run(ctx context.Context, cell openCell, of servers,
	length time.Duration) (row openRow, err error) {
	row = openRow{Row: &openloop.Row{Rate: cell.rate}, cell: cell}
	if err := ctx.Err(); err != nil {
		return row, err
	}
	say(fmt.Sprintf("%s, %s at %.0f/s", cell.product, cell.name, cell.rate))
	if row.probes, err = machine.Probe(o.dir); err != nil {
		return row, err
	}
	t := newTurn(ctx)
	defer t.end()
	at := of[0]
	if len(of) > 1 {
		leader, err := of.leader(ctx)
		if err != nil {
			return row, err
		}
		at = of[leader]
	}
	protocol, err := o.protocol(t, cell, at.address)
	if err != nil {
		return row, err
	}
	o.openRuns++
	client, err := openloop.Open(protocol, at.address, fmt.Sprint("open-", o.openRuns), o.n, min(o.n, connections))
	if err != nil {
		return row, err
	}
	defer client.Close()
	dues := openloop.Poisson(cell.rate, length, uint64(o.openRuns))
	beside, err := o.disturb(t, cell, of)
	if err != nil {
		return row, err
	}
	runtime.GC()
	before, err := spent(of, beside)
	if err != nil {
		return row, err
	}
	begun := time.Now()
	if row.Took, row.Late, row.Unanswered, err = client.Run(dues); err != nil {
		return row, err
	}
	row.probe, row.parts = beside.end(client.Each(), begun)
	row.Length = time.Since(begun)
	after, err := spent(of, beside)
	row.Spent = after.Since(before)
	row.Spent.Server += beside.ended
	return row, err
}

// protocol returns how a product is asked.
func (o *openBench) protocol(t *turn, cell openCell, address string) (openloop.Protocol, error) {
	switch cell.product {
	case etcd:
		c, err := dialEtcd(address)
		if err != nil {
			return nil, err
		}
		t.later(func() { _ = c.Close() })
		session, err := concurrency.NewSession(c, concurrency.WithTTL(int(busySession.Seconds())),
			concurrency.WithContext(t)) // it keeps the lease
		if err != nil {
			return nil, err
		}
		return openloop.Etcd(int64(session.Lease())), nil
	case zoo:
		return openloop.ZooKeeper, nil
	case redisOf:
		return openloop.Redis, nil
	}
	return openloop.Coordd(nodePath), nil
}

// spent is the processor time so far.
func spent(of servers, beside *beside) (s openloop.Spent, err error) {
	if s.Server, err = of.cpu(); err != nil {
		return s, err
	}
	if s.Generator, err = machine.CPU(os.Getpid()); err != nil {
		return s, err
	}
	if s.Beside, err = beside.cpu(); err != nil {
		return s, err
	}
	s.All, s.Steal, err = machine.Busy()
	return s, err
}

// openTable shows the rows. Of a void row no percentile is shown, and of a late generator's one that it is a bound.
func openTable(rows []openRow) string {
	text := "| | | requests/s | p50 ms | p99 ms | p99.9 ms | longest ms | p99 of p50 | " +
		"null run's p50, p99, p99.9 ms | generator late by p50, p99, p99.9 ms | " +
		"server, generator, others, stolen: cores | write, fdatasync, sleep of 1 ms: p99 ms | |\n|" +
		strings.Repeat(" --- |", 13) + "\n"
	void, parts := false, ""
	for _, r := range rows {
		reasons := r.Void()
		verdict := "sound"
		if len(reasons) > 0 {
			void, verdict = true, "void: "+strings.Join(reasons, "; ")
		}
		text += fmt.Sprintf("| %s | %s | %s |", r.cell.name, r.cell.product, page.Number(r.Rate))
		for _, p := range []float64{50, 99, 99.9, 100} {
			text += " " + figure(r.Row, p) + " |"
		}
		floor, shape := "", ""
		if r.floor != nil {
			floor = figure(r.floor, 50) + ", " + figure(r.floor, 99) + ", " + figure(r.floor, 99.9)
		}
		if p50 := r.Took.Percentile(50); p50 > 0 && len(reasons) == 0 {
			shape = fmt.Sprintf("%.1f", float64(r.Took.Percentile(99))/float64(p50))
		}
		cores := func(d time.Duration) float64 { return d.Seconds() / r.Length.Seconds() }
		text += fmt.Sprintf(" %s | %s | %s, %s, %s | %.2f, %.2f, %.2f, %.2f | %s, %s, %s | %s |\n", shape, floor,
			threeDigits(r.Late.Percentile(50)), threeDigits(r.Late.Percentile(99)),
			threeDigits(r.Late.Percentile(99.9)), cores(r.Spent.Server), cores(r.Spent.Generator), r.Others(),
			cores(r.Spent.Steal), threeDigits(r.probes.Write), threeDigits(r.probes.Sync),
			threeDigits(r.probes.Sleep), verdict)
		if len(r.probe) > 0 {
			parts += partRow(r.cell, "a program that writes and syncs each 5 ms", r.probe)
		}
		for _, p := range r.parts {
			parts += partRow(r.cell, p.name, p.took)
		}
	}
	if parts != "" {
		text += "\nBeside these rows, and parts of them:\n\n| | | | of | p50 ms | p99 ms | p99.9 ms | longest ms |\n|" +
			strings.Repeat(" --- |", 8) + "\n" + parts
	}
	if void {
		text += "\nA row that is void says nothing about the server: make this table on a quiet machine.\n"
	}
	return text
}

func partRow(cell openCell, name string, took load.Times) string {
	text := fmt.Sprintf("| %s | %s | %s | %s |", cell.name, cell.product, name, page.Count(len(took)))
	for _, p := range []float64{50, 99, 99.9, 100} {
		text += " " + threeDigits(took.Percentile(p)) + " |"
	}
	return text + "\n"
}

// figure is a percentile of a row.
func figure(r *openloop.Row, p float64) string {
	switch {
	case len(r.Void()) > 0:
		return "void"
	case r.AtMost(p):
		return "≤ " + threeDigits(r.Took.Percentile(p))
	}
	return threeDigits(r.Took.Percentile(p))
}
