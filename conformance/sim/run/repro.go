package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// surroundings are circumstances that may not affect a run.
type surroundings struct {
	name    string
	program *program
	env     []string
	busy    bool // other work on all processors
	other   bool // another program: types have other addresses, which order some maps, so most runs are the same
}

// repro runs each seed in several surroundings, so many times in all, and wants one hash of it.
func repro(ctx context.Context, o *options, p *program) error {
	if !p.patched {
		fmt.Println("sim: WARNING: nothing is compared: no run can be repeated")
		return nil
	}
	other, err := build(ctx, "sim-other.test", variant{link: "-s -w -T 0x800000"})
	if err != nil {
		return err
	}
	all := []surroundings{
		{name: "alone", program: p},
		{name: "beside others", program: p, busy: true},
		{name: "large environment", program: p, env: []string{"PADDING=" + strings.Repeat("x", 100_000)}},
		{name: "linked elsewhere", program: o.program(other, p.base), other: true},
	}
	all[3].program.base = filepath.Join(p.base, "other")
	if err := os.Mkdir(all[3].program.base, 0o700); err != nil {
		return err
	}
	found := hashes{first: map[uint64]string{}}
	for i := range max(o.times, len(all)) {
		if err := found.pass(ctx, o, all[i%len(all)]); err != nil {
			return err
		}
	}
	fmt.Printf("sim: %d seeds from %d on, %d runs of each in %d surroundings: %d did something else than the first, "+
		"and %d of the other program\n", len(found.first), o.from, max(o.times, len(all)), len(all), found.differ,
		found.others)
	if found.differ > 0 {
		return errFound
	}
	return nil
}

// hashes compares the runs of each seed.
type hashes struct {
	mutex  sync.Mutex
	first  map[uint64]string
	differ int
	others int // the same of programs that are linked elsewhere
}

// pass runs all seeds once.
func (h *hashes) pass(ctx context.Context, o *options, s surroundings) error {
	if s.busy {
		defer burn(o.jobs)()
	}
	err := sideBySide(o.jobs, o.seeds(ctx), func(seed uint64) error {
		result, err := s.program.run(ctx, job{seed: seed, env: s.env})
		if err != nil {
			return err
		}
		h.mutex.Lock()
		defer h.mutex.Unlock()
		did := result.Hash + " " + result.kind()
		if h.first[seed] == "" {
			h.first[seed] = did
		} else if did != h.first[seed] {
			if s.other {
				h.others++
			} else {
				h.differ++
			}
			fmt.Printf("seed %d, %s: %s, not %s\n", seed, s.name, did, h.first[seed])
		}
		return nil
	})
	return errors.Join(err, ctx.Err())
}

// burn takes processors until it is stopped.
func burn(n int) (stop func()) {
	stopped := make(chan struct{})
	for range n {
		go func() {
			for x := uint64(1); ; {
				for range 1_000_000 {
					x = x*6364136223846793005 + 1
				}
				select {
				case <-stopped:
					return
				default:
				}
			}
		}()
	}
	return func() { close(stopped) }
}
