package group

import (
	"time"

	"github.com/coordd/coordd/coordination"
)

// Clock tells the time to the rings. It is monotonic and starts near 0.
type Clock struct {
	origin time.Time
	turned TurnedClock // instead of the real one
}

// TurnedClock is a clock that somebody turns by hand, as tests do.
type TurnedClock interface {
	Now() coordination.Instant
	AfterFunc(d time.Duration, do func()) Timer
}

// Timer is the part of *time.Timer that is needed.
type Timer interface {
	Reset(d time.Duration) bool
	Stop() bool
}

// NewClock is the real clock, or the one that turned is; nil: none.
func NewClock(turned TurnedClock) Clock { return Clock{origin: time.Now(), turned: turned} }

// Now is the present moment.
func (c Clock) Now() coordination.Instant {
	if c.turned != nil {
		return c.turned.Now()
	}
	return coordination.Instant(time.Since(c.origin))
}

// timeOfDay is nanoseconds since some day. Unlike Now it goes on while the machine sleeps, but it may be put back.
func (c Clock) timeOfDay() int64 {
	if c.turned != nil {
		return int64(c.turned.Now())
	}
	return time.Now().UnixNano()
}

// AfterFunc is time.AfterFunc on this clock.
func (c Clock) AfterFunc(d time.Duration, do func()) Timer {
	if c.turned != nil {
		return c.turned.AfterFunc(d, do)
	}
	return time.AfterFunc(d, do)
}

// Until is how long it takes from now to t, at least 0.
func (c Clock) Until(t coordination.Instant) time.Duration { return max(0, time.Duration(t-c.Now())) }

// WallMillis is the time of day for created_at and for the stamps of entries, in milliseconds since 1970.
func (Clock) WallMillis() uint64 { return uint64(time.Now().UnixMilli()) }
