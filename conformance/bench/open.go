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
)

const (
	firstRate, mostRate = 500, 200_000 // requests a second among which the knee is sought
	kneeTurn            = 3 * time.Second
	generatorHeap       = 1 << 30 // bytes, below which the generator collects no garbage
)

// openRow is a row of the table.
type openRow struct {
	*openloop.Row
	server string
	probes machine.Probes
	floor  *openloop.Row // the null run at the same rate; nil of a null run itself
}

// measureOpen measures coordd at several rates, each after a null run: the same against the stub.
func (b *bench) measureOpen(ctx context.Context) error {
	runtime.GOMAXPROCS(runtime.NumCPU() + 2) // the generator's thread finds one free when it wakes
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(generatorHeap)
	t := newTurn(ctx)
	defer t.end()
	null, err := newSelf("stub").launchIn(t, filepath.Join(b.dir, "open"))
	if err != nil {
		return err
	}
	own, err := newCoordd("coordd", b.coordd).launchIn(t, filepath.Join(b.dir, "open"))
	if err != nil {
		return err
	}
	rates, knee, err := b.openRates(ctx, own)
	if err != nil {
		return err
	}
	var rows []openRow
	for _, rate := range rates {
		floor, err := b.openRow(ctx, null, rate, b.length, []float64{99.9})
		if err != nil {
			return fmt.Errorf("the null run at %.0f/s: %w", rate, err)
		}
		measured, err := b.openRow(ctx, own, rate, b.length, []float64{50, 99, 99.9})
		if err != nil {
			return fmt.Errorf("coordd at %.0f/s: %w", rate, err)
		}
		measured.floor = floor.Row
		rows = append(rows, floor, measured)
	}
	return b.publish("benchmarks.md", "open", fmt.Sprintf("%s Each row a run of %v, %d sessions, Poisson arrivals.\n\n%s%s",
		b.conditions(), b.length, b.n, knee, openTable(rows)))
}

// openRates returns the rates of the table: those of the flag, or parts of the server's knee, with a sentence about it.
func (b *bench) openRates(ctx context.Context, of *process) (rates []float64, knee string, err error) {
	if b.rates != "" {
		for _, text := range strings.Split(b.rates, ",") {
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
		row, err := b.openRow(ctx, of, rate, kneeTurn, nil)
		return row.Row, err
	})
	if err == nil && most == 0 {
		err = fmt.Errorf("even %d requests a second are beyond the knee: the machine is too busy", firstRate)
	}
	return []float64{0.1 * most, 0.5 * most, 0.8 * most},
		fmt.Sprintf("The knee, up to which p99 is below 10 x p50, is at %s requests a second.\n\n", page.Number(most)), err
}

// openRow is one run.
func (b *bench) openRow(ctx context.Context, of *process, rate float64, length time.Duration,
	reported []float64) (row openRow, err error) {
	row = openRow{Row: &openloop.Row{Rate: rate, Reported: reported}, server: of.product.name}
	if err := ctx.Err(); err != nil {
		return row, err
	}
	say(fmt.Sprintf("%s at %.0f/s", row.server, rate))
	if row.probes, err = machine.Probe(b.dir); err != nil {
		return row, err
	}
	b.openRuns++
	client, err := openloop.Open(of.address, nodePath, fmt.Sprint("open-", b.openRuns), b.n, min(b.n, connections))
	if err != nil {
		return row, err
	}
	defer client.Close()
	dues := openloop.Poisson(rate, length, uint64(b.openRuns))
	runtime.GC()
	before, err := spent(of)
	if err != nil {
		return row, err
	}
	begun := time.Now()
	if row.Took, row.Late, row.Unanswered, err = client.Run(dues); err != nil {
		return row, err
	}
	row.Length = time.Since(begun)
	after, err := spent(of)
	row.Spent = after.Since(before)
	return row, err
}

// spent is the processor time so far.
func spent(of *process) (s openloop.Spent, err error) {
	if s.Server, err = (servers{of}).cpu(); err != nil {
		return s, err
	}
	if s.Generator, err = machine.CPU(os.Getpid()); err != nil {
		return s, err
	}
	s.All, s.Steal, err = machine.Busy()
	return s, err
}

// openTable shows the rows. Of a void row no percentile is shown.
func openTable(rows []openRow) string {
	text := "| server | requests/s | p50 ms | p99 ms | p99.9 ms | longest ms | null run's p99.9 ms | " +
		"generator late by p50, p99, p99.9 ms | server, generator, others, stolen: cores | " +
		"write, fdatasync, sleep of 1 ms: p99 ms | |\n|" + strings.Repeat(" --- |", 11) + "\n"
	void := false
	for _, r := range rows {
		reasons := r.Void()
		verdict := "sound"
		if len(reasons) > 0 {
			void, verdict = true, "void: "+strings.Join(reasons, "; ")
		}
		text += fmt.Sprintf("| %s | %s |", r.server, page.Number(r.Rate))
		for _, p := range []float64{50, 99, 99.9, 100} {
			text += " " + unlessVoid(reasons, r.Took.Percentile(p)) + " |"
		}
		floor := ""
		if r.floor != nil {
			floor = unlessVoid(r.floor.Void(), r.floor.Took.Percentile(99.9))
		}
		cores := func(d time.Duration) float64 { return d.Seconds() / r.Length.Seconds() }
		text += fmt.Sprintf(" %s | %s, %s, %s | %.2f, %.2f, %.2f, %.2f | %s, %s, %s | %s |\n", floor,
			threeDigits(r.Late.Percentile(50)), threeDigits(r.Late.Percentile(99)),
			threeDigits(r.Late.Percentile(99.9)), cores(r.Spent.Server), cores(r.Spent.Generator), r.Others(),
			cores(r.Spent.Steal), threeDigits(r.probes.Write), threeDigits(r.probes.Sync),
			threeDigits(r.probes.Sleep), verdict)
	}
	if void {
		text += "\nA row that is void says nothing about the server: make this table on a quiet machine.\n"
	}
	return text
}

// unlessVoid is a figure of a row.
func unlessVoid(reasons []string, d time.Duration) string {
	if len(reasons) > 0 {
		return "void"
	}
	return threeDigits(d)
}
