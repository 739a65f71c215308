package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coordd/coordd/conformance/testlog"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/testserver"
)

const (
	// waitMax bounds every wait of these tests. It is only ever reached by a test that fails.
	waitMax = 30 * time.Second
	// root is the top of the repository, seen from this package.
	root = "../.."
)

// binary is the program as users get it, coordd the one beside it; both are built once for all tests.
var binary, coordd string

func TestMain(m *testing.M) {
	var err, errCoordd error
	binary, err = testserver.StandIn()
	coordd, errCoordd = testserver.Program()
	if err := errors.Join(err, errCoordd); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// run is a program in the test process.
type run struct {
	out, log testlog.Buffer
	in       chan os.Signal
	code     chan exit.Code
}

// begin starts a program whose environment is the given lines and nothing else.
func begin(environment []string, args ...string) *run {
	r := &run{in: make(chan os.Signal, 2), code: make(chan exit.Code, 1)}
	p := program{cmdline.Env{Stdout: &r.out, Stderr: &r.log, Environ: environment,
		Signals: func() <-chan os.Signal { return r.in }}, waitMax}
	go func() { r.code <- p.run(args) }()
	return r
}

// wait returns the exit code.
func (r *run) wait(t *testing.T) exit.Code {
	t.Helper()
	select {
	case code := <-r.code:
		return code
	case <-time.After(waitMax):
		t.Fatalf("the program did not end; stderr:\n%s", r.log.String())
		panic("unreachable")
	}
}

// spawn starts the binary with an environment of its own.
func spawn(t *testing.T, environment []string, args ...string) *testserver.Process {
	t.Helper()
	return testserver.Launch(t, testserver.Config{Program: binary, Args: args,
		Env: append([]string{"HOME=" + t.TempDir()}, environment...)})
}
