//go:build !linux

package main

import "time"

// easeTimers can do nothing here.
func easeTimers() {}

// timerSlackNow is not known here.
func timerSlackNow() time.Duration { return 0 }
