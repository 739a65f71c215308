package cmdline

import (
	"os"
	"os/signal"
	"syscall"
)

// Signals delivers the signals that ask the process to stop, from now on.
// It is called only by a command that reads them; all others keep the system's
// behaviour, which ends the process. It also lets a write to a closed pipe fail
// instead of killing the process: a server must outlive the reader of its log.
func Signals() <-chan os.Signal {
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 2) // one to stop, one to stop at once
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	return signals
}
