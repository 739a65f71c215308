package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/coordd/coordd/conformance/sim/plan"
)

// chancesOfPlan is the number of seeds within which a plan has to fail with a defect. The first is its own. Each change
// of the code moves what goroutines do when, so a plan that once failed with its own seed may need another one.
const chancesOfPlan = 20

// plans runs the plans of a folder. Each has to pass, and to fail with each of the planted defects that it names.
func plans(ctx context.Context, o *options, base string) error {
	files, list, err := readPlans(o.plans)
	if err != nil {
		return err
	}
	var names []string
	for _, p := range list {
		names = append(names, p.Defects...)
	}
	planted, err := defects(".", named(names))
	if err != nil {
		return err
	}
	b, err := buildWith(ctx, "plans.test", planted, false)
	if err != nil {
		return err
	}
	p := o.program(b, base)
	var problem error
	fmt.Println("| plan | with the defect | fails at try | as |\n| --- | --- | --- | --- |")
	for i, file := range files {
		healthy, err := p.run(ctx, job{seed: list[i].Seed, plan: file})
		if err != nil {
			return err
		}
		if healthy.failure != "" {
			problem = errFound
			fmt.Printf("| %s | without any | 1 | %s |\n", filepath.Base(file), healthy.sign())
		}
		if !b.patched {
			continue
		}
		for _, defect := range list[i].Defects {
			try, found, err := bites(ctx, p, list[i], defect)
			if err != nil {
				return err
			}
			if try == 0 {
				problem = errFound
			}
			fmt.Printf("| %s | %s | %d | %s |\n", filepath.Base(file), defect, try, found.sign())
		}
	}
	return problem
}

// readPlans reads the plans of a folder.
func readPlans(dir string) (files []string, list []plan.Plan, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, nil, err
	}
	if files, err = filepath.Glob(filepath.Join(dir, "*.json")); err == nil && files == nil {
		err = fmt.Errorf("%s has no plan", dir)
	}
	for _, file := range files {
		p, problem := plan.Read(file)
		err = errors.Join(err, problem)
		list = append(list, p)
	}
	return files, list, err
}

// bites returns the first try in which a plan fails with a defect, and passes without; 0 if no try does.
func bites(ctx context.Context, p *program, tried plan.Plan, defect string) (try int, with outcome, err error) {
	file := filepath.Join(p.base, "plan.json")
	for try := range chancesOfPlan {
		if err := tried.Write(file); err != nil {
			return 0, with, err
		}
		j := job{seed: tried.Seed, plan: file}
		without, err := p.run(ctx, j)
		if err != nil {
			return 0, with, err
		}
		j.env = inForce(defect)
		if with, err = p.run(ctx, j); err != nil {
			return 0, with, err
		}
		if with.failure != "" && without.failure == "" {
			return try + 1, with, nil
		}
		tried.Seed++
	}
	return 0, with, nil
}
