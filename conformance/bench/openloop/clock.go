package openloop

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic is the clock of the machine. It belongs to the goroutine that has begun it.
type Monotonic struct {
	begun time.Time
	nanos int64 // the same moment on CLOCK_MONOTONIC
}

// StartMonotonic begins a clock at 0 and binds the calling goroutine to its thread, whose timers it makes as exact
// as the system can: Go's own timers are late by milliseconds while all of its processors are busy.
func StartMonotonic() (*Monotonic, error) {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return nil, err
	}
	return &Monotonic{time.Now(), now.Nano()}, nil
}

// Stop unbinds the goroutine.
func (*Monotonic) Stop() { runtime.UnlockOSThread() }

// Now implements Clock.
func (m *Monotonic) Now() time.Duration { return time.Since(m.begun) }

// SleepUntil implements Clock.
func (m *Monotonic) SleepUntil(at time.Duration) {
	wanted := unix.NsecToTimespec(m.nanos + at.Nanoseconds())
	for m.Now() < at {
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &wanted, nil) // a signal may end it
	}
}
