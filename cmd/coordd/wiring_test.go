package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/group"
)

// TestCoded pins which exit code each kind of failure gets.
func TestCoded(t *testing.T) {
	onFile := func(cause error) error { return &fs.PathError{Op: "write", Path: "wal/1", Err: cause} }
	tests := []struct {
		name string
		err  error
		want exitCode
	}{
		{"none", nil, exitOK},
		{"directory in use", raftstore.ErrLocked, exitConfig},
		{"format of a newer program", &raftstore.FormatError{}, exitConfig},
		{"commands of a newer program", &raftstore.VersionError{}, exitConfig},
		{"a file that the configuration names", &server.ConfigError{Err: onFile(syscall.EIO)}, exitConfig},
		{"emptied directory", raftstore.ErrEmptied, exitConfig},
		{"another cluster", raftstore.ErrOtherCluster, exitConfig},
		{"damage", &raftstore.CorruptionError{}, exitStorage},
		{"another state than the majority's", &group.DivergedError{}, exitDiverged},
		{"another state, on a disk that fails", &group.DivergedError{Condemnation: onFile(syscall.EIO)},
			exitDiverged},
		{"condemned directory", &raftstore.CondemnedError{}, exitDiverged},
		{"port in use", &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)},
			exitFailure},
		{"port not permitted",
			&net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EACCES)}, exitFailure},
		{"name not found", &net.OpError{Op: "listen", Err: &net.DNSError{Name: "nowhere"}}, exitFailure},
		{"no permission", onFile(syscall.EACCES), exitConfig},
		{"not found", onFile(syscall.ENOENT), exitConfig},
		{"not a directory", onFile(syscall.ENOTDIR), exitConfig},
		{"read-only file system", onFile(syscall.EROFS), exitConfig},
		{"disk full", onFile(syscall.ENOSPC), exitStorage},
		{"disk broken", onFile(syscall.EIO), exitStorage},
		{"disk broken, bare error", syscall.EIO, exitStorage},
		{"anything else", errors.New("else"), exitFailure},
	}
	for _, test := range tests {
		if got := codeOf(coded(test.err)); got != test.want {
			t.Errorf("%s: got %d, want %d", test.name, got, test.want)
		}
		if test.err == nil {
			continue
		}
		wrapped := coded(fmt.Errorf("start: %w", test.err))
		if got := codeOf(wrapped); got != test.want || !errors.Is(wrapped, test.err) {
			t.Errorf("%s, wrapped: got %d (%v), want %d and the cause kept", test.name, got, wrapped,
				test.want)
		}
	}
}

// TestEmptiedDirectorySaysWhatToDo names the way back for a server whose disk is lost, and the settings that
// make two clusters of one.
func TestEmptiedDirectorySaysWhatToDo(t *testing.T) {
	for _, test := range []struct {
		err  error
		want []string
	}{
		{raftstore.ErrEmptied, []string{"coordd cluster remove", "coordd cluster add", "--join"}},
		{raftstore.ErrOtherCluster, []string{"--initial-cluster", "--cluster-token"}},
		{&group.DivergedError{Index: 77}, []string{"entry 77", "coordd cluster remove", "coordd cluster add",
			"--join"}},
		{&raftstore.CondemnedError{File: "condemned.txt", Reason: "why"},
			[]string{"condemned.txt", "why", "coordd cluster add", "--join"}},
	} {
		for _, want := range test.want {
			if text := coded(test.err).Error(); !strings.Contains(text, want) {
				t.Errorf("%q does not say %q", text, want)
			}
		}
	}
}

// TestRealServerInProcess runs the real server, and the examination of what it
// left, through a program inside the test process.
func TestRealServerInProcess(t *testing.T) {
	directory := t.TempDir()
	serving := newRun(nil)
	serving.start = startServer
	ready := announced{lines: make(chan string, 1)}
	serving.stdout = ready
	serving.begin("serve", "--listen=127.0.0.1:0", "--data-dir", directory)
	line := receive(t, ready.lines, serving.log.String)
	if !strings.HasPrefix(line, "grpc://127.0.0.1:") || !strings.HasSuffix(line, "/local\n") {
		t.Errorf("ready line %q", line)
	}
	serving.in <- syscall.SIGTERM
	if code := serving.wait(t); code != exitOK {
		t.Errorf("serve: exit code %d; stderr:\n%s", code, serving.log.String())
	}

	checking := newRun(nil)
	checking.check = checkDirectory
	if code := checking.program.run([]string{"check", "--data-dir", directory}); code != exitOK ||
		checking.out.String() == "" {
		t.Errorf("check: exit code %d, report %q; stderr:\n%s", code, checking.out.String(),
			checking.log.String())
	}

	store, err := raftstore.Open(raftstore.Config{Dir: directory})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.Condemn("a test says so"), store.Stop()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve", "--listen=127.0.0.1:0", "--data-dir", directory},
		{"check", "--data-dir", directory}} {
		condemned := newRun(nil)
		condemned.start, condemned.check = startServer, checkDirectory
		if code := condemned.program.run(args); code != exitDiverged ||
			!strings.Contains(condemned.log.String(), "a test says so") {
			t.Errorf("%s on a condemned directory: exit code %d; stderr:\n%s", args[0], code,
				condemned.log.String())
		}
	}
}
