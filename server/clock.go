package server

import (
	"time"

	"github.com/coordd/coordd/coordination"
)

// clock tells the time to the rings. It is monotonic and starts near 0.
type clock struct{ origin time.Time }

func newClock() clock { return clock{time.Now()} }

func (c clock) now() coordination.Instant { return coordination.Instant(time.Since(c.origin)) }

// until is how long it takes from now to t, at least 0.
func (c clock) until(t coordination.Instant) time.Duration { return max(0, time.Duration(t-c.now())) }

// wallMillis is the time of day for created_at, in milliseconds since 1970.
func (clock) wallMillis() uint64 { return uint64(time.Now().UnixMilli()) }
