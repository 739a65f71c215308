// Package linear tests that paths cost in proportion to their size. It counts steps, not time: the compiler's
// counters of test coverage say how often each block of the code under test was executed, so a loop cannot be
// left out of the count, and the code under test needs no hooks.
package linear

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Row is a path, with things to go through.
type Row struct {
	Name string
	// Prepare makes n things for the path to go through, and returns the path.
	Prepare func(t *testing.T, n int) (path func())
	// Size is n, 300 if it is 0.
	Size int
}

const (
	usualSize = 300
	// mostSteps and mostBytes are by which factor a path that goes through ten times as many things may
	// execute more blocks, and allocate more: sorting and trees add to the ten, and tables grow by doubling.
	// A path that is quadratic comes near a hundred.
	mostSteps = 20
	mostBytes = 30
	// few are steps, or bytes, that are as good as none.
	few = 20_000
)

// job, in the environment, is the row, the size and the part that a process of the test runs.
const job = "COORDD_LINEAR"

// Test measures each row with its size and ten times that. It is to be the only thing in the test of that
// name, whose package it builds anew with counters in the packages of covered. slices.Delete and their like
// move elements without a step: Moves looks for these.
func Test(t *testing.T, covered string, rows []Row) {
	if now := os.Getenv(job); now != "" {
		run(t, now, rows)
		return
	}
	binary := filepath.Join(t.TempDir(), "linear.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-covermode=count", "-coverpkg="+covered, "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the test with counters: %v\n%s", err, output)
	}
	processors := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	defer all.Wait()
	for _, row := range rows {
		all.Go(func() {
			processors <- struct{}{}
			defer func() { <-processors }()
			row.compare(t, binary)
		})
	}
}

// cost counts the steps and bytes of a path.
type cost struct{ steps, bytes int }

func (r *Row) compare(t *testing.T, binary string) {
	size := r.Size
	if size == 0 {
		size = usualSize
	}
	small, large := r.measure(t, binary, size), r.measure(t, binary, 10*size)
	t.Logf("%-50s %9d steps, %9d with ten times as many; %9d bytes, %9d", r.Name, small.steps, large.steps,
		small.bytes, large.bytes)
	if small.steps == 0 {
		t.Errorf("%s: not a step is counted", r.Name)
	}
	if large.steps > mostSteps*small.steps+few {
		t.Errorf("%s: %d steps with %d things, %d with %d", r.Name, small.steps, size, large.steps, 10*size)
	}
	if large.bytes > mostBytes*small.bytes+few {
		t.Errorf("%s: %d bytes are allocated with %d things, %d with %d", r.Name, small.bytes, size, large.bytes,
			10*size)
	}
}

// measure runs the row's path in a process of its own, and another time without the path: what is counted
// there is the preparation.
func (r *Row) measure(t *testing.T, binary string, size int) cost {
	all, prepared := r.process(t, binary, size, "path"), r.process(t, binary, size, "preparation")
	return cost{all.steps - prepared.steps, all.bytes}
}

var allocated = regexp.MustCompile(`(?m)^allocated ([0-9]+)$`)

func (r *Row) process(t *testing.T, binary string, size int, part string) (c cost) {
	profile := fmt.Sprintf("%s.%s.%d.%s", binary, strings.ReplaceAll(r.Name, " ", "_"), size, part)
	name, _, _ := strings.Cut(t.Name(), "/")
	process := exec.Command(binary, "-test.run=^"+name+"$", "-test.coverprofile="+profile)
	process.Env = append(os.Environ(), fmt.Sprintf("%s=%s/%d/%s", job, r.Name, size, part))
	output, err := process.CombinedOutput()
	if err != nil {
		t.Errorf("%s with %d things: %v\n%s", r.Name, size, err, output)
		return c
	}
	if found := allocated.FindSubmatch(output); found != nil {
		c.bytes, _ = strconv.Atoi(string(found[1]))
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(text)) { // file:from,to statements count
		if fields := strings.Fields(line); len(fields) == 3 {
			count, _ := strconv.Atoi(fields[2])
			c.steps += count
		}
	}
	return c
}

// run carries out the part of one process.
func run(t *testing.T, now string, rows []Row) {
	fields := strings.Split(now, "/")
	for _, row := range rows {
		if row.Name != fields[0] {
			continue
		}
		size, _ := strconv.Atoi(fields[1])
		path := row.Prepare(t, size)
		if fields[2] != "path" {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		path()
		runtime.ReadMemStats(&after)
		fmt.Printf("allocated %d\n", after.TotalAlloc-before.TotalAlloc)
	}
}
