package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/conformance/bench/machine"
	"github.com/coordd/coordd/conformance/bench/openloop"
	"github.com/coordd/coordd/conformance/bench/page"
	"github.com/coordd/coordd/conformance/load"
)

const (
	firstRate, mostRate = 500, 200_000 // requests a second among which the knee is sought
	kneeTurn            = 3 * time.Second
	generatorHeap       = 1 << 30 // bytes, below which the generator collects no garbage
)

// kneeShares are the parts of its knee at which a server is measured.
var kneeShares = []float64{0.1, 0.5, 0.8}

// openRun measures servers with requests that are due at given times.
type openRun struct {
	*bench
	sessions int
	fixed    bool
	runs     int // so far, each of which has semaphores of its own
}

// openRow is a row of the table.
type openRow struct {
	*openloop.Row
	server string
	probes machine.Probes
	floor  *openloop.Row // the null run at the same rate; nil of a null run itself
}

// measureOpen measures coordd at several rates, each after a null run: the same against the stub.
func (b *bench) measureOpen(ctx context.Context, o *settings) error {
	runtime.GOMAXPROCS(runtime.NumCPU() + 2) // the generator's thread finds one free when it wakes
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(generatorHeap)
	t := newTurn(ctx)
	defer t.end()
	null, err := newSelf("stub", attachOnce).launch(t, filepath.Join(b.dir, "open"), 1)
	if err != nil {
		return err
	}
	t.later(null.kill)
	own, err := newCoordd("coordd", b.coordd).launch(t, filepath.Join(b.dir, "open"), 1)
	if err != nil {
		return err
	}
	t.later(own.kill)
	r := &openRun{bench: b, sessions: o.n, fixed: o.fixed}
	rates, knee, err := r.rates(ctx, own, o.rates)
	if err != nil {
		return err
	}
	var rows []openRow
	for _, rate := range rates {
		floor, err := r.row(ctx, null, rate, b.length, []float64{99.9})
		if err != nil {
			return fmt.Errorf("the null run at %.0f/s: %w", rate, err)
		}
		measured, err := r.row(ctx, own, rate, b.length, []float64{50, 99, 99.9})
		if err != nil {
			return fmt.Errorf("coordd at %.0f/s: %w", rate, err)
		}
		measured.floor = floor.Row
		rows = append(rows, floor, measured)
	}
	arrivals := "Poisson arrivals"
	if o.fixed {
		arrivals = "equal distances"
	}
	text := fmt.Sprintf("%s Each row a run of %v, %d sessions, %s.\n\n%s%s", b.conditions(), b.length, o.n, arrivals,
		knee, openTable(rows))
	fmt.Println(text)
	if o.page == "" {
		return nil
	}
	return page.Replace(o.page, "open", text)
}

// rates returns the rates of the table: those of a list, or parts of the server's knee, with a sentence about it.
func (r *openRun) rates(ctx context.Context, of servers, list string) (rates []float64, knee string, err error) {
	if list != "" {
		for _, text := range strings.Split(list, ",") {
			rate, err := strconv.ParseFloat(text, 64)
			if err != nil || rate <= 0 {
				return nil, "", fmt.Errorf("-rates: %q is no rate", text)
			}
			rates = append(rates, rate)
		}
		return rates, "", nil
	}
	say("the knee")
	most, err := openloop.Knee(firstRate, mostRate, func(rate float64) (*openloop.Row, error) {
		row, err := r.row(ctx, of, rate, kneeTurn, nil)
		return row.Row, err
	})
	if err != nil {
		return nil, "", err
	}
	if most == 0 {
		return nil, "", fmt.Errorf("even %d requests a second are beyond the knee: the machine is too busy", firstRate)
	}
	for _, share := range kneeShares {
		rates = append(rates, share*most)
	}
	return rates, fmt.Sprintf("The knee, up to which p99 is below 10 x p50, is at %s requests a second.\n\n",
		page.Number(most)), nil
}

