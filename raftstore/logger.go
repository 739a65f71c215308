package raftstore

import (
	"context"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
)

// raftLogger passes raft's messages on. Its information and warnings are our debugging: what an operator has
// to know of elections and members is told by chronicle.go.
type raftLogger struct{ out *slog.Logger }

var _ raft.Logger = raftLogger{}

func (l raftLogger) Debug(v ...any)                   { l.print(slog.LevelDebug, v) }
func (l raftLogger) Debugf(format string, v ...any)   { l.printf(slog.LevelDebug, format, v) }
func (l raftLogger) Info(v ...any)                    { l.print(slog.LevelDebug, v) }
func (l raftLogger) Infof(format string, v ...any)    { l.printf(slog.LevelDebug, format, v) }
func (l raftLogger) Warning(v ...any)                 { l.print(slog.LevelDebug, v) }
func (l raftLogger) Warningf(format string, v ...any) { l.printf(slog.LevelDebug, format, v) }
func (l raftLogger) Error(v ...any)                   { l.print(slog.LevelError, v) }
func (l raftLogger) Errorf(format string, v ...any)   { l.printf(slog.LevelError, format, v) }

// Fatal panics like Panic: ending the process is the decision of whoever wired it.
func (l raftLogger) Fatal(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
func (l raftLogger) Panic(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l raftLogger) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }

func (l raftLogger) print(level slog.Level, v []any) {
	if l.out.Enabled(context.Background(), level) {
		l.out.Log(context.Background(), level, "raft: "+fmt.Sprint(v...))
	}
}

func (l raftLogger) printf(level slog.Level, format string, v []any) {
	if l.out.Enabled(context.Background(), level) {
		l.out.Log(context.Background(), level, "raft: "+fmt.Sprintf(format, v...))
	}
}
