package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/conformance/bench/stub"
	"github.com/coordd/coordd/internal/testserver"
)

// TestStubServesTheLoads runs every workload that is compared with the stub: a wrong answer is an error of the
// load.
func TestStubServesTheLoads(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log, err := stub.OpenLog(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	server := stub.New(log)
	defer server.Stop()
	go func() { _ = server.Serve(listener) }()
	address := listener.Addr().String()
	if err := attachOnce(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	c := &contestant{name: bare, client: rawClient, servers: servers{{address: address,
		running: &testserver.Process{Command: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}}}}
	b := &bench{book: newBook(), settings: settings{runs: 2}, length: 20 * time.Millisecond} // what is left is in nobody's way
	b.measureLocks(t.Context(), []*contestant{c}, false, 1)
	b.measureLocks(t.Context(), []*contestant{c}, false, 4)
	b.measureLocks(t.Context(), []*contestant{c}, true, 4)
	b.measureWatch(t.Context(), []*contestant{c}, w3, 4)
	b.measureList(t.Context(), []*contestant{c}, 4)
	if err := b.failure(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []cell{{w1, 1, pairsFigure}, {w1, 1, askedFigure}, {w1, 4, p99Figure},
		{w2, 4, handsFigure}, {w3, 4, toldFigure}, {w5, 4, listsFigure}} {
		if got := b.book.values[want][bare]; len(got) != b.runs || slices.Min(got) <= 0 {
			t.Errorf("%v: %v", want, got)
		}
	}
}
