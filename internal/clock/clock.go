// Package clock is the real clock, or one that a test turns, and alarms on it.
package clock

import (
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/hooks"
)

// Clock returns the time. It is monotonic and starts near 0.
type Clock struct {
	origin time.Time
	turned hooks.Clock // instead of the real one
}

// New returns a clock that goes by turned, or by the real one if turned is nil.
func New(turned hooks.Clock) Clock { return Clock{origin: time.Now(), turned: turned} }

// Now returns the present moment.
func (c Clock) Now() coordination.Instant {
	if c.turned != nil {
		return c.turned.Now()
	}
	return coordination.Instant(time.Since(c.origin))
}

// At returns a moment that the real clock had; by a turned clock, the present one.
func (c Clock) At(t time.Time) coordination.Instant {
	if c.turned != nil {
		return c.turned.Now()
	}
	return coordination.Instant(t.Sub(c.origin))
}

// TimeOfDay is nanoseconds since some day. Unlike Now it goes on while the machine sleeps, but it may be put
// back.
func (c Clock) TimeOfDay() int64 {
	if c.turned != nil {
		return int64(c.turned.Now())
	}
	return time.Now().UnixNano()
}

// AfterFunc is time.AfterFunc on this clock.
func (c Clock) AfterFunc(d time.Duration, do func()) hooks.Timer {
	if c.turned != nil {
		return c.turned.AfterFunc(d, do)
	}
	return time.AfterFunc(d, do)
}

// Until is the duration from now to t, at least 0.
func (c Clock) Until(t coordination.Instant) time.Duration { return max(0, time.Duration(t-c.Now())) }

// WallMillis is the time of day for created_at and for the stamps of entries, in milliseconds since 1970.
func (Clock) WallMillis() uint64 { return uint64(time.Now().UnixMilli()) }

// Alarm calls do when the earliest instant has come that it was set to. One goroutine at a time may use it.
type Alarm struct {
	clock Clock
	do    func()
	timer hooks.Timer          // nil until there is one
	at    coordination.Instant // when it runs out
}

// NewAlarm makes an alarm that is not set.
func NewAlarm(clock Clock, do func()) Alarm {
	return Alarm{clock: clock, do: do, at: coordination.Never}
}

// Set makes the alarm go off at next, or earlier if it was set to.
func (a *Alarm) Set(next coordination.Instant) {
	if next == coordination.Never && a.at == coordination.Never {
		return
	}
	switch now := a.clock.Now(); {
	case next < a.at || a.at <= now && next != coordination.Never:
		a.at = next
		if a.timer == nil {
			a.timer = a.clock.AfterFunc(a.clock.Until(next), a.do)
		} else {
			a.timer.Reset(a.clock.Until(next))
		}
	case a.at <= now:
		a.at = coordination.Never
	}
}

// RanOut reports whether it has gone off, or is about to, since it was set.
func (a *Alarm) RanOut() bool { return a.at <= a.clock.Now() }

// Stop ends it.
func (a *Alarm) Stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
