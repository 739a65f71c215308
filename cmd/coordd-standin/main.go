package main

import (
	"os"
	"time"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
)

func main() {
	p := program{cmdline.OfProcess(), serve.StopTimeout}
	os.Exit(int(p.run(os.Args[1:])))
}

// program is one run of the command line.
type program struct {
	cmdline.Env
	// stopTimeout limits how long a stopping server waits for clients.
	stopTimeout time.Duration
}

// run carries out the command line and returns the exit code.
func (p *program) run(args []string) exit.Code {
	return cmdline.Run(&p.Env, p.command(), "ctl", args)
}
