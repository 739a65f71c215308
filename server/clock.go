package server

import (
	"time"

	"github.com/coordd/coordd/coordination"
)

// clock tells the time to the rings. It is monotonic and starts near 0.
type clock struct {
	origin time.Time
	turned turnedClock // tests
}

// turnedClock is a clock that a test turns.
type turnedClock interface {
	now() coordination.Instant
	afterFunc(d time.Duration, do func()) timer
}

// timer is the part of *time.Timer that is needed.
type timer interface {
	Reset(d time.Duration) bool
	Stop() bool
}

func newClock() clock { return clock{origin: time.Now()} }

func (c clock) now() coordination.Instant {
	if c.turned != nil {
		return c.turned.now()
	}
	return coordination.Instant(time.Since(c.origin))
}

// afterFunc is time.AfterFunc on this clock.
func (c clock) afterFunc(d time.Duration, do func()) timer {
	if c.turned != nil {
		return c.turned.afterFunc(d, do)
	}
	return time.AfterFunc(d, do)
}

// until is how long it takes from now to t, at least 0.
func (c clock) until(t coordination.Instant) time.Duration { return max(0, time.Duration(t-c.now())) }

// wallMillis is the time of day for created_at, in milliseconds since 1970.
func (clock) wallMillis() uint64 { return uint64(time.Now().UnixMilli()) }
