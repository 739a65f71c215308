package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/coordd/coordd/conformance/mutation/plant"
	"github.com/coordd/coordd/conformance/sim/plan"
)

// defectFolders hold the planted defects: the simulation's own, and those of conformance/mutation, some of which it has
// to find as well.
var defectFolders = []string{"conformance/sim/testdata/defects", "conformance/mutation/testdata"}

// defects returns the planted defects of the repository at root that are wanted.
func defects(root string, wanted func(*plant.Defect) bool) ([]plant.Defect, error) {
	var list []plant.Defect
	for _, folder := range defectFolders {
		some, err := plant.Read(os.DirFS(root), folder)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	list = slices.DeleteFunc(list, func(d plant.Defect) bool { return !wanted(&d) })
	if len(list) == 0 {
		return nil, errors.New("no planted defect has such a name")
	}
	return list, nil
}

// named wants the defects with these names.
func named(names []string) func(*plant.Defect) bool {
	return func(d *plant.Defect) bool { return slices.Contains(names, d.Name) }
}

// buildWith builds the simulation with planted defects, of which none is in force.
func buildWith(ctx context.Context, name string, list []plant.Defect, processes bool) (built, error) {
	work, err := os.MkdirTemp("", "sim-planted-")
	if err != nil {
		return built{}, err
	}
	defer os.RemoveAll(work)
	replace, err := plant.All(".", work, list)
	if err != nil {
		return built{}, err
	}
	return build(ctx, name, variant{replace: replace, processes: processes})
}

// inForce is the environment that puts a defect into force.
func inForce(defect string) []string { return []string{plant.Variable + "=" + defect} }

// sabotage builds the simulation with planted defects, and wants each to make one of its first seeds fail.
func sabotage(ctx context.Context, o *options, base string) error {
	expression, err := regexp.Compile(o.sabotage)
	if err != nil {
		return err
	}
	list, err := defects(".", func(d *plant.Defect) bool { return d.Seeds > 0 && expression.MatchString(d.Name) })
	if err != nil {
		return err
	}
	b, err := buildWith(ctx, "sabotage.test", list, false)
	if err != nil {
		return err
	}
	if !b.patched {
		fmt.Println("sim: WARNING: no defect is looked for: most need the patched runtime")
		return nil
	}
	p := o.program(b, base)
	fmt.Println("| defect | what it breaks | found by seed | of those with | as |")
	fmt.Println("| --- | --- | --- | --- | --- |")
	var missed atomic.Int64
	next := 0
	err = sideBySide(o.jobs, func() (*plant.Defect, bool) {
		if next++; next > len(list) || ctx.Err() != nil {
			return nil, false
		}
		return &list[next-1], true
	}, func(d *plant.Defect) error {
		found, try, err := hunt(ctx, o, p, d)
		if err == nil && found.failure == "" {
			missed.Add(1)
			fmt.Printf("| %s | %s | none of %d | %s | |\n", d.Name, d.Breaks, o.tries(d), d.Mixture)
		} else if err == nil {
			fmt.Printf("| %s | %s | %d of %d | %s | %s |\n", d.Name, d.Breaks, try, d.Seeds, d.Mixture, found.sign())
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
func hunt(ctx context.Context, o *options, p *program, d *plant.Defect) (last outcome, try int, err error) {
	for seed := o.first(); try < o.tries(d); seed++ {
		if drawn := plan.Generate(seed); !strings.Contains(drawn.Profile, d.Mixture) {
			continue
		}
		try++
		if last, err = p.run(ctx, job{seed: seed, env: inForce(d.Name)}); err != nil {
			return last, try, err
		}
		if last.failure != "" {
			healthy, err := p.run(ctx, job{seed: seed})
			if err != nil || healthy.failure == "" {
				return last, try, err
			}
		}
	}
	return outcome{}, try, nil
}

// sign is the first line of a failure, shortened for a table.
func (o *outcome) sign() string {
	line, _, _ := strings.Cut(o.failure, "\n")
	if len(line) > 100 {
		line = line[:100] + "…"
	}
	return strings.ReplaceAll(line, "|", "/")
}
