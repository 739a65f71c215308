//go:build unix

package crash

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is this machine's monotonic clock in nanoseconds, the same for all processes.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Unix has it
	}
	return t.Nano()
}

// pulse is when a client last heard something.
type pulse struct {
	timeout time.Duration // of its session
	last    atomic.Int64
}

func (p *pulse) beat() { p.last.Store(monotonic()) }

// silence is how long nothing was heard.
func (p *pulse) silence() time.Duration { return time.Duration(monotonic() - p.last.Load()) }

func (p *pulse) expired() bool { return p.last.Load() != 0 && p.silence() > p.timeout }

// until is how long the client may believe that its session lives.
func (p *pulse) until() int64 { return p.last.Load() + p.timeout.Nanoseconds() }

// deliveryMargin is by how much tenures may overlap: a client notes a message when its goroutine runs, which
// on a busy machine is later than when it came. It is far below what a server would have to get wrong to
// matter: one lease.
const deliveryMargin = 200 * time.Millisecond
