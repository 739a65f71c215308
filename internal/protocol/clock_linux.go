package protocol

import (
	"time"

	"golang.org/x/sys/unix"
)

// now is a time that goes on while the machine sleeps, since servers elsewhere do: Go's own monotonic time
// stands still.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return time.Since(processStart)
	}
	return time.Duration(t.Nano())
}

var processStart = time.Now()
