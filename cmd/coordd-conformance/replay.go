package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/tty"
)

// builtIn returns the scripts to choose from.
type builtIn func() ([]*conformance.Script, error)

// selectionFlags select the scripts, and name the reports.
type selectionFlags struct{ run, tag, file, junit, json string }

func (f *selectionFlags) declare(flags *pflag.FlagSet) {
	flags.StringVar(&f.run, "run", "", "only the scripts whose name matches this regular expression")
	flags.StringVar(&f.tag, "tag", "",
		"only the scripts that have one of these tags: a folder such as watch, a need such as wire, or differs")
	flags.StringVar(&f.file, "file", "",
		"this script instead of those that are built in, such as a recording of 'coordd-standin --record'")
	flags.StringVar(&f.junit, "junit", "", "write a JUnit report to this file")
	flags.StringVar(&f.json, "json", "", "write a JSON report to this file")
}

// loginMax limits how long a login may take, and endSlack the removal of the directory after a stop request.
const (
	loginMax = 10 * time.Second
	endSlack = 20 * time.Second
)

// replay runs the scripts that the flags select on the server that they name.
func replay(env *cmdline.Env, from *connectionFlags, of *selectionFlags, all builtIn) error {
	scripts, err := of.scripts(all)
	if err != nil {
		return err
	}
	for name, file := range map[string]string{"junit": of.junit, "json": of.json} {
		if err := writable(file); err != nil {
			return exit.With(exit.Config, fmt.Errorf("flag --%s: %w", name, err))
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	login, cancel := context.WithTimeout(ctx, loginMax)
	defer cancel()
	config, err := from.config(login, env)
	if err != nil {
		return err
	}
	signals := env.Signals()
	go func() {
		select {
		case <-signals:
			stop()
		case <-ctx.Done():
		}
	}()
	server, err := conformance.Dial(ctx, config)
	if err != nil {
		return unreached(config.Address, err)
	}
	progress, done := tty.NewProgress(cmdline.FileOf(env.Stderr)), uint64(0)
	results := conformance.RunAll(ctx, server, scripts, func(r conformance.Result) {
		progress.End()
		showResult(env, r)
		done++
		progress.Show("replaying", "scripts", done, uint64(len(scripts)))
	})
	progress.End()
	interrupted := ctx.Err()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endSlack)
	defer cancel()
	return errors.Join(reportResults(env, of, results, interrupted), server.Close(ending))
}

// writable finds out before the scripts run whether a report can be written behind them.
func writable(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

// scripts returns those that the flags ask for, at least one.
func (f *selectionFlags) scripts(all builtIn) ([]*conformance.Script, error) {
	if f.file != "" {
		return f.script()
	}
	var selection conformance.Selection
	if f.run != "" {
		name, err := regexp.Compile(f.run)
		if err != nil {
			return nil, exit.Usagef("flag --run: value %q is not allowed: %w", f.run, err)
		}
		selection.Name = name
	}
	if f.tag != "" {
		selection.Tags = strings.Split(f.tag, ",")
	}
	scripts, err := all()
	if err != nil {
		return nil, err
	}
	if scripts = selection.Select(scripts); len(scripts) == 0 {
		return nil, exit.Usagef("no script matches --run %q --tag %q", f.run, f.tag)
	}
	return scripts, nil
}

// script reads the one that a flag names.
func (f *selectionFlags) script() ([]*conformance.Script, error) {
	if f.run != "" || f.tag != "" {
		return nil, exit.Usagef("flag --file: not together with --run or --tag, which choose among the scripts that " +
			"are built in")
	}
	text, err := os.ReadFile(f.file)
	if err != nil {
		return nil, exit.With(exit.Config, fmt.Errorf("flag --file: %w", err))
	}
	script, err := conformance.Parse(strings.TrimSuffix(filepath.Base(f.file), ".txt"), string(text))
	if err != nil {
		return nil, exit.With(exit.Config, fmt.Errorf("flag --file: %w", err))
	}
	return []*conformance.Script{script}, nil
}

// showResult writes a line for a script, and what differs.
func showResult(env *cmdline.Env, r conformance.Result) {
	name := r.Script.Name
	switch r.Verdict() {
	case conformance.Same:
		fmt.Fprintf(env.Stdout, "same     %s (%v)\n", name, r.Took.Round(time.Millisecond))
	case conformance.Skipped:
		fmt.Fprintf(env.Stdout, "skipped  %s: %s\n", name, r.Outcome.Skipped)
	case conformance.Broken:
		fmt.Fprintf(env.Stdout, "BROKEN   %s: %v\n", name, r.Err)
	case conformance.Differs:
		fmt.Fprintf(env.Stdout, "DIFFERS  %s: %s\n", name, r.Script.Title)
		for _, known := range r.Script.Differs {
			fmt.Fprintf(env.Stdout, "known difference from YDB: %s\n", known)
		}
		fmt.Fprint(env.Stdout, r.Outcome.Diff)
	}
}

// reportResults writes the summary and the reports, and says in its error what is wrong.
func reportResults(env *cmdline.Env, f *selectionFlags, results []conformance.Result, interrupted error) error {
	fmt.Fprintln(env.Stdout)
	problems := []error{conformance.PrintSummary(env.Stdout, results)}
	for _, report := range []struct {
		file  string
		write func(io.Writer, []conformance.Result) error
	}{{f.junit, conformance.WriteJUnit}, {f.json, conformance.WriteJSON}} {
		if report.file == "" {
			continue
		}
		var content bytes.Buffer
		problems = append(problems, report.write(&content, results))
		if err := os.WriteFile(report.file, content.Bytes(), 0o644); err != nil {
			problems = append(problems, fmt.Errorf("write the report: %w", err))
		}
	}
	if failed := conformance.Failed(results); failed > 0 {
		problems = append(problems, exit.With(exit.Differs,
			fmt.Errorf("%d of %d scripts differ", failed, len(results))))
	}
	if interrupted != nil {
		problems = append(problems, fmt.Errorf("stopped after %d scripts", len(results)))
	}
	return errors.Join(problems...)
}
