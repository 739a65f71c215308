// Package slow has a clock on which time passes slowly, for package hooks.
package slow

import (
	"math"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/hooks"
)

// slowness is the factor by which a slow clock is slower than the real one: the 5 s within which a client has to answer
// a ping are 150 s then, more than any test waits for anything, and the 20 ms after which a server that was mute looks
// again whether it may speak are still less than a second.
const slowness = 30

// Clock is the real clock, but slower: for tests that are not about time, on a machine that may give a
// client or a server no processor for seconds.
type Clock struct {
	origin time.Time
}

// NewClock returns one that begins now.
func NewClock() Clock { return Clock{time.Now()} }

// Now implements hooks.Clock.
func (c Clock) Now() coordination.Instant {
	return coordination.Instant(time.Since(c.origin) / slowness)
}

// AfterFunc implements hooks.Clock.
func (c Clock) AfterFunc(d time.Duration, do func()) hooks.Timer {
	return timer{time.AfterFunc(slowed(d), do)}
}

type timer struct{ *time.Timer }

// Reset implements hooks.Timer.
func (t timer) Reset(d time.Duration) bool { return t.Timer.Reset(slowed(d)) }

// slowed returns the length of d on a slow clock.
func slowed(d time.Duration) time.Duration {
	if d > math.MaxInt64/slowness {
		return math.MaxInt64
	}
	return d * slowness
}
