package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/conformance/mutation/plant"
	"github.com/coordd/coordd/conformance/sim/plan"
	"github.com/coordd/coordd/conformance/sim/result"
	"github.com/coordd/coordd/internal/testmode"
)

// The flags of the program of one seed, which TestSeed stands for.
var (
	seedFlag  = flag.Uint64("seed", 0, "")
	dirFlag   = flag.String("dir", "", "")
	planFlag  = flag.String("plan", "", "")
	traceFlag = flag.String("trace", "", "")
	logsFlag  = flag.String("logs", "", "")
)

// What the seeds below do.
const (
	fine uint64 = iota + 1
	broken
	unable
	panics
	spins
	sleeps
	silent
	contradicts
	varies
	fills
	swells
	fails // if the plan has an event with the number 3
	harmed
)

// TestSeed stands for the program of one seed.
func TestSeed(t *testing.T) {
	if *dirFlag == "" {
		t.Skip("run by the other tests")
	}
	r := result.Result{Seed: *seedFlag, Verdict: result.OK, Hash: "00", Counts: map[string]int64{"requests": 3},
		Marks: map[string]int64{"election": 1, "wipe": 0}}
	switch *seedFlag {
	case broken:
		r.Verdict, r.Violations = result.Broken, []string{"s1 and s2 lead at 12ms", "more"}
	case unable:
		r.Verdict, r.Violations = result.Unable, []string{"no plan"}
	case panics:
		panic("index 7 is not there")
	case spins:
		for x := 0; ; x++ {
		}
	case sleeps:
		time.Sleep(time.Hour)
	case silent:
		os.Exit(0)
	case contradicts:
		fmt.Println(`{"seed":8,"verdict":"ok","hash":"0"}`)
		os.Exit(1)
	case varies:
		r.Verdict, r.Violations, r.Hash = result.Broken, []string{"x"}, fmt.Sprint(time.Now().UnixNano())
	case fills:
		_ = os.WriteFile(filepath.Join(*dirFlag, "large"), make([]byte, 2<<20), 0o600)
		time.Sleep(time.Hour)
	case swells:
		for list := [][]byte{}; ; time.Sleep(time.Millisecond) {
			list = append(list, bytes.Repeat([]byte("x"), 1<<20))
		}
	case harmed, harmed + 2:
		if *seedFlag == harmed || os.Getenv(plant.Variable) == "rare" {
			r.Verdict, r.Violations = result.Broken, []string{"x"}
		}
	case fails:
		if p, err := plan.Read(*planFlag); err != nil {
			r.Verdict, r.Violations = result.Unable, []string{err.Error()}
		} else {
			for _, e := range p.Events {
				if e.N == 3 {
					r.Verdict, r.Violations = result.Broken, []string{fmt.Sprintf("after %d events", len(p.Events))}
				}
			}
		}
	}
	for _, file := range []string{*traceFlag, *logsFlag} {
		if file != "" {
			_ = os.WriteFile(file, []byte("x"), 0o600)
		}
	}
	r.Exit()
}

func testOptions(t *testing.T) (*options, *program) {
	o := &options{jobs: 2, out: t.TempDir(), cpu: time.Second, idle: time.Minute, memory: 1 << 40, disk: 1 << 20}
	return o, o.program(built{file: os.Args[0], patched: true}, t.TempDir())
}

func TestOutcomes(t *testing.T) {
	for seed, want := range map[uint64]string{
		fine:        "",
		broken:      "violation: s# and s# lead at #ms",
		unable:      "cannot run: no plan",
		panics:      "ended with code # without a result: panic: index # is not there",
		spins:       "hangs: has not ended after #s of processor time",
		silent:      "ended with code # without a result: nothing was printed about it",
		contradicts: "ended with code #, but said: ok",
		fills:       "takes more than # bytes of disk",
	} {
		_, p := testOptions(t)
		o, err := p.run(t.Context(), job{seed: seed})
		if err != nil || o.kind() != want {
			t.Errorf("seed %d: %s, should be %q; %v\n%s", seed, o.failure, want, err, o.output)
		}
		if left, _ := os.ReadDir(p.base); len(left) > 0 {
			t.Errorf("seed %d left %v", seed, left)
		}
	}
}

