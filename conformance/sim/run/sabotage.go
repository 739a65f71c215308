package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/coordd/coordd/conformance/mutation/plant"
)

// defectFolders hold the planted defects: the simulation's own, and those of conformance/mutation, some of which it has
// to find as well.
var defectFolders = []string{"conformance/sim/testdata/defects", "conformance/mutation/testdata"}

// defects returns the defects that the simulation has to find and whose names match.
func defects(match string) ([]plant.Defect, error) {
	expression, err := regexp.Compile(match)
	if err != nil {
		return nil, err
	}
	var list []plant.Defect
	for _, folder := range defectFolders {
		some, err := plant.Read(os.DirFS("."), folder)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	list = slices.DeleteFunc(list, func(d plant.Defect) bool {
		return d.Seeds == 0 || !expression.MatchString(d.Name)
	})
	if len(list) == 0 {
		return nil, fmt.Errorf("no planted defect matches %q", match)
	}
	return list, nil
}

// sabotage builds the simulation with planted defects, and wants each to make one of its first seeds fail.
func sabotage(ctx context.Context, o *options, base string) error {
	list, err := defects(o.sabotage)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "sim-planted-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	replace, err := plant.All(".", work, list)
	if err != nil {
		return err
	}
	b, err := build(ctx, "sabotage.test", variant{replace: replace})
	if err != nil {
		return err
	}
	if !b.patched {
		fmt.Println("sim: WARNING: no defect is looked for: most need the patched runtime")
		return nil
	}
	p := o.program(b, base)
	fmt.Println("| defect | what it breaks | found by seed | as |")
	fmt.Println("| --- | --- | --- | --- |")
	var missed atomic.Int64
	next := 0
	err = sideBySide(o.jobs, func() (*plant.Defect, bool) {
		if next++; next > len(list) || ctx.Err() != nil {
			return nil, false
		}
		return &list[next-1], true
	}, func(d *plant.Defect) error {
		found, err := hunt(ctx, o, p, d)
		if err == nil && found.failure == "" {
			missed.Add(1)
			fmt.Printf("| %s | %s | none of %d | |\n", d.Name, d.Breaks, o.tries(d))
		} else if err == nil {
			fmt.Printf("| %s | %s | %d of %d | %s |\n", d.Name, d.Breaks, found.Seed-o.first()+1, d.Seeds, found.sign())
		}
		return err
	})
	if err == nil && missed.Load() > 0 {
		err = fmt.Errorf("%d of %d planted defects were not found", missed.Load(), len(list))
	}
	return err
}

// first is the first seed that defects are tried with: 1, unless the options name one.
func (o *options) first() uint64 {
	if o.drawn {
		return 1
	}
	return o.from
}

// tries returns the number of seeds for a defect. Option -n bounds it.
func (o *options) tries(d *plant.Defect) int {
	if o.n > 0 {
		return min(d.Seeds, o.n)
	}
	return d.Seeds
}

// hunt tries seeds until one fails with the defect, and passes without.
func hunt(ctx context.Context, o *options, p *program, d *plant.Defect) (outcome, error) {
	var last outcome
	for i := range o.tries(d) {
		var err error
		last, err = p.run(ctx, job{seed: o.first() + uint64(i), env: []string{plant.Variable + "=" + d.Name}})
		if err != nil {
			return last, err
		}
		if last.failure != "" {
			healthy, err := p.run(ctx, job{seed: last.Seed})
			if err != nil || healthy.failure == "" {
				return last, err
			}
		}
	}
	return outcome{}, nil
}

// sign is the first line of a failure, shortened for a table.
func (o *outcome) sign() string {
	line, _, _ := strings.Cut(o.failure, "\n")
	if len(line) > 100 {
		line = line[:100] + "…"
	}
	return strings.ReplaceAll(line, "|", "/")
}
