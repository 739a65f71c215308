package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/conformance/sim/plan"
)

// table adds up what came of many seeds.
type table struct {
	patched  bool
	mutex    sync.Mutex
	at       time.Time
	started  int
	answered int
	failures []string
	profiles map[string]*profile // by traits
	counts   map[string]int64
	marks    map[string]int // seeds that reached it
}

// profile adds up the seeds that have something in common.
type profile struct {
	seeds, failures     int
	cpu, worst, virtual time.Duration
}

func newTable(patched bool) *table {
	return &table{patched: patched, at: time.Now(), profiles: map[string]*profile{}, counts: map[string]int64{},
		marks: map[string]int{}}
}

func (t *table) begin() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.started++
}

func (t *table) end(o outcome) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.answered++
	if o.Profile == "" {
		o.Profile = plan.Generate(o.Seed).Profile
	}
	if o.failure != "" {
		line, _, _ := strings.Cut(o.failure, "\n")
		t.failures = append(t.failures, fmt.Sprintf("%d: %s", o.Seed, line))
	}
	for _, trait := range traits(o.Profile) {
		if t.profiles[trait] == nil {
			t.profiles[trait] = &profile{}
		}
		t.profiles[trait].add(&o)
	}
	for name, n := range o.Counts {
		t.counts[name] += n
	}
	for name, n := range o.Marks {
		if n > 0 {
			t.marks[name]++
		} else {
			t.marks[name] += 0 // known, and so in the list of those that no seed has reached
		}
	}
}

func (p *profile) add(o *outcome) {
	p.seeds++
	if o.failure != "" {
		p.failures++
	}
	p.cpu += o.CPU.Std()
	p.worst = max(p.worst, o.CPU.Std())
	p.virtual += o.Virtual.Std()
}

// traits returns the rows of the table that a profile counts in: all, the number of servers, and all that is special.
func traits(profile string) []string {
	list := []string{"all"}
	if n, rest, found := strings.Cut(profile, " servers"); found {
		list, profile = append(list, n+" servers"), rest
	}
	for _, trait := range strings.Fields(profile) {
		if !slices.Contains(list, trait) {
			list = append(list, trait)
		}
	}
	return list
}

// progress says now and then how far this is.
func (t *table) progress(stopped chan struct{}) {
	for {
		select {
		case <-stopped:
			return
		case <-time.After(time.Minute):
		}
		t.mutex.Lock()
		fmt.Fprintf(os.Stderr, "sim: %d seeds, %d failures after %v\n", t.answered, len(t.failures),
			time.Since(t.at).Round(time.Second))
		t.mutex.Unlock()
	}
}

// print writes the tables.
func (t *table) print(w io.Writer) {
	fmt.Fprint(w, "\n| seeds with | number | failures | CPU a seed, ms | the longest | virtual s a seed |\n",
		"|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(t.profiles)) {
		p := t.profiles[name]
		n := time.Duration(p.seeds)
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d | %.1f |\n", name, p.seeds, p.failures, (p.cpu / n).Milliseconds(),
			p.worst.Milliseconds(), (p.virtual / n).Seconds())
	}
	fmt.Fprintf(w, "\n%s\n", listed(t.counts))
	if len(t.marks) > 0 {
		fmt.Fprintf(w, "\nseeds that reached each mark: %s\n", listed(t.marks))
	}
	for _, failure := range t.failures {
		fmt.Fprintf(w, "FAILED %s\n", failure)
	}
	fmt.Fprintf(w, "sim: %d seeds in %v, %d failures\n", t.answered, time.Since(t.at).Round(time.Second),
		len(t.failures))
}

// listed writes numbers with their names, in the order of these.
func listed[N int | int64](numbers map[string]N) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, numbers[name]))
	}
	return strings.Join(parts, ", ")
}

// verdict returns why the whole has failed.
func (t *table) verdict(needMarks bool) error {
	if t.answered != t.started {
		return fmt.Errorf("%d seeds were started, only %d answered", t.started, t.answered)
	}
	if len(t.failures) > 0 {
		return fmt.Errorf("%d of %d seeds failed", len(t.failures), t.answered)
	}
	var missed []string
	for name, n := range t.marks {
		if n == 0 {
			missed = append(missed, name)
		}
	}
	if slices.Sort(missed); needMarks && len(missed) > 0 {
		return fmt.Errorf("no seed reached: %s", strings.Join(missed, ", "))
	}
	return nil
}
