package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/raftstore"
)

// program is one run of the command line, with everything it takes from the
// process in its fields. A program is run once.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environment    environment
	uid            int // effective user id; 0 is root
	// signals starts the delivery of stop requests. The first one received stops
	// the server cleanly, the second at once.
	signals func() <-chan os.Signal
	// easeTimers comes before the server's settings are read, and may begin the program
	// anew; nil in tests.
	easeTimers func()
	start      startFunc
	check      checkFunc
	scripts    func() ([]*conformance.Script, error) // of `coordd conformance`
	// stopTimeout is how long a stopping server may wait for clients.
	stopTimeout time.Duration

	callers map[*cobra.Command]*callerFlags // of the commands that do what clients do
	batch   *caller                         // of the commands of a batch; nil: each has its own
}

// runningServer is what the program needs of a server that has started.
type runningServer interface {
	// ConnectionString is what a client's driver is opened with.
	ConnectionString() string
	// TLSConnectionString is the same for the TLS listener, empty without one.
	TLSConnectionString() string
	// Done is closed when the server has ended by itself.
	Done() <-chan struct{}
	// Err says why, once Done is closed; nil for a server that did not fail.
	Err() error
	// Drained is closed when a stop has come so far that nobody is served any more
	// and only what is on disk is left to be closed.
	Drained() <-chan struct{}
	// Stop ends the server and returns when all it held is released, or with an
	// error when ctx ends first.
	Stop(ctx context.Context) error
}

// startFunc starts a server and returns when it serves; values say where the settings
// come from, for its errors. The end of ctx before
// that gives up; after it, ctx has no meaning. Errors carry their exit code.
type startFunc func(ctx context.Context, s settings, values map[string]given,
	logger *slog.Logger) (runningServer, error)

// checkFunc examines a data directory that no server uses and returns what it
// found, also where it found damage, which is an error too, and nil if it
// examined nothing. It changes nothing. Errors carry their exit code.
type checkFunc func(directory string) (*raftstore.Report, error)

// run carries out the command line and returns the exit code. Whatever goes wrong
// is on stderr then, in lines that start with the program's name.
func (p *program) run(args []string) exitCode {
	p.stdout, p.stderr = &escaper{w: p.stdout}, &escaper{w: p.stderr}
	command, err := p.execute(args)
	var ended *commandEnded
	if err == nil || errors.As(err, &ended) {
		return codeOf(err)
	}
	// An error has texts of a server in it, which must not look like lines of this program.
	fmt.Fprintf(p.stderr, "coordd: %s\n", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	if isUsage(err) {
		fmt.Fprintf(p.stderr, "Run '%s --help' for usage.\n", command)
	}
	return codeOf(err)
}

// newLogger makes the log that settings ask for.
func newLogger(w io.Writer, s settings) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.logLevel}
	if s.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
