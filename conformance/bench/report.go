package main

import (
	"fmt"
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

// report is the text of a page about the run.
func (b *bench) report(products []*product) string {
	var s strings.Builder
	s.WriteString(b.head() + "Versions: ")
	var versions []string
	for _, p := range products {
		if p.absent != "" {
			versions = append(versions, p.name+" not measured ("+p.absent+")")
		} else if v := p.version(); v != "" {
			versions = append(versions, v)
		}
	}
	s.WriteString(strings.Join(versions, "; ") + "; Go SDK " +
		moduleVersion("github.com/ydb-platform/ydb-go-sdk/v3") + ".\n\n")
	sync, measured := b.book.median(cell{floorSync, 1, floorFigure}, floor)
	stream, _ := b.book.median(cell{floorStream, 1, floorFigure}, floor)
	if measured {
		fmt.Fprintf(&s, "Floor: %s %s ms, %s %s ms.\n\n", floorSync, page.Number(sync), floorStream,
			page.Number(stream))
	}
	s.WriteString(b.book.table())
	for _, f := range b.failures {
		fmt.Fprintf(&s, "\nFailed: %s.\n", f)
	}
	s.WriteString("\nEvery run, in the order of the rounds:\n\n```\n" + b.book.runs() + "```\n")
	return s.String()
}

// targets says what was to be reached, and whether it was.
func (b *bench) targets() []page.Target {
	var all []page.Target
	add := func(t page.Target, is float64, measured bool) {
		t.Is = is
		if !measured && t.Missing == "" {
			t.Missing = "not in this run"
			for name, why := range b.book.missing {
				if strings.Contains(t.Figure+t.Wanted, name) {
					t.Missing = why
				}
			}
		}
		all = append(all, t)
	}
	ratio := func(t page.Target, c cell, of, to string) {
		r, measured := b.book.ratio(c, of, to)
		add(t, r, measured)
	}
	for _, n := range []int{64, 256} {
		ratio(page.Target{Figure: fmt.Sprintf("W1 raw, %d clients, of the stub's pairs/s", n),
			Wanted: "at least 0.9", Limit: 0.9}, cell{w1, n, pairsFigure}, ours, bare)
	}
	for _, n := range []int{64, 256} {
		// pairs for a second are the inverse of seconds for a pair
		r, measured := b.book.ratio(cell{w1, n, cpuFigure}, redisOf, ours)
		t := page.Target{Figure: fmt.Sprintf("W1 raw, %d clients, pairs per CPU-second of the server, of Redis'", n), Wanted: "at least 0.8", Limit: 0.8}
		if throughput, measured := b.book.ratio(cell{w1, n, pairsFigure}, ours, redisOf); measured {
			t.Note = "pairs/s " + page.Number(throughput) + " of Redis'"
		}
		add(t, r, measured)
	}
	for _, n := range []int{64, 256} {
		ratio(page.Target{Figure: fmt.Sprintf("W1 Go SDK, %d clients, of etcd's Go client's pairs/s", n),
			Wanted: "at least 3", Limit: 3}, cell{w1, n, pairsFigure}, oursSDK, etcd)
	}
	ratio(page.Target{Figure: "W1 raw, 256 clients, server CPU for a pair, of the stub's",
		Wanted: "at most 1.25", Limit: 1.25, AtMost: true}, cell{w1, 256, cpuFigure}, ours, bare)
	p50, measured := b.book.median(cell{w1, 1, p50Figure}, ours)
	sync, synced := b.book.median(cell{floorSync, 1, floorFigure}, floor)
	stream, _ := b.book.median(cell{floorStream, 1, floorFigure}, floor)
	add(page.Target{Figure: "W1 raw, 1 client, one server, p50 of 2 x (fdatasync + stream round trip)",
		Wanted: "at most 1.15", Limit: 1.15, AtMost: true}, p50/(2*(sync+stream)), measured && synced)
	for _, place := range []struct {
		workload, wanted string
		limit            float64
	}{{w1Leader, "at most 0.5", 0.5}, {w1Follower1, "at most 0.65", 0.65},
		{w1Follower2, "at most 0.65", 0.65}} {
		ratio(page.Target{Figure: place.workload + ", 1 client, p50 of etcd's", Wanted: place.wanted,
			Limit: place.limit, AtMost: true}, cell{place.workload, 1, p50Figure}, ours, etcd)
		ratio(page.Target{Figure: place.workload + ", 1 client, p99 of etcd's", Wanted: "at most 1", Limit: 1,
			AtMost: true}, cell{place.workload, 1, p99Figure}, ours, etcd)
	}
	for _, n := range []int{8, 64} {
		ratio(page.Target{Figure: fmt.Sprintf("W2 raw, %d clients, of the stub's hand-overs/s", n),
			Wanted: "at least 0.6", Limit: 0.6}, cell{w2, n, handsFigure}, ours, bare)
	}
	ratio(page.Target{Figure: "W3 raw, 1,000 watchers, time of the stub's", Wanted: "at most 1.1", Limit: 1.1,
		AtMost: true}, cell{w3, watchers, toldFigure}, ours, bare)
	ratio(page.Target{Figure: "W5 raw, 1,000 members, of the stub's lists/s", Wanted: "at least 1.0",
		Limit: 1}, cell{w5, members, listsFigure}, ours, bare)
	bytes, measured := b.book.median(cell{w4, b.idle, bytesFigure}, ours)
	add(page.Target{Figure: fmt.Sprintf("W4, %s idle sessions, server bytes each", page.Count(b.idle)),
		Wanted: "at most 12,288", Limit: 12 << 10, AtMost: true}, bytes, measured)
	ratio(page.Target{Figure: "W4, server CPU, of etcd's", Wanted: "at most 1", Limit: 1, AtMost: true},
		cell{w4, b.idle, shareFigure}, ours, etcd)
	ratio(page.Target{Figure: "W7, longest silence of a client, of etcd's", Wanted: "none set; below 1",
		Limit: 1, AtMost: true}, cell{w7, roamers, silentFigure}, ours, etcd)
	return all
}
