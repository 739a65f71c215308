package main

import (
	"io"
	"os"
	"time"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
)

func main() {
	p := program{
		stdout:      os.Stdout,
		stderr:      os.Stderr,
		environment: os.Environ(),
		signals:     cmdline.Signals,
		stopTimeout: serve.StopTimeout,
	}
	os.Exit(int(p.run(os.Args[1:])))
}

// program is one run of the command line, with everything it takes from the process in its fields. A program is run
// once.
type program struct {
	stdout, stderr io.Writer
	environment    cmdline.Environment
	// signals starts the delivery of stop requests.
	signals func() <-chan os.Signal
	// stopTimeout limits how long a stopping server waits for clients.
	stopTimeout time.Duration
}

// run carries out the command line and returns the exit code.
func (p *program) run(args []string) exit.Code {
	p.stdout, p.stderr = cmdline.Escaped(p.stdout), cmdline.Escaped(p.stderr)
	root := p.command()
	cmdline.Prepare(root, "ctl", p.stdout, p.stderr)
	command, err := cmdline.Execute(root, args)
	if err != nil {
		cmdline.Report(p.stderr, command.CommandPath(), err)
	}
	return exit.Of(err)
}
