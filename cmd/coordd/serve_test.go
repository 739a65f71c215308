package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/internal/tty"
	"github.com/coordd/coordd/raftstore/datadir"
)

// announced is the writer of a program's stdout: it says when it was written to.
type announced struct {
	lines chan string
	err   error
}

func (a announced) Write(part []byte) (int, error) {
	a.lines <- string(part)
	return len(part), a.err
}

var home = []string{"HOME=/home/u"}

// beginServing starts a program on the server and returns when it is ready.
func beginServing(t *testing.T, server serve.Server, args ...string) *run {
	t.Helper()
	return beginServingFor(t, server, waitMax, args...)
}

// beginServingFor is beginServing with the time that a stop may take.
func beginServingFor(t *testing.T, server serve.Server, stopTimeout time.Duration, args ...string) *run {
	t.Helper()
	r := newRun(server, home...)
	r.stopTimeout = stopTimeout
	ready := announced{lines: make(chan string, 4)}
	r.Stdout = ready
	r.begin(append([]string{"serve"}, args...)...)
	if line := receive(t, ready.lines, r.log.String); line != server.ConnectionString()+"\n" {
		t.Fatalf("ready line %q, want the connection string", line)
	}
	t.Cleanup(func() {
		if len(ready.lines) > 0 {
			t.Errorf("more than one line on stdout: %q", <-ready.lines)
		}
	})
	return r
}

// TestStopSignals wants a clean stop for both signals.
func TestStopSignals(t *testing.T) {
	for _, sent := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		server := newFakeServer()
		r := beginServing(t, server)
		r.in <- sent
		if code := r.wait(t); code != exit.OK {
			t.Errorf("%v: exit code %d, want 0", sent, code)
		}
		receive(t, server.stopped, func() string { return "the server was not stopped" })
	}
}

// TestSecondSignal wants the end at once while the server is still stopping.
func TestSecondSignal(t *testing.T) {
	server := newFakeServer()
	hang := make(chan struct{})
	defer close(hang)
	server.stop = func(context.Context) error { <-hang; return nil }
	r := beginServing(t, server)
	r.in <- syscall.SIGTERM
	receive(t, server.stopped, func() string { return "the server was not stopped" })
	r.in <- syscall.SIGINT
	if code := r.wait(t); code != exit.Failure {
		t.Errorf("exit code %d, want 1", code)
	}
	inOrder(t, r.log.String(), []string{"coordd: stopped at once by a second signal"})
}

// TestStopTakesTooLong covers a server that obeys the end of its time and one
// that does not.
func TestStopTakesTooLong(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	for name, stop := range map[string]func(context.Context) error{
		"obeys": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"hangs": func(context.Context) error { <-hang; return nil },
	} {
		server := newFakeServer()
		server.stop = stop
		r := beginServingFor(t, server, time.Millisecond)
		r.in <- syscall.SIGTERM
		if code := r.wait(t); code != exit.Failure {
			t.Errorf("%s: exit code %d, want 1", name, code)
		}
		inOrder(t, r.log.String(), []string{"coordd: stop: "})
	}
}

// TestStopWaitsForTheDisk wants a clean end of a server that has told everybody and
// waits for a disk that does not answer, and the reason in the log.
func TestStopWaitsForTheDisk(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	server := newFakeServer()
	close(server.drained)
	server.stop = func(context.Context) error { <-hang; return nil }
	r := beginServingFor(t, server, time.Millisecond)
	r.in <- syscall.SIGTERM
	if code := r.wait(t); code != exit.OK {
		t.Errorf("exit code %d, want 0", code)
	}
	inOrder(t, r.log.String(), []string{"the disk, or work that was under way",
		"nothing acknowledged is lost"})
}

// TestStartOutlivesASignal wants the end of a process whose start does not notice
// that it is to give up.
func TestStartOutlivesASignal(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	r := newRun(nil, home...)
	r.stopTimeout = time.Millisecond
	r.start = func(context.Context, serve.Settings, map[string]serve.Given, *slog.Logger) (serve.Server, error) {
		<-hang
		return nil, nil
	}
	r.in <- syscall.SIGTERM
	r.begin("serve")
	if code := r.wait(t); code != exit.OK {
		t.Errorf("exit code %d, want 0", code)
	}
	inOrder(t, r.log.String(), []string{"the start is still under way"})
}

