package main

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
)

// TestBinaryEasesItsTimers starts servers as the system does, and with another slack, which they keep. A
// server that has replaced itself is the process that was started, with its arguments and its output.
func TestBinaryEasesItsTimers(t *testing.T) {
	runtime.LockOSThread() // what is started inherits from this thread
	defer runtime.UnlockOSThread()
	before := serve.TimerSlackNow()
	defer unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(before), 0, 0, 0)
	for given, want := range map[time.Duration]time.Duration{serve.UsualTimerSlack: serve.TimerSlack,
		time.Millisecond: time.Millisecond, 1: 1} {
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(given), 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		p := spawn(t, "serve", "--listen=127.0.0.1:0", "--in-memory")
		p.ready(t)
		p.command.Process.Signal(syscall.SIGTERM)
		p.wantExit(t, exit.OK, fmt.Sprint("timer_slack=", want), "msg=serving", "msg=stopped")
	}
}

// TestBinaryReadsItsConfigOnce starts a server whose config comes from a pipe, which it can read once only,
// although it replaces itself.
func TestBinaryReadsItsConfigOnce(t *testing.T) {
	p := spawnFed(t, strings.NewReader("listen: 127.0.0.1:0\nin-memory: true\nlog-format: json\n"), nil,
		"serve", "--config=/dev/stdin")
	p.ready(t)
	p.command.Process.Signal(syscall.SIGTERM)
	p.wantExit(t, exit.OK, fmt.Sprintf(`"timer_slack":%d`, serve.TimerSlack), `"msg":"serving"`)
}
