package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/internal/testserver"
)

// TestBinaryEasesItsTimers starts servers with the slack that the system gives, and with another one, which they keep.
// A server that has replaced itself is the process that was started, with its arguments and its output.
func TestBinaryEasesItsTimers(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{serve.UsualTimerSlack: serve.TimerSlack,
		time.Millisecond: time.Millisecond, 1: 1} {
		p := &process{Process: testserver.Launch(t, testserver.Config{Program: "/bin/sh", Args: []string{"-c",
			fmt.Sprintf(`echo %d >/proc/$$/timerslack_ns && exec "$@"`, given.Nanoseconds()), "sh", binary, "serve",
			"--listen=127.0.0.1:0", "--in-memory"}})}
		p.ready(t)
		p.Command.Process.Signal(syscall.SIGTERM)
		p.wantExit(t, exit.OK, fmt.Sprint("timer_slack=", want), "msg=serving", "msg=stopped")
	}
}

// TestBinaryReadsItsConfigOnce starts a server whose config comes from a pipe, which it can read once only,
// although it replaces itself.
func TestBinaryReadsItsConfigOnce(t *testing.T) {
	p := spawnFed(t, strings.NewReader("listen: 127.0.0.1:0\nin-memory: true\nlog-format: json\n"), nil,
		"serve", "--config=/dev/stdin")
	p.ready(t)
	p.Command.Process.Signal(syscall.SIGTERM)
	p.wantExit(t, exit.OK, fmt.Sprintf(`"timer_slack":%d`, serve.TimerSlack), `"msg":"serving"`)
}
