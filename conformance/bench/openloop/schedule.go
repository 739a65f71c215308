package openloop

import (
	"math/rand/v2"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/coordd/coordd/internal/load"
)

// Poisson returns the due times of requests that arrive independently of each other, rate of them a second on
// average, as a seed gives them. They are in order, counted from the begin of a run that takes length.
func Poisson(rate float64, length time.Duration, seed uint64) []time.Duration {
	random := rand.New(rand.NewPCG(seed, seed))
	var dues []time.Duration
	for due := 0.0; ; {
		due += random.ExpFloat64() / rate
		at := time.Duration(due * float64(time.Second))
		if at >= length {
			return dues
		}
		dues = append(dues, at)
	}
}

// Clock is the time since the begin of a run.
type Clock interface {
	Now() time.Duration
	// SleepUntil returns when it is that time, at once if it is later.
	SleepUntil(time.Duration)
}

// Drive calls dispatch for each request when it is due, and returns how much later than due it did. After a delay the
// requests that have become due meanwhile follow at once: none is left out, and none is moved.
func Drive(clock Clock, dues []time.Duration, dispatch func(i int) error) (late load.Times, _ error) {
	late = make(load.Times, 0, len(dues))
	for i, due := range dues {
		clock.SleepUntil(due)
		late = append(late, clock.Now()-due)
		if err := dispatch(i); err != nil {
			return late, err
		}
	}
	return late, nil
}

// Monotonic is the clock of the machine. It belongs to the goroutine that has begun it.
type Monotonic struct {
	begun time.Time
	nanos int64 // the same moment on CLOCK_MONOTONIC
}

// StartMonotonic begins a clock at 0 and binds the calling goroutine to its thread, whose timers it makes as exact
// as the system can: Go's own timers are late by milliseconds while all of its processors are busy. The system's
// scheduler lets the thread run soon after it wakes, and gives it no more of the processors for that.
func StartMonotonic() (*Monotonic, error) {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Runtime: uint64(shortSlice.Nanoseconds())}, 0); err != nil {
		return nil, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return nil, err
	}
	return &Monotonic{time.Now(), now.Nano()}, nil
}

// shortSlice is the least time that the system gives a thread at once. The shorter it is, the sooner is its turn.
const shortSlice = 100 * time.Microsecond

// Stop unbinds the goroutine.
func (*Monotonic) Stop() {
	_ = unix.SchedSetAttr(0, new(unix.SchedAttr), 0)
	runtime.UnlockOSThread()
}

// Now implements Clock.
func (m *Monotonic) Now() time.Duration { return time.Since(m.begun) }

// SleepUntil implements Clock.
func (m *Monotonic) SleepUntil(at time.Duration) {
	wanted := unix.NsecToTimespec(m.nanos + at.Nanoseconds())
	for m.Now() < at {
		// Go's scheduler takes the thread's place from it if it knows of the sleep. A signal may end it.
		_, _, _ = unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME,
			uintptr(unsafe.Pointer(&wanted)), 0, 0, 0)
	}
}
