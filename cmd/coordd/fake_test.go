package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/conformance/testlog"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/internal/tty"
	"github.com/coordd/coordd/raftstore/datadir"
)

// waitMax bounds every wait of these tests. It is only ever reached by a test
// that fails.
const waitMax = 30 * time.Second

// fakeServer is a server whose end the test decides.
type fakeServer struct {
	done chan struct{}
	err  error
	// stop is called by Stop; nil returns at once.
	stop    func(ctx context.Context) error
	stopped chan struct{}
	drained chan struct{} // closed by the test
}

func newFakeServer() *fakeServer {
	return &fakeServer{done: make(chan struct{}), stopped: make(chan struct{}, 1),
		drained: make(chan struct{})}
}

func (f *fakeServer) ConnectionString() string    { return "grpc://127.0.0.1:1/local" }
func (f *fakeServer) TLSConnectionString() string { return "" }
func (f *fakeServer) Done() <-chan struct{}       { return f.done }
func (f *fakeServer) Err() error                  { return f.err }
func (f *fakeServer) Drained() <-chan struct{}    { return f.drained }
func (f *fakeServer) Stop(ctx context.Context) error {
	f.stopped <- struct{}{}
	if f.stop == nil {
		return nil
	}
	return f.stop(ctx)
}

// run is a command line in the test process.
type run struct {
	cmdline.Env
	seams
	out, log testlog.Buffer
	in       chan os.Signal
	code     chan exit.Code
	got      serve.Settings // what start was called with
}

// newRun makes a command line whose start returns server. The environment is the given
// lines and nothing else, and the user is not root.
func newRun(server serve.Server, environment ...string) *run {
	r := &run{in: make(chan os.Signal, 2), code: make(chan exit.Code, 1)}
	r.Env = cmdline.Env{
		Stdin:   &bytes.Buffer{},
		Stdout:  &r.out,
		Stderr:  &r.log,
		Environ: environment,
		UID:     1000,
		Signals: func() <-chan os.Signal { return r.in },
	}
	r.seams = seams{
		start: func(_ context.Context, s serve.Settings, _ map[string]serve.Given,
			_ *slog.Logger) (serve.Server, error) {
			r.got = s
			return server, nil
		},
		check:       func(string, *tty.Progress) (*datadir.Report, error) { return nil, nil },
		stopTimeout: waitMax,
	}
	return r
}

// run carries out a command line.
func (r *run) run(args []string) exit.Code { return runCommand(r.Env, r.seams, args) }

func (r *run) begin(args ...string) {
	go func() { r.code <- r.run(args) }()
}

// wait returns the exit code of a run that was begun.
func (r *run) wait(t *testing.T) exit.Code {
	t.Helper()
	return receive(t, r.code, func() string { return "the program did not end; stderr:\n" + r.log.String() })
}

// served runs the arguments with a stop request already waiting and returns the
// settings that the server was started with.
func served(t *testing.T, environment []string, args ...string) serve.Settings {
	t.Helper()
	r := newRun(newFakeServer(), environment...)
	r.in <- syscall.SIGTERM
	r.begin(args...)
	if code := r.wait(t); code != exit.OK {
		t.Fatalf("exit code %d, want 0; stderr:\n%s", code, r.log.String())
	}
	return r.got
}

// receive waits for a value; describe is asked for words when none comes.
func receive[T any](t *testing.T, from <-chan T, describe func() string) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(waitMax):
		t.Fatal(describe())
		panic("unreachable")
	}
}
