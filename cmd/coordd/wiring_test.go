package main

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/raftstore"
)

// TestRealServerInProcess runs the real server, and the examination of what it
// left, through a program inside the test process.
func TestRealServerInProcess(t *testing.T) {
	directory := t.TempDir()
	serving := newRun(nil)
	serving.start = serve.Start
	ready := announced{lines: make(chan string, 1)}
	serving.Stdout = ready
	serving.begin("serve", "--listen=127.0.0.1:0", "--data-dir", directory)
	line := receive(t, ready.lines, serving.log.String)
	if !strings.HasPrefix(line, "grpc://127.0.0.1:") || !strings.HasSuffix(line, "/local\n") {
		t.Errorf("ready line %q", line)
	}
	serving.in <- syscall.SIGTERM
	if code := serving.wait(t); code != exit.OK {
		t.Errorf("serve: exit code %d; stderr:\n%s", code, serving.log.String())
	}

	checking := newRun(nil)
	checking.check = checkDirectory
	if code := checking.run([]string{"check", "--data-dir", directory}); code != exit.OK ||
		checking.out.String() == "" {
		t.Errorf("check: exit code %d, report %q; stderr:\n%s", code, checking.out.String(),
			checking.log.String())
	}

	store, err := raftstore.Open(t.Context(), raftstore.Config{Dir: directory})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.Condemn("a test says so"), store.Stop()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve", "--listen=127.0.0.1:0", "--data-dir", directory},
		{"check", "--data-dir", directory}} {
		condemned := newRun(nil)
		condemned.start, condemned.check = serve.Start, checkDirectory
		if code := condemned.run(args); code != exit.Diverged ||
			!strings.Contains(condemned.log.String(), "a test says so") {
			t.Errorf("%s on a condemned directory: exit code %d; stderr:\n%s", args[0], code,
				condemned.log.String())
		}
	}
}
