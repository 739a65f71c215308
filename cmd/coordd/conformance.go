package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
)

// conformanceFlags are what the user gives to `coordd conformance`, as text.
type conformanceFlags struct {
	callerFlags                 // where to go and who to be
	run, tag, file, junit, json cmdline.RawFlag
}

const conformanceText = `Replay the documented semantics as scripts on a server, coordd or YDB, and show
every difference. The scripts work in a directory of their own below the database,
which is made at the start and removed at the end; nothing else is touched. Scripts
that need more than a client can do (a fake clock, a restart, several servers) are
skipped, and the summary says so.

The exit code is 0 if nothing differs, 5 if something does, and otherwise as
'coordd help' lists.`

func conformanceCommand(env *cmdline.Env, all func() ([]*conformance.Script, error)) *cobra.Command {
	f := conformanceFlags{
		run: cmdline.RawFlag{Placeholder: "REGEXP"}, tag: cmdline.RawFlag{Placeholder: "TAG,..."},
		file:  cmdline.RawFlag{Placeholder: "FILE"},
		junit: cmdline.RawFlag{Placeholder: "FILE"}, json: cmdline.RawFlag{Placeholder: "FILE"},
	}
	command := &cobra.Command{
		Use:     "conformance",
		Short:   "Check that a server behaves as documented",
		Long:    conformanceText,
		Example: "  coordd conformance --run '^watch/both$' --junit report.xml",
		Args:    cmdline.NoArguments,
		RunE:    func(*cobra.Command, []string) error { return runConformance(env, &f, all) },
	}
	flags := command.Flags()
	f.declareClient(flags, "what 'coordd health' asks")
	flags.Var(&f.run, "run", "only the scripts whose name matches")
	flags.Var(&f.tag, "tag",
		"only the scripts that have one of these tags: a folder such as watch, a need such as wire, or differs")
	flags.Var(&f.file, "file",
		"this script instead of those that are built in, such as a recording of 'coordd-standin --record'")
	flags.Var(&f.junit, "junit", "write a JUnit report to this file")
	flags.Var(&f.json, "json", "write a JSON report to this file")
	return command
}

// endSlack is how long the removal of the directory may take after a stop request.
const endSlack = 20 * time.Second

func runConformance(env *cmdline.Env, f *conformanceFlags, all func() ([]*conformance.Script, error)) error {
	scripts, err := selectedScripts(f, all)
	if err != nil {
		return err
	}
	for name, file := range map[string]string{"junit": f.junit.Text, "json": f.json.Text} {
		if err := writable(file); err != nil {
			return exit.With(exit.Config, fmt.Errorf("flag --%s: %w", name, err))
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	login, cancel := context.WithTimeout(ctx, callerTimeout)
	defer cancel()
	at, config, err := endpointConfig(login, env, f)
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
		return at.unreached(err)
	}
	progress, done := progressOf(env), uint64(0)
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
	return errors.Join(reportResults(env, f, results, interrupted), server.Close(ending))
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

// endpointConfig reads the flags that say where to go, and logs in if one of them asks for it.
func endpointConfig(ctx context.Context, env *cmdline.Env, f *conformanceFlags) (
	at target, config conformance.EndpointConfig, err error) {
	f.asClient = true
	c, err := f.open(ctx, env)
	if err != nil {
		return at, config, err
	}
	defer c.Close()
	config.Address, config.Database = c.at.address, path.Clean(c.at.database)
	if c.at.encrypted {
		if config.Security, err = trust(f.caFile); err != nil {
			return c.at, config, err
		}
	}
	conn, err := c.Conn()
	if err == nil {
		config.Token, err = c.Token(ctx, conn)
	}
	return c.at, config, err
}

// selected are the scripts that the flags ask for, at least one.
func selectedScripts(f *conformanceFlags, all func() ([]*conformance.Script, error)) ([]*conformance.Script, error) {
	if f.file.Text != "" {
		return scriptOf(f)
	}
	var selection conformance.Selection
	if f.run.Text != "" {
		name, err := regexp.Compile(f.run.Text)
		if err != nil {
			return nil, exit.Usagef("flag --run: value %q is not allowed: %w", f.run.Text, err)
		}
		selection.Name = name
	}
	if f.tag.Text != "" {
		selection.Tags = strings.Split(f.tag.Text, ",")
	}
	scripts, err := all()
	if err != nil {
		return nil, err
	}
	if scripts = selection.Select(scripts); len(scripts) == 0 {
		return nil, exit.Usagef("no script matches --run %q --tag %q", f.run.Text, f.tag.Text)
	}
	return scripts, nil
}

// scriptOf reads the script that a flag names.
func scriptOf(f *conformanceFlags) ([]*conformance.Script, error) {
	if f.run.Text != "" || f.tag.Text != "" {
		return nil, exit.Usagef("flag --file: not together with --run or --tag, which choose among the scripts that " +
			"are built in")
	}
	text, err := os.ReadFile(f.file.Text)
	if err != nil {
		return nil, exit.With(exit.Config, fmt.Errorf("flag --file: %w", err))
	}
	script, err := conformance.Parse(strings.TrimSuffix(filepath.Base(f.file.Text), ".txt"), string(text))
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
func reportResults(env *cmdline.Env, f *conformanceFlags, results []conformance.Result, interrupted error) error {
	fmt.Fprintln(env.Stdout)
	problems := []error{conformance.PrintSummary(env.Stdout, results)}
	for _, report := range []struct {
		file  string
		write func(io.Writer, []conformance.Result) error
	}{{f.junit.Text, conformance.WriteJUnit}, {f.json.Text, conformance.WriteJSON}} {
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