// row is one run.
func (r *openRun) row(ctx context.Context, of servers, rate float64, length time.Duration,
	reported []float64) (openRow, error) {
	if err := ctx.Err(); err != nil {
		return openRow{}, err
	}
	say(fmt.Sprintf("%s at %.0f/s", of[0].name, rate))
	probes, err := machine.Probe(r.dir)
	if err != nil {
		return openRow{}, err
	}
	r.runs++
	client, err := openloop.Open(of[0].address, nodePath, fmt.Sprint("open-", r.runs), r.sessions,
		min(r.sessions, connections))
	if err != nil {
		return openRow{}, err
	}
	defer client.Close()
	dues := openloop.Poisson(rate, length, uint64(r.runs))
	if r.fixed {
		dues = openloop.Fixed(rate, length)
	}
	runtime.GC()
	before, err := spent(of)
	if err != nil {
		return openRow{}, err
	}
	begun := time.Now()
	row := &openloop.Row{Rate: rate, Reported: reported}
	if row.Took, row.Late, row.Unanswered, err = client.Run(dues); err != nil {
		return openRow{}, err
	}
	row.Length = time.Since(begun)
	after, err := spent(of)
	row.Spent = after.Since(before)
	return openRow{Row: row, server: of[0].name, probes: probes}, err
}

// spent is the processor time so far.
func spent(of servers) (s openloop.Spent, err error) {
	if s.Server, err = of.cpu(); err != nil {
		return s, err
	}
	if s.Generator, err = machine.CPU(os.Getpid()); err != nil {
		return s, err
	}
	s.All, s.Steal, err = machine.Busy()
	return s, err
}

// openTable shows the rows, and how late the generator was in each. Of a void row no percentile is shown.
func openTable(rows []openRow) string {
	var table, late strings.Builder
	table.WriteString("| server | requests/s | p50 ms | p99 ms | p99.9 ms | longest ms | null run's p99.9 ms | generator late by p50, p99, p99.9 ms | server, generator, others, stolen: cores | write, fdatasync, sleep of 1 ms: p99 ms | |\n" +
		"|" + strings.Repeat(" --- |", 11) + "\n")
	void := false
	for _, r := range rows {
		reasons := r.Void()
		verdict := "sound"
		if len(reasons) > 0 {
			void, verdict = true, "void: "+strings.Join(reasons, "; ")
		}
		fmt.Fprintf(&table, "| %s | %s |", r.server, page.Number(r.Rate))
		for _, p := range []float64{50, 99, 99.9, 100} {
			fmt.Fprintf(&table, " %s |", unlessVoid(reasons, r.Took.Percentile(p)))
		}
		floor := ""
		if r.floor != nil {
			floor = unlessVoid(r.floor.Void(), r.floor.Took.Percentile(99.9))
		}
		fmt.Fprintf(&table, " %s | %s, %s, %s | %.2f, %.2f, %.2f, %.2f | %s, %s, %s | %s |\n", floor,
			threeDigits(r.Late.Percentile(50)), threeDigits(r.Late.Percentile(99)),
			threeDigits(r.Late.Percentile(99.9)), r.cores(r.Spent.Server), r.cores(r.Spent.Generator), r.Others(),
			r.cores(r.Spent.Steal), threeDigits(r.probes.Write), threeDigits(r.probes.Sync),
			threeDigits(r.probes.Sleep), verdict)
		fmt.Fprintf(&late, "%s, %s/s: %s\n", r.server, page.Number(r.Rate), latenessOf(r.Late))
	}
	text := table.String()
	if void {
		text += "\nA row that is void says nothing about the server: make this table on a quiet machine.\n"
	}
	return text + "\nHow late the requests were sent, and how many of them up to so much:\n\n```\n" + late.String() + "```\n"
}

func (r *openRow) cores(d time.Duration) float64 { return d.Seconds() / r.Length.Seconds() }

// unlessVoid is a figure of a row.
func unlessVoid(reasons []string, d time.Duration) string {
	if len(reasons) > 0 {
		return "void"
	}
	return threeDigits(d)
}

// latenessOf is a histogram in powers of two.
func latenessOf(late *load.Histogram) string {
	var parts []string
	counted := uint64(0)
	for bound := 16 * time.Microsecond; counted < late.Count(); bound *= 2 {
		if n := late.CountUpTo(bound); n > counted {
			parts = append(parts, fmt.Sprintf("%v %d", bound, n-counted))
			counted = n
		}
	}
	return strings.Join(parts, ", ")
}
