//go:build !linux

package serve

import "time"

// EaseTimers can do nothing here.
func EaseTimers() {}

// TimerSlackNow is not known here.
func TimerSlackNow() time.Duration { return 0 }
