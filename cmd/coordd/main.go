package main

import (
	"os"

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/serve"
)

func main() {
	p := program{
		stdin:       os.Stdin,
		stdout:      os.Stdout,
		stderr:      os.Stderr,
		environment: os.Environ(),
		uid:         os.Geteuid(),
		signals:     cmdline.Signals,
		easeTimers:  serve.EaseTimers,
		start:       serve.Start,
		check:       checkDirectory,
		scripts:     conformance.Scripts,
		stopTimeout: serve.StopTimeout,
	}
	os.Exit(int(p.run(os.Args[1:])))
}