// TestServerFails wants the reason in the message and its code, and everything
// released.
func TestServerFails(t *testing.T) {
	server := newFakeServer()
	server.err = exit.With(exit.Storage, errors.New("fdatasync wal/1: input/output error"))
	server.stop = func(context.Context) error { return errors.New("already broken") }
	r := beginServing(t, server, "--data-dir", "/d")
	close(server.done)
	if code := r.wait(t); code != exit.Storage {
		t.Errorf("exit code %d, want 3", code)
	}
	inOrder(t, r.log.String(), []string{"already broken",
		"coordd: data directory /d (flag --data-dir): fdatasync wal/1: input/output error"})
	receive(t, server.stopped, func() string { return "the server was not stopped" })
}

// TestFailsWhileStopping must not look like a clean stop either.
func TestFailsWhileStopping(t *testing.T) {
	server := newFakeServer()
	server.stop = func(context.Context) error {
		server.err = exit.With(exit.Storage, errors.New("last write failed"))
		return nil
	}
	r := beginServing(t, server)
	r.in <- syscall.SIGTERM
	if code := r.wait(t); code != exit.Storage {
		t.Errorf("exit code %d, want 3", code)
	}
	inOrder(t, r.log.String(), []string{"coordd: data directory ", "last write failed"})
}

// TestServerFailsWithoutReason must not look like a clean stop.
func TestServerFailsWithoutReason(t *testing.T) {
	server := newFakeServer()
	r := beginServing(t, server)
	close(server.done)
	if code := r.wait(t); code != exit.Failure {
		t.Errorf("exit code %d, want 1", code)
	}
}

// TestStartFails maps the error of a start to the exit code and names the
// directory where the error is about it.
func TestStartFails(t *testing.T) {
	cause := errors.New("cause")
	tests := []struct {
		err  error
		code exit.Code
		want string
	}{
		{cause, exit.Failure, "coordd: cause"},
		{exit.With(exit.Failure, cause), exit.Failure, "coordd: cause"},
		{exit.With(exit.Storage, cause), exit.Storage,
			"coordd: data directory /home/u/.local/state/coordd (default): cause"},
		{exit.With(exit.Config, cause), exit.Config,
			"coordd: data directory /home/u/.local/state/coordd (default): cause"},
	}
	for _, test := range tests {
		r := newRun(nil, home...)
		r.start = func(context.Context, serve.Settings, map[string]serve.Given, *slog.Logger) (serve.Server, error) {
			return nil, test.err
		}
		r.begin("serve", "--log-level=error")
		if code := r.wait(t); code != test.code {
			t.Errorf("%v: exit code %d, want %d", test.err, code, test.code)
		}
		if got := r.log.String(); got != test.want+"\n" {
			t.Errorf("stderr %q, want %q", got, test.want)
		}
	}
}

// TestSignalWhileStarting covers a start that gives up, one that succeeds all the
// same, one that fails for a reason of its own, and one that never returns.
func TestSignalWhileStarting(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	server := newFakeServer()
	tests := []struct {
		name  string
		start func(context.Context) (serve.Server, error)
		again bool // a second signal is sent
		code  exit.Code
	}{
		{"gives up", func(ctx context.Context) (serve.Server, error) { <-ctx.Done(); return nil, ctx.Err() },
			false, exit.OK},
		{"succeeds", func(ctx context.Context) (serve.Server, error) { <-ctx.Done(); return server, nil },
			false, exit.OK},
		{"fails", func(ctx context.Context) (serve.Server, error) {
			<-ctx.Done()
			return nil, exit.With(exit.Storage, errors.New("damaged"))
		}, false, exit.Storage},
		{"hangs", func(context.Context) (serve.Server, error) { <-hang; return nil, nil }, true,
			exit.Failure},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRun(nil, home...)
			starting := make(chan struct{})
			r.start = func(ctx context.Context, _ serve.Settings, _ map[string]serve.Given,
				_ *slog.Logger) (serve.Server, error) {
				close(starting)
				return test.start(ctx)
			}
			r.begin("serve")
			receive(t, starting, r.log.String)
			r.in <- syscall.SIGTERM
			if test.again {
				r.in <- syscall.SIGTERM
			}
			if code := r.wait(t); code != test.code {
				t.Errorf("exit code %d, want %d; stderr:\n%s", code, test.code, r.log.String())
			}
			if r.out.String() != "" {
				t.Errorf("stdout %q, want nothing: the server was never ready", r.out.String())
			}
		})
	}
	receive(t, server.stopped, func() string { return "the server that started was not stopped" })
}

