// Command run builds the program of one simulated seed and runs it for many, each in a process and a folder of its own.
//
//	go run ./conformance/sim/run -from 1 -n 500          # 500 seeds from 1 on; exit code 1 if one fails
//	go run ./conformance/sim/run -for 10h -n 0           # as many as there is time for
//	go run ./conformance/sim/run -seed 7                 # one seed, with its plan, trace and logs
//	go run ./conformance/sim/run -plan FILE              # the same for a plan
//	go run ./conformance/sim/run -shrink FILE            # the smallest plan that fails in the same way
//	go run ./conformance/sim/run -repro -n 50            # each seed several times, in other surroundings: same hash?
//	go run ./conformance/sim/run -sabotage .             # is each planted defect found? All, or those that match
//	go run ./conformance/sim/run -plans DIR              # does each plan pass, and fail with the defects it names?
//	go run ./conformance/sim/run -planted NAME ...       # any of the others with a planted defect
//	go run ./conformance/sim/run -processes ...          # servers that are processes, in real time
//
// A failure is run three times: twice as it was, and once with a trace and logs, which are kept in the folder -out
// beside its plan. Where Go is another version than conformance/sim/overlay knows, the seeds run on the ordinary
// runtime, and nothing can be repeated.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flags()); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	base, err := ownFolder(o.shm)
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	switch {
	case o.sabotage != "":
		return sabotage(ctx, o, base)
	case o.plans != "":
		return plans(ctx, o, base)
	}
	for _, dir := range []*string{&o.operations, &o.profile} {
		if *dir == "" {
			continue
		}
		if *dir, err = filepath.Abs(*dir); err == nil {
			err = os.MkdirAll(*dir, 0o755)
		}
		if err != nil {
			return err
		}
	}
	p, err := o.build(ctx, base)
	if err != nil {
		return err
	}
	switch {
	case o.repro:
		return repro(ctx, o, p)
	case o.shrink != "":
		return shrink(ctx, o, p)
	case o.plan != "" || o.seed != 0:
		return one(ctx, o, p)
	}
	return many(ctx, o, p)
}

// build builds the program that the options ask for.
func (o *options) build(ctx context.Context, base string) (*program, error) {
	if o.planted == "" {
		b, err := build(ctx, "sim.test", variant{cover: o.cover, processes: o.processes})
		return o.program(b, base), err
	}
	list, err := defects(".", named([]string{o.planted}))
	if err != nil {
		return nil, err
	}
	b, err := buildWith(ctx, "planted.test", list, o.processes)
	p := o.program(b, base)
	p.env = inForce(o.planted)
	return p, err
}

// lives reports whether a process with this id runs.
func lives(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// ownFolder makes a folder whose name has always the same length, and removes those of runners that have died.
func ownFolder(below string) (string, error) {
	const name = "coordd-sim-"
	left, _ := filepath.Glob(filepath.Join(below, name+"*"))
	for _, dir := range left {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), name))
		if err == nil && !lives(pid) {
			_ = os.RemoveAll(dir)
		}
	}
	dir := filepath.Join(below, fmt.Sprintf("%s%010d", name, os.Getpid()))
	return dir, os.Mkdir(dir, 0o700)
}
