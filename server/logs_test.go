package server

import (
	"log/slog"
	"strings"
)

// logger writes everything, also what is for debugging.
func (l *logText) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// with counts the lines that have all of the parts.
func (l *logText) with(parts ...string) (n int) {
	for line := range strings.Lines(l.content()) {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			n++
		}
	}
	return n
}

func (l *logText) content() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}
