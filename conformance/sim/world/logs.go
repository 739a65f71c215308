package world

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/coordd/coordd/conformance/sim/rt"
)

// logsKept is the number of bytes of the servers' logs that are kept at least.
const logsKept = 4 << 20

// logs keeps the last logs of all servers, always at level debug: formatting a line takes turns and asks for the time,
// so a run with other logs would be another run.
type logs struct {
	mutex     sync.Mutex
	old, last bytes.Buffer
	counts    map[string]int64 // by message; the marks from 0
}

func newLogs() *logs {
	l := &logs{counts: map[string]int64{}}
	for _, mark := range marks {
		l.counts[mark] = 0
	}
	return l
}

// Write implements io.Writer.
func (l *logs) Write(line []byte) (int, error) {
	rt.As(rt.World, func() {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		if l.last.Len()+len(line) > logsKept {
			l.old, l.last = l.last, bytes.Buffer{}
		}
		l.last.Write(line)
	})
	return len(line), nil
}

func (l *logs) text() []byte { return append(l.old.Bytes(), l.last.Bytes()...) }

// logger returns a logger for one life of a server. Lives share no lock: one may end for ever while it holds it.
func (l *logs) logger() *slog.Logger {
	return slog.New(counting{slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}), l})
}

// counting is a handler that counts messages.
type counting struct {
	slog.Handler
	logs *logs
}

// Handle implements slog.Handler.
func (c counting) Handle(ctx context.Context, r slog.Record) error {
	if !strings.HasPrefix(r.Message, "raft: ") { // those have numbers in them
		c.logs.mark(r.Message)
	}
	return c.Handler.Handle(ctx, r)
}

// mark counts a message, or a reason.
func (l *logs) mark(text string) {
	rt.As(rt.World, func() {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.counts[text]++
	})
}

// WithAttrs implements slog.Handler.
func (c counting) WithAttrs(attrs []slog.Attr) slog.Handler {
	return counting{c.Handler.WithAttrs(attrs), c.logs}
}

// WithGroup implements slog.Handler.
func (c counting) WithGroup(name string) slog.Handler {
	return counting{c.Handler.WithGroup(name), c.logs}
}
