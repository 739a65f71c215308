package model

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

// seqsDefault is the number of sequences that an ordinary test run compares.
const seqsDefault = 2000

var (
	seqs  = flag.Int("seqs", seqsDefault, "how many random sequences to compare")
	steps = flag.Int("steps", 200, "how many steps each sequence has")
	seed  = flag.Uint64("seed", 1, "the seed of the first sequence; the others count up from it")
)

// TestModel gives random sequences to the rings and to the model and compares what every client reads.
func TestModel(t *testing.T) {
	var marks Marks
	open := 0
	for i := range *seqs {
		from := *seed + uint64(i)
		taken, failed, ambiguous := sequence(t, from, &marks)
		if failed {
			t.Fatal(report(t, from, newGenerator(from).setup, taken))
		}
		if ambiguous {
			open++
		}
	}
	t.Logf("%d sequences of %d steps from seed %d, %d of them cut short where the specification leaves it open",
		*seqs, *steps, *seed, open)
	// Timeouts repeat in very long sequences, and so do moments.
	if *steps <= 500 && open*20 > *seqs+20 {
		t.Errorf("%d of %d sequences were cut short; the generator should avoid timers that run out at one moment",
			open, *seqs)
	}
	checkMarks(t, &marks)
}

// sequence runs one sequence and returns its steps.
func sequence(t *testing.T, from uint64, marks *Marks) (taken []step, failed, ambiguous bool) {
	t.Helper()
	g := newGenerator(from)
	r, err := newRun(g.setup, marks, nil)
	if err != nil {
		t.Fatal(err)
	}
	for s := g.first; ; s = g.next(r) {
		taken = append(taken, s)
		if !r.do(s) {
			return taken, r.failure != "", r.model.Ambiguous()
		}
		if len(taken) == *steps {
			break
		}
	}
	r.finish()
	return taken, r.failure != "", r.model.Ambiguous()
}

// replay runs given steps and returns the first difference, or "", and the transcript.
func replay(t *testing.T, s setup, steps []step, trace *strings.Builder) string {
	t.Helper()
	r, err := newRun(s, nil, trace)
	if err != nil {
		t.Fatal(err)
	}
	for _, next := range steps {
		if !r.do(next) {
			return r.failure
		}
	}
	r.finish()
	return r.failure
}

// report shrinks a sequence that differs and shows both sides of what is left.
func report(t *testing.T, from uint64, s setup, steps []step) string {
	t.Helper()
	small := shrink(steps, func(some []step) bool { return replay(t, s, some, nil) != "" })
	var trace strings.Builder
	what := replay(t, s, small, &trace)
	return fmt.Sprintf("seed %d (run again with -seed %d -seqs 1): %s\nlimits %+v, %d of %d steps:\n%s",
		from, from, what, s.limits, len(small), len(steps), trace.String())
}

// shrink drops steps, in ever smaller pieces, as long as the sequence still fails.
func shrink(steps []step, fails func([]step) bool) []step {
	for size := len(steps) / 2; size > 0; {
		dropped := false
		for at := 0; at+size <= len(steps); {
			fewer := append(append([]step(nil), steps[:at]...), steps[at+size:]...)
			if fails(fewer) {
				steps, dropped = fewer, true
			} else {
				at += size
			}
		}
		if !dropped || size > len(steps) {
			size /= 2
		}
	}
	return steps
}

// checkMarks demands that the sequences have reached every branch of the model. A short run is not asked.
func checkMarks(t *testing.T, marks *Marks) {
	t.Helper()
	var table strings.Builder
	for b := range markCount {
		fmt.Fprintf(&table, "%9d  %s\n", marks[b], b)
		if marks[b] == 0 && *seqs**steps >= seqsDefault*200 {
			t.Errorf("no sequence has reached: %s", b)
		}
	}
	t.Logf("how often each branch was taken:\n%s", table.String())
}
