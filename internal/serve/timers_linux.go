package serve

import (
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// TimerSlack is the time by which the system may end a sleep of this process late.
	TimerSlack = 500 * time.Microsecond
	// UsualTimerSlack is the kernel's default.
	UsualTimerSlack = 50 * time.Microsecond
)

// EaseTimers has sleeps end up to TimerSlack late, for which the program begins anew.
//
// Go's runtime has a thread that checks the others every 20 µs as long as anything goes on. On a server that mostly
// waits for its disk, these checks are most of the work: with one client, two thirds of all changes of tasks and over a
// third of the processor time of a lock (docs/dev/benchmarks.md). The system lets a thread ask for later wake-ups
// only for itself and for threads that it starts, and that one exists before main does. So the program asks for them
// and replaces itself.
//
// A program started with another slack, as by systemd with TimerSlackNSec, keeps it. Where the program cannot replace
// itself, it goes on as it is.
func EaseTimers() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if TimerSlackNow() != UsualTimerSlack {
		return
	}
	path, err := os.Executable()
	if err != nil || unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(TimerSlack), 0, 0, 0) != nil {
		return
	}
	_ = unix.Exec(path, os.Args, os.Environ())
}

// TimerSlackNow is the slack of the calling thread, 0 if that is not known.
func TimerSlackNow() time.Duration {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return 0
	}
	return time.Duration(slack)
}
