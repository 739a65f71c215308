package sim

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/coordd/coordd/conformance/sim/check"
	"github.com/coordd/coordd/conformance/sim/plan"
	"github.com/coordd/coordd/conformance/sim/result"
	"github.com/coordd/coordd/conformance/sim/rt"
	"github.com/coordd/coordd/conformance/sim/trace"
	"github.com/coordd/coordd/conformance/sim/world"
)

var (
	seed      = flag.Uint64("seed", 0, "run this seed, and end the program")
	planFile  = flag.String("plan", "", "run the plan in this file in place of the seed's own")
	traceFile = flag.String("trace", "", "write what happens into this file, a line each")
	logsFile  = flag.String("logs", "", "write the servers' last logs into this file if the run fails")
	switches  = flag.String("switches", "", "write the switches of goroutines into this file")
	steps     = flag.String("operations", "", "write the clients' operations into this file, for conformance/porcupine")
	program   = flag.String("processes", "", "start this program for each server, in real time")
	sdk       = flag.String("sdk", "", "run this program beside such servers: conformance/bench/sdkload")
	hooked    = flag.Bool("hooked", false, "that program has the hooks for faults of disks")
	folder    = flag.String("dir", os.TempDir(), "make the servers' directories below this one")
)

// TestSeed runs one seed, or one plan, and ends the program: goroutines of dead servers are left over. It prints a line
// of JSON (package result) at last.
func TestSeed(t *testing.T) {
	if *seed == 0 && *planFile == "" {
		t.Skip("without -seed or -plan there is nothing to run; see docs/dev/testing.md")
	}
	p, err := read()
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	if *program != "" {
		any := false
		if p, left, any = p.ForProcesses(*hooked); !any {
			t.Fatalf("nothing of this plan can happen to processes; left out: %v", left)
		}
	}
	dir := filepath.Join(*folder, "servers") // servers mention it, so a name that is relative and constant repeats best
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var options world.Options
	closeTrace := func() error { return nil }
	if *traceFile != "" {
		file, err := trace.Create(*traceFile)
		if err != nil {
			t.Fatal(err)
		}
		options.Trace, closeTrace = file, file.Close
	}
	options.Dir, options.Program, options.SDK = dir, *program, *sdk
	config := rt.Config{Seed: p.Seed, Yield: p.Yield}
	if *switches != "" {
		config.Record = 1 << 22
	}
	run := func(*testing.T) {
		r, err := world.Run(p, options)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range left {
			r.Counts["left out: "+word]++
		}
		if err := errors.Join(closeTrace(), finish(r, dir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			r.Verdict = result.Unable
		}
		r.Exit()
	}
	if *program == "" {
		rt.Run(t, config, run)
	}
	run(t)
}

// finish removes the run's files and writes the requested ones.
func finish(o *world.Outcome, dir string) error {
	err := os.RemoveAll(dir)
	if *logsFile != "" && o.Verdict != result.OK {
		err = errors.Join(err, os.WriteFile(*logsFile, o.Logs, 0o600))
	}
	if *switches != "" {
		err = errors.Join(err, writeSwitches(*switches))
	}
	if *steps != "" {
		err = errors.Join(err, writeOperations(*steps, check.Operations(o.Events)))
	}
	return err
}

func writeOperations(name string, list []check.Operation) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(check.WriteOperations(f, list), f.Close())
}

func writeSwitches(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(rt.WriteSwitches(f), f.Close())
}

func read() (plan.Plan, error) {
	if *planFile == "" {
		return plan.Generate(*seed), nil
	}
	return plan.Read(*planFile)
}
