// Package testlog has the servers of a test log into the test, which shows what they said if it fails.
package testlog

import (
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
)

// New returns the log of a test's server. It is part of the test's output until the test ends, from level
// info on, or from debug where the environment sets COORDD_TEST_LOG; those lines are written to standard
// error at once as well.
func New(t testing.TB) *slog.Logger {
	out := &output{to: t.Output()}
	t.Cleanup(out.end)
	if os.Getenv("COORDD_TEST_LOG") == "" {
		return slog.New(slog.NewTextHandler(out, nil))
	}
	return slog.New(slog.NewTextHandler(io.MultiWriter(os.Stderr, out),
		&slog.HandlerOptions{Level: slog.LevelDebug}))
}

// output is a test's output, which a goroutine that outlives the test must not write to.
type output struct {
	mutex sync.Mutex
	to    io.Writer // nil once the test has ended
}

func (o *output) end() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.to = nil
}

func (o *output) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.to == nil {
		return len(p), nil
	}
	return o.to.Write(p)
}
