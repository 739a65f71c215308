package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/conformance/sim/plan"
)

// sideBySide calls do for the elements that next yields, at most so many at a time. After an error it begins no other
// one, and returns all.
func sideBySide[T any](jobs int, next func() (T, bool), do func(T) error) error {
	var mutex sync.Mutex
	var problem error
	var workers sync.WaitGroup
	for range max(1, jobs) {
		workers.Go(func() {
			for {
				mutex.Lock()
				var element T
				more := problem == nil
				if more {
					element, more = next()
				}
				mutex.Unlock()
				if !more {
					return
				}
				if err := do(element); err != nil {
					mutex.Lock()
					problem = errors.Join(problem, err)
					mutex.Unlock()
				}
			}
		})
	}
	workers.Wait()
	return problem
}

// seeds yields the seeds of the options until their number or time is over.
func (o *options) seeds(ctx context.Context) func() (uint64, bool) {
	begun, next := 0, o.from
	var until time.Time
	if o.long > 0 {
		until = time.Now().Add(o.long)
	}
	return func() (uint64, bool) {
		if ctx.Err() != nil || o.n > 0 && begun == o.n || o.n == 0 && o.long == 0 ||
			!until.IsZero() && time.Now().After(until) {
			return 0, false
		}
		for o.processes && !suitsProcesses(next) {
			next++
		}
		begun, next = begun+1, next+1
		return next - 1, true
	}
}

// suitsProcesses reports whether a seed's plan has several servers and faults that processes can have.
func suitsProcesses(seed uint64) bool {
	p := plan.Generate(seed)
	_, _, any := p.ForProcesses(true)
	return any && len(p.Servers) >= 3
}

// job returns the run of a seed.
func (o *options) job(seed uint64) job {
	j := job{seed: seed}
	if o.operations != "" {
		j.operations = filepath.Join(o.operations, strconv.FormatUint(seed, 10))
	}
	if o.profile != "" {
		j.profile = filepath.Join(o.profile, strconv.FormatUint(seed, 10))
	}
	return j
}

// many runs seeds and prints a table of them.
func many(ctx context.Context, o *options, p *program) error {
	fmt.Printf("sim: %d seeds from %d on, %d at a time (0 is without a limit)\n", o.n, o.from, o.jobs)
	t := newTable(p.patched)
	if o.cover {
		dir, err := coverFolder()
		if err != nil {
			return err
		}
		p.env = append(p.env, "GOCOVERDIR="+dir)
	}
	stopped := make(chan struct{})
	go t.progress(stopped)
	err := sideBySide(o.jobs, o.seeds(ctx), func(seed uint64) error {
		t.begin()
		j := o.job(seed)
		dir := ""
		if o.processes { // what has happened will not happen again
			var err error
			if dir, err = o.keep(&j); err != nil {
				return err
			}
		}
		result, err := p.run(ctx, j)
		switch {
		case err != nil:
			return err
		case result.failure == "":
			err = os.RemoveAll(dir)
		case o.processes:
			text := fmt.Sprintf("seed %d (%s): %s\n\tmake chaos SEED=%d; %s\n", seed, result.Profile, result.failure,
				seed, dir)
			err = conclude(dir, text, &result)
		default:
			err = describe(ctx, o, p, job{seed: seed}, &result)
		}
		t.end(result)
		return err
	})
	close(stopped)
	if o.cover && err == nil {
		err = coverage()
	}
	t.print(os.Stdout)
	if err == nil && ctx.Err() != nil {
		err = errInterrupted
	}
	return errors.Join(err, t.verdict(o.need))
}

// one runs one seed or plan, and keeps everything about it.
func one(ctx context.Context, o *options, p *program) error {
	j := o.job(o.seed)
	if o.plan != "" {
		file, err := filepath.Abs(o.plan)
		if err != nil {
			return err
		}
		read, err := plan.Read(file)
		if err != nil {
			return err
		}
		j.seed, j.plan = read.Seed, file
	}
	dir, err := o.keep(&j)
	if err != nil {
		return err
	}
	result, err := p.run(ctx, j)
	if err != nil {
		return err
	}
	fmt.Printf("%ssim: %v real; plan, trace and logs in %s\n", result.output, result.real.Round(time.Millisecond), dir)
	if result.failure != "" {
		return fmt.Errorf("seed %d: %s", j.seed, result.failure)
	}
	return nil
}

