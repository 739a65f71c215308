package main

import (
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// timerSlack is how much later than asked the system may end a sleep of this process.
	timerSlack = 500 * time.Microsecond
	// usualTimerSlack is what the system allows itself where nobody has said anything.
	usualTimerSlack = 50 * time.Microsecond
)

// easeTimers has sleeps end up to timerSlack late, for which the program begins anew.
//
// Go's runtime has a thread that looks after the others every 20 µs as long as anything goes on. On a server
// that mostly waits for its disk, these looks are most of what it does: with one client, two thirds of all
// changes of tasks and over a third of the processor time of a lock (docs/benchmarks.md). The system lets a
// thread ask for later wake-ups only for itself and for threads that it starts, and that one exists before
// main does. So the program asks for them and replaces itself.
//
// Whoever starts the program with another slack, as systemd does with TimerSlackNSec, has decided otherwise.
// Where the program cannot replace itself, it goes on as it is.
func easeTimers() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if timerSlackNow() != usualTimerSlack {
		return
	}
	path, err := os.Executable()
	if err != nil || unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0) != nil {
		return
	}
	_ = unix.Exec(path, os.Args, os.Environ())
}

// timerSlackNow is the slack of the calling thread, 0 if that is not known.
func timerSlackNow() time.Duration {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return 0
	}
	return time.Duration(slack)
}
