package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/coordd/coordd/conformance/bench/machine"
	"github.com/coordd/coordd/conformance/bench/page"
)

// head says when, where and how long a run was, and of what its figures are the median.
func (b *bench) head() string {
	return fmt.Sprintf("%s Median of %d rounds of %v.\n\n", b.conditions(), b.runs, b.length)
}

func (b *bench) conditions() string {
	return fmt.Sprintf("%s, %d processors: %s; %s. Load before the run %s, the run took %v.",
		b.began.UTC().Format("2006-01-02 15:04 UTC"), runtime.NumCPU(), machine.String(), runtime.Version(),
		b.loadBefore, time.Since(b.began).Round(time.Second))
}

// publish prints a text, and writes it between the marks of a name in a page below docs, if that is given.
func (b *bench) publish(file, name, text string) error {
	fmt.Println(text)
	if b.docs == "" {
		return nil
	}
	return page.Replace(filepath.Join(b.docs, file), name, text)
}

// compared is the text of a comparison that no page has between marks: the medians, and ratios to one contestant.
func (b *bench) compared(to string) error {
	fmt.Println(b.head() + b.book.table() + "\nOf " + to + ":\n\n" + b.book.ratios(to))
	return b.failure()
}

// report is the text of a page about the run.
func (b *bench) report(products []*product) string {
	var versions []string
	for _, p := range products {
		if p.absent != "" {
			versions = append(versions, p.name+" not measured ("+p.absent+")")
		} else if v := p.versions(); v != "" {
			versions = append(versions, v)
		}
	}
	text := b.head() + "Versions: " + strings.Join(versions, "; ") + "; Go SDK " +
		moduleVersion("github.com/ydb-platform/ydb-go-sdk/v3") + ".\n\n"
	if sync, stream, measured := b.floors(); measured {
		text += fmt.Sprintf("Floor: %s %s ms, %s %s ms.\n\n", floorSync, page.Number(sync), floorStream,
			page.Number(stream))
	}
	text += b.book.table()
	for _, f := range b.failures {
		text += fmt.Sprintf("\nFailed: %s.\n", f)
	}
	return text + "\nEvery run, in the order of the rounds:\n\n```\n" + b.book.runs() + "```\n"
}

// floors returns the milliseconds of a durable write and of a round trip.
func (b *bench) floors() (sync, stream float64, measured bool) {
	sync, _ = b.book.median(cell{floorSync, 1, floorFigure}, floor)
	stream, measured = b.book.median(cell{floorStream, 1, floorFigure}, floor)
	return sync, stream, measured
}

// targets lists the targets and whether each was reached.
func (b *bench) targets() []page.Target {
	var all []page.Target
	add := func(figure string, limit float64, atMost bool, is float64, measured bool) {
		t := page.Target{Figure: figure, Limit: limit, AtMost: atMost, Is: is}
		if !measured {
			t.Missing = "not in this run"
			for name, why := range b.book.missing {
				if strings.Contains(figure, name) {
					t.Missing = why
				}
			}
		}
		all = append(all, t)
	}
	const atLeast, atMost = false, true
	ratio := func(figure string, limit float64, atMost bool, c cell, of, to string) {
		r, measured := b.book.ratio(c, of, to)
		add(figure, limit, atMost, r, measured)
	}
	for _, n := range []int{16, 64, 256} {
		ratio(fmt.Sprintf("W1 raw, %d clients, of the stub's pairs/s", n), 0.9, atLeast,
			cell{w1, n, pairsFigure}, ours, bare)
		ratio(fmt.Sprintf("W1 raw, %d clients, server CPU for a pair, of the stub's", n), 1.25, atMost,
			cell{w1, n, cpuFigure}, ours, bare)
	}
	for _, n := range []int{64, 256} {
		// pairs for a second are the inverse of seconds for a pair
		ratio(fmt.Sprintf("W1 raw, %d clients, pairs per CPU-second of the server, of Redis'", n), 0.8, atLeast,
			cell{w1, n, cpuFigure}, redisOf, ours)
		ratio(fmt.Sprintf("W1 Go SDK, %d clients, of etcd's Go client's pairs/s", n), 3, atLeast,
			cell{w1, n, pairsFigure}, oursSDK, etcd)
	}
	ratio("W1 raw, 1 client, p50 of the stub's", 1.15, atMost, cell{w1, 1, p50Figure}, ours, bare)
	ratio("W1 raw, 1 client, p50 of Redis'", 1.35, atMost, cell{w1, 1, p50Figure}, ours, redisOf)
	for _, workload := range []string{w1Leader, w1Follower1, w1Follower2} {
		limit := 0.65
		if workload == w1Leader {
			limit = 0.5
		}
		ratio(workload+", 1 client, p50 of etcd's", limit, atMost, cell{workload, 1, p50Figure}, ours, etcd)
		ratio(workload+", 1 client, p99 of etcd's", 1, atMost, cell{workload, 1, p99Figure}, ours, etcd)
	}
	for _, n := range []int{8, 64} {
		ratio(fmt.Sprintf("W2 raw, %d clients, of the stub's hand-overs/s", n), 0.6, atLeast,
			cell{w2, n, handsFigure}, ours, bare)
	}
	ratio("W3 raw, 1,000 watchers, time of the stub's", 1.1, atMost, cell{w3, watchers, toldFigure}, ours, bare)
	for _, c := range []cell{{w3, watchers, toldFigure}, {w3, 10 * watchers, toldFigure},
		{w3Each, watchers, toldFigure}} {
		ratio(fmt.Sprintf("%s, raw, %s: time of etcd's", c.workload, page.Count(c.n)), 1, atMost, c, ours, etcd)
	}
	ratio("W5 raw, 1,000 members, of the stub's lists/s", 1, atLeast, cell{w5, members, listsFigure}, ours, bare)
	bytes, measured := b.book.median(cell{w4, b.idle, bytesFigure}, ours)
	add(fmt.Sprintf("W4, %s idle sessions, server bytes each", page.Count(b.idle)), 12<<10, atMost, bytes, measured)
	ratio("W4, server CPU, of etcd's", 1, atMost, cell{w4, b.idle, shareFigure}, ours, etcd)
	ratio("W7, longest silence of a client, of etcd's", 1, atMost, cell{w7, roamers, silentFigure}, ours, etcd)
	again, measured := b.book.median(cell{w8, b.rows, againFigure}, ours)
	add("W8, s until the first answer after a kill", 2, atMost, again, measured)
	ratio("W8, the same, of etcd's", 0.5, atMost, cell{w8, b.rows, againFigure}, ours, etcd)
	return all
}
