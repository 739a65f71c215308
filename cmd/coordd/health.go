package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
)

const (
	// healthTimeout is what one question may take by default: less than container platforms wait.
	healthTimeout = 3 * time.Second
	// healthPause is the pause between two questions of --wait.
	healthPause = 100 * time.Millisecond
)

const healthText = `Ask a server whether it serves, and print one line: "serving", with what is wrong
all the same behind it, or "coordd: not serving: " and why, on stderr, with exit code
6. No token is needed, but a server that wants one keeps its reasons to itself.

Without --endpoint the server asked is the one of this machine that 'coordd serve'
would start with the same --config and environment: by the socket in its data directory, where it
has one that the caller may use, since its owner is told everything.`

// healthFlags are the flags of `coordd health`.
type healthFlags struct {
	connection callerFlags
	output     outputFlag
	timeout    time.Duration // of one question
	wait       time.Duration // 0: ask once
}

func healthCommand(env *cmdline.Env) *cobra.Command {
	var f healthFlags
	command := &cobra.Command{
		Use:     "health",
		Short:   "Ask whether a server serves",
		Long:    healthText,
		Example: "  coordd health\n  coordd health --wait 30s -o json",
		Args:    cmdline.NoArguments,
		RunE:    func(*cobra.Command, []string) error { return runHealth(env, &f) },
	}
	flags := command.Flags()
	flags.SortFlags = false
	f.connection.onlyAsks = true
	f.connection.declareDataDir(flags)
	f.connection.declareServer(flags,
		"the socket, or where there is none, from COORDD_LISTEN, grpc://127.0.0.1:2136/local")
	flags.DurationVar(&f.timeout, "timeout", healthTimeout, "how long the server may take to answer")
	flags.DurationVar(&f.wait, "wait", 0,
		"ask again until the server serves, for this long at most (default: ask once)")
	f.output.declareOutput(command)
	return command
}

func runHealth(env *cmdline.Env, f *healthFlags) error {
	if f.timeout <= 0 {
		return exit.Usagef("flag --timeout: value %q is not allowed: want a time above zero, such as 3s",
			f.timeout)
	}
	if f.wait < 0 {
		return exit.Usagef("flag --wait: value %q is not allowed: want a time, such as 30s", f.wait)
	}
	if err := f.output.check(); err != nil {
		return err
	}
	shown, err := f.untilServing(env)
	if err != nil {
		return err
	}
	if err := f.output.one(env.Stdout, shown, shown.text); err != nil || shown.Serving {
		return err
	}
	return exit.With(exit.NotServing, fmt.Errorf("not serving: %s", shown.issues()))
}

// healthShown is the health of a server, as the output has it.
type healthShown struct {
	Serving bool     `json:"serving"`
	Issues  []string `json:"issues"` // reasons why it does not serve, or faults in spite of which it serves
}

func (h *healthShown) issues() string { return strings.Join(h.Issues, "; ") }

// text is nothing for a server that does not serve: that is an error.
func (h *healthShown) text(w io.Writer) {
	switch {
	case h.Serving && len(h.Issues) > 0:
		fmt.Fprintf(w, "serving: %s\n", h.issues())
	case h.Serving:
		fmt.Fprintln(w, "serving")
	}
}

// untilServing asks until the server serves or the time is over, and returns the last answer. A mistake in the
// flags is not asked twice.
func (f *healthFlags) untilServing(env *cmdline.Env) (*healthShown, error) {
	ctx, cancel := context.WithTimeout(context.Background(), f.wait)
	defer cancel()
	pause := time.NewTicker(healthPause)
	defer pause.Stop()
	for {
		shown, err := f.ask(env)
		if err != nil || shown.Serving {
			return shown, err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return shown, nil
		}
	}
}

// ask connects anew, so that no question waits for gRPC's pause after a failed connection.
func (f *healthFlags) ask(env *cmdline.Env) (*healthShown, error) {
	ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
	defer cancel()
	client, err := f.connection.open(ctx, env)
	if exit.Of(err) == exit.NotServing {
		return &healthShown{Issues: []string{err.Error()}}, nil
	} else if err != nil {
		return nil, err
	}
	defer client.Close()
	serves, issues, err := client.serving(ctx)
	if err != nil {
		issues = []string{err.Error()}
	}
	return &healthShown{Serving: serves, Issues: append([]string{}, issues...)}, nil
}
