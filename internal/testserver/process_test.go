//go:build unix

package testserver

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// script starts a shell in the place of coordd.
func script(t *testing.T, text string) *Process {
	t.Helper()
	return Launch(t, Config{Program: "/bin/sh", Args: []string{"-c", text}})
}

func TestReady(t *testing.T) {
	p := script(t, "echo 'connection=grpcs://h:1/local' >&2; echo grpc://127.0.0.1:1234/local; exec sleep 600")
	if address, err := p.Ready(); err != nil || address != "127.0.0.1:1234" || p.TLSAddress() != "h:1" {
		t.Errorf("%q, %v; TLS on %q", address, err, p.TLSAddress())
	}
	for _, text := range []string{"echo no room >&2; exit 3", "echo no room >&2; echo hello; exec sleep 600"} {
		p := script(t, text)
		if _, err := p.Ready(); err == nil || !strings.Contains(err.Error(), "no room") {
			t.Errorf("%s: %v, want what it logged", text, err)
		}
		<-p.Ended()
	}
}

func TestStop(t *testing.T) {
	p := script(t, "trap 'exit 0' TERM; echo a; while :; do sleep 0.01; done")
	p.FirstLine()
	if err := p.Stop(); err != nil || p.ExitCode() != 0 {
		t.Error(err)
	}
	p = script(t, "trap 'echo lost >&2; exit 2' TERM; printf 'a\\nb\\n'; while :; do sleep 0.01; done")
	p.FirstLine()
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("%v, want an exit code and the log", err)
	}
	if got := p.Lines(); p.ExitCode() != 2 || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("code %d, lines %q", p.ExitCode(), got)
	}
}

func TestKillPaused(t *testing.T) {
	p := script(t, "exec sleep 600")
	if err := p.Pause(); err != nil || !p.Paused() {
		t.Fatal(err)
	}
	p.Kill()
	if status := p.Command.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Error(p.Command.ProcessState)
	}
}

// TestCluster starts the program as the tests of other packages have it.
func TestCluster(t *testing.T) {
	servers := StartCluster(t, []string{"a", "b", "c"})
	first := servers[0]
	first.Kill()
	first.Start()
	if line := first.FirstLine(); line != first.Endpoint() {
		t.Errorf("it serves on %s, and %s before", line, first.Endpoint())
	}
	if filepath.Base(first.Data) != "a" || first.Peer == servers[1].Peer {
		t.Errorf("%+v, %+v", first, servers[1])
	}
}