// TestStdoutGone wants the server to outlive the reader of its stdout.
func TestStdoutGone(t *testing.T) {
	r := newRun(newFakeServer(), home...)
	ready := announced{lines: make(chan string, 1), err: syscall.EPIPE}
	r.Stdout = ready
	r.begin("serve")
	receive(t, ready.lines, r.log.String)
	r.in <- syscall.SIGTERM
	if code := r.wait(t); code != exit.OK {
		t.Errorf("exit code %d, want 0", code)
	}
	inOrder(t, r.log.String(), []string{"cannot print the connection string", "stopped"})
}

// TestLog covers the level, the form and the warnings.
func TestLog(t *testing.T) {
	log := func(args ...string) string {
		r := newRun(newFakeServer(), "HOME=/home/u", "COORDD_LOGLEVEL=debug", "COORDD_DATABASE=/db")
		r.in <- syscall.SIGTERM
		r.begin(append([]string{"serve"}, args...)...)
		if code := r.wait(t); code != exit.OK {
			t.Fatalf("%q: exit code %d; stderr:\n%s", args, code, r.log.String())
		}
		return r.log.String()
	}
	if got := log("--log-level=error", "--listen=:0"); got != "" {
		t.Errorf("level error: %q, want nothing", got)
	}
	warnings := log("--log-level=warn", "--listen=:0")
	inOrder(t, warnings, []string{"COORDD_LOGLEVEL is not known", "COORDD_LOG_LEVEL?", "nothing is encrypted",
		"listen=:0"})
	if strings.Contains(warnings, "level=INFO") {
		t.Errorf("level warn has messages of level info: %q", warnings)
	}
	if got := log(); strings.Contains(got, "encrypted") {
		t.Errorf("warning about a listener on the loopback interface: %q", got)
	}
	inOrder(t, log("--log-level=debug"), []string{"name=database", "value=/db",
		`from="variable COORDD_DATABASE"`})
	for line := range strings.Lines(log("--log-format=json")) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %q", line)
		}
	}
}

// TestCheck wants the report on stdout, the directory in the error and the code
// that the examination gave.
func TestCheck(t *testing.T) {
	report := &datadir.Report{Cluster: 1, Member: 2, FirstIndex: 1, LastIndex: 3}
	tests := []struct {
		report *datadir.Report
		err    error
		code   exit.Code
		out    string
		log    string
	}{
		{report, nil, exit.OK, report.String(), ""},
		{report, exit.With(exit.Storage, errors.New("entry 2: bad checksum")), exit.Storage, report.String(),
			"coordd: data directory /d (variable COORDD_DATA_DIR): entry 2: bad checksum\n"},
		{nil, exit.With(exit.Config, errors.New("in use")), exit.Config, "",
			"coordd: data directory /d (variable COORDD_DATA_DIR): in use\n"},
	}
	for _, test := range tests {
		r := newRun(nil, "COORDD_DATA_DIR=/d")
		r.check = func(directory string, _ *tty.Progress) (*datadir.Report, error) {
			if directory != "/d" {
				t.Errorf("checked %q, want /d", directory)
			}
			return test.report, test.err
		}
		code := r.run([]string{"check"})
		if code != test.code || r.out.String() != test.out || r.log.String() != test.log {
			t.Errorf("got code %d, stdout %q, stderr %q; want %d, %q, %q",
				code, r.out.String(), r.log.String(), test.code, test.out, test.log)
		}
	}
}