// keep makes the folder that describes a run, with its plan, and has the run leave its trace and logs there.
func (o *options) keep(j *job) (string, error) {
	dir := filepath.Join(o.out, fmt.Sprintf("seed-%d", j.seed))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	j.trace, j.logs = filepath.Join(dir, "trace"), filepath.Join(dir, "logs")
	if j.plan != "" {
		return dir, nil
	}
	drawn := plan.Generate(j.seed)
	return dir, drawn.Write(filepath.Join(dir, "plan.json"))
}

// describe runs a failed job twice more, the second time with trace and logs, and reports the failure.
func describe(ctx context.Context, o *options, p *program, j job, first *outcome) error {
	again, err := p.run(ctx, j)
	if err != nil {
		return err
	}
	kept := j
	dir, err := o.keep(&kept)
	if err != nil {
		return err
	}
	last, err := p.run(ctx, kept)
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "seed %d (%s): %s\n", j.seed, first.Profile, first.failure)
	if p.patched && !(first.same(again) && first.same(last)) {
		first.failure = "NOT REPRODUCIBLE: " + first.failure
		fmt.Fprintf(&text, "NOT REPRODUCIBLE: hash %s, then %s: %s\nwith trace and logs %s: %s\n", first.Hash,
			again.Hash, again.failure, last.Hash, last.failure)
	}
	fmt.Fprintf(&text, "\tmake sim-seed SEED=%d; %s\n", j.seed, dir)
	return conclude(dir, text.String(), &last)
}

// conclude prints a failure, and writes it into its folder.
func conclude(dir, text string, last *outcome) error {
	fmt.Print(text)
	return errors.Join(os.WriteFile(filepath.Join(dir, "failure"), []byte(text), 0o644),
		os.WriteFile(filepath.Join(dir, "output"), last.output, 0o644))
}

// same reports whether two runs did the same, as far as they say.
func (o *outcome) same(other outcome) bool {
	return o.Hash == other.Hash && o.kind() == other.kind()
}

var numbers = regexp.MustCompile(`(0x)?[0-9][0-9a-f.]*`)

// kind is the first line of a failure without its numbers, as other plans may fail in the same way with others.
func (o *outcome) kind() string {
	line, _, _ := strings.Cut(o.failure, "\n")
	return numbers.ReplaceAllString(line, "#")
}

// shrink makes a failing plan as small as it can, and writes it beside the old one.
func shrink(ctx context.Context, o *options, p *program) error {
	large, err := plan.Read(o.shrink)
	if err != nil {
		return err
	}
	file := filepath.Join(p.base, "plan.json")
	var problem error
	try := func(tried plan.Plan) (outcome, bool) {
		if problem == nil {
			problem = errors.Join(ctx.Err(), tried.Write(file))
		}
		if problem != nil {
			return outcome{}, false
		}
		result, err := p.run(ctx, job{seed: tried.Seed, plan: file})
		problem = err
		return result, err == nil && result.failure != ""
	}
	wanted, fails := try(large)
	if !fails {
		return errors.Join(problem, errors.New("this plan does not fail"))
	}
	fmt.Printf("sim: to keep: %s\n", wanted.kind())
	tries, begun := 0, time.Now()
	small := plan.Shrink(large, func(tried plan.Plan) bool {
		tries++
		result, fails := try(tried)
		return fails && result.kind() == wanted.kind()
	})
	to := strings.TrimSuffix(o.shrink, ".json") + ".small.json"
	fmt.Printf("sim: %d events of %d and %d clients of %d are left after %d tries in %v: %s\n", len(small.Events),
		len(large.Events), len(small.Clients), len(large.Clients), tries, time.Since(begun).Round(time.Second), to)
	return errors.Join(problem, small.Write(to))
}