func TestHangIsShown(t *testing.T) {
	_, p := testOptions(t)
	if o, err := p.run(t.Context(), job{seed: spins}); err != nil || !strings.Contains(o.failure, "run.TestSeed") {
		t.Errorf("%s, %v", o.failure, err)
	}
}

func TestBounds(t *testing.T) {
	_, p := testOptions(t)
	p.idle = 500 * time.Millisecond
	if o, err := p.run(t.Context(), job{seed: sleeps}); err != nil || !strings.HasPrefix(o.failure, "hangs") {
		t.Errorf("%s, %v", o.failure, err)
	}
	p.cpu = 2 * time.Second // for which it is not idle
	if o, err := p.run(t.Context(), job{seed: spins}); err != nil || !strings.Contains(o.failure, "processor time") {
		t.Errorf("%s, %v", o.failure, err)
	}
	p.idle, p.cpu, p.memory = time.Minute, time.Minute, 100<<20
	if o, err := p.run(t.Context(), job{seed: swells}); err != nil || !strings.Contains(o.failure, "of memory") {
		t.Errorf("%s, %v", o.failure, err)
	}
}

func TestManySeeds(t *testing.T) {
	o, p := testOptions(t)
	o.from, o.n = fine, 4
	err := many(t.Context(), o, p)
	if err == nil || !strings.Contains(err.Error(), "3 of 4 seeds failed") {
		t.Error(err)
	}
	for _, file := range []string{"seed-2/plan.json", "seed-2/trace", "seed-2/logs", "seed-2/failure", "seed-2/output",
		"seed-4/failure"} {
		if _, err := os.Stat(filepath.Join(o.out, file)); err != nil {
			t.Error(err)
		}
	}
	o.n, o.need = 1, true
	if err := many(t.Context(), o, p); err == nil || !strings.Contains(err.Error(), "no seed reached: wipe") {
		t.Error(err)
	}
}

func TestSeedThatVaries(t *testing.T) {
	o, p := testOptions(t)
	o.from, o.n = varies, 1
	if err := many(t.Context(), o, p); err == nil {
		t.Error("no failure")
	}
	text, err := os.ReadFile(filepath.Join(o.out, "seed-9", "failure"))
	if err != nil || !strings.Contains(string(text), "NOT REPRODUCIBLE") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestInterrupt(t *testing.T) {
	o, p := testOptions(t)
	ctx, cancel := context.WithCancel(t.Context())
	o.from, o.n = sleeps, 1
	time.AfterFunc(100*time.Millisecond, cancel)
	if err := many(ctx, o, p); !errors.Is(err, errInterrupted) {
		t.Error(err)
	}
}

func TestSmallerPlan(t *testing.T) {
	testmode.WithoutRace(t)
	o, p := testOptions(t)
	large := plan.Generate(fails)
	large.Events = nil
	for i := range 20 {
		large.Events = append(large.Events, plan.Event{At: plan.Duration(i), Kind: plan.Jump, N: int64(i)})
	}
	o.shrink = filepath.Join(o.out, "large.json")
	if err := large.Write(o.shrink); err != nil {
		t.Fatal(err)
	}
	if err := shrink(t.Context(), o, p); err != nil {
		t.Fatal(err)
	}
	small, err := plan.Read(filepath.Join(o.out, "large.small.json"))
	if err != nil || len(small.Events) != 1 || small.Events[0].N != 3 {
		t.Errorf("%v, %v", small, err)
	}
}

func TestTable(t *testing.T) {
	table := newTable(true)
	for i, profile := range []string{"3 servers cut far cut", "1 servers", "3 servers"} {
		table.begin()
		o := outcome{Result: result.Result{Seed: uint64(i + 1), Profile: profile, CPU: plan.Duration(time.Second)}}
		if i == 1 {
			o.failure = "violation: a\nb"
		}
		table.end(o)
	}
	var text strings.Builder
	table.print(&text)
	for _, line := range []string{"| all | 3 | 1 | 1000 |", "| 3 servers | 2 | 0 |", "| cut | 1 | 0 |",
		"FAILED 2: violation: a\n"} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("not there: %s\n%s", line, text.String())
		}
	}
	table.begin()
	if err := table.verdict(false); err == nil || !strings.Contains(err.Error(), "only 3 answered") {
		t.Error(err)
	}
}
