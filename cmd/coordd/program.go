package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/raftstore"
)

// program is one run of the command line, with everything it takes from the
// process in its fields. A program is run once.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environment    cmdline.Environment
	uid            int // effective user id; 0 is root
	// signals starts the delivery of stop requests. The first one received stops
	// the server cleanly, the second at once.
	signals func() <-chan os.Signal
	// serve.EaseTimers comes before the server's settings are read, and may begin the program
	// anew; nil in tests.
	easeTimers func()
	start      serve.StartFunc
	check      checkFunc
	scripts    func() ([]*conformance.Script, error) // of `coordd conformance`
	// serve.StopTimeout is how long a stopping server may wait for clients.
	stopTimeout time.Duration

	callers   map[*cobra.Command]*callerFlags // of the commands that do what clients do
	passwords *bufio.Reader                   // stdin, once a password was read from it
}

// checkFunc examines a data directory that no server uses and returns what it
// found, also where it found damage, which is an error too, and nil if it
// examined nothing. It changes nothing. Errors carry their exit code.
type checkFunc func(directory string) (*raftstore.Report, error)

// run carries out the command line and returns the exit code. Whatever goes wrong
// is on stderr then, in lines that start with the program's name.
func (p *program) run(args []string) exit.Code {
	p.stdout, p.stderr = cmdline.Escaped(p.stdout), cmdline.Escaped(p.stderr)
	command, err := p.execute(args)
	var ended *commandEnded
	if err == nil || errors.As(err, &ended) {
		return exit.Of(err)
	}
	cmdline.Report(p.stderr, command, err)
	return exit.Of(err)
}
