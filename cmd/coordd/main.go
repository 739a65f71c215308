package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/coordd/coordd/conformance"
)

func main() {
	p := program{
		stdin:       os.Stdin,
		stdout:      os.Stdout,
		stderr:      os.Stderr,
		environment: os.Environ(),
		uid:         os.Geteuid(),
		signals:     processSignals,
		easeTimers:  easeTimers,
		start:       startServer,
		check:       checkDirectory,
		scripts:     conformance.Scripts,
		stopTimeout: stopTimeout,
	}
	os.Exit(int(p.run(os.Args[1:])))
}

// processSignals delivers the signals that ask the process to stop, from now on.
// It is called only by a command that reads them; all others keep the system's
// behaviour, which ends the process. It also lets a write to a closed pipe fail
// instead of killing the process: a server must outlive the reader of its log.
func processSignals() <-chan os.Signal {
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 2) // one to stop, one to stop at once
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	return signals
}
