package cmdline

import (
	"bufio"
	"io"
	"os"
)

// Env is everything that a command line takes from its process, for one run. Tests fill in their own.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        Environment
	UID            int // effective user id; 0 is root
	// Signals starts the delivery of stop requests. The first one received stops a server cleanly, the second at once.
	Signals func() <-chan os.Signal

	lines *bufio.Reader // Stdin, once lines of it are read
}

// OfProcess returns the Env of this process.
func OfProcess() Env {
	return Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), UID: os.Geteuid(),
		Signals: Signals}
}

// StdinLines returns the one reader that reads lines of Stdin: it may have read ahead.
func (e *Env) StdinLines() *bufio.Reader {
	if e.lines == nil {
		e.lines = bufio.NewReader(e.Stdin)
	}
	return e.lines
}
