package server

import (
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/hooks"
)

// handClock is a clock that stands still until a test turns it. Its zero value is ready.
type handClock struct {
	mutex  sync.Mutex
	at     coordination.Instant
	timers []*handTimer // that run
}

type handTimer struct {
	clock *handClock
	due   coordination.Instant
	do    func()
}

// Now implements hooks.Clock.
func (c *handClock) Now() coordination.Instant {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.at
}

// AfterFunc implements hooks.Clock.
func (c *handClock) AfterFunc(d time.Duration, do func()) hooks.Timer {
	t := &handTimer{clock: c, do: do}
	t.Reset(d)
	return t
}

// turn lets time pass and returns when the timers that ran out have done what they are there for, in their
// order.
func (c *handClock) turn(d time.Duration) {
	c.mutex.Lock()
	end := c.at + coordination.Instant(d)
	for {
		var next *handTimer
		for _, t := range c.timers {
			if t.due <= end && (next == nil || t.due < next.due) {
				next = t
			}
		}
		if next == nil {
			break
		}
		next.stop()
		c.at = max(c.at, next.due)
		c.mutex.Unlock()
		next.do()
		c.mutex.Lock()
	}
	c.at = end
	c.mutex.Unlock()
}

// Reset implements hooks.Timer.
func (t *handTimer) Reset(d time.Duration) bool {
	t.clock.mutex.Lock()
	defer t.clock.mutex.Unlock()
	ran := t.stop()
	t.due = t.clock.at + coordination.Instant(d)
	t.clock.timers = append(t.clock.timers, t)
	return ran
}

// Stop implements hooks.Timer.
func (t *handTimer) Stop() bool {
	t.clock.mutex.Lock()
	defer t.clock.mutex.Unlock()
	return t.stop()
}

// stop takes the timer out of the clock. The mutex is held.
func (t *handTimer) stop() bool {
	before := len(t.clock.timers)
	t.clock.timers = slices.DeleteFunc(t.clock.timers, func(other *handTimer) bool { return other == t })
	return len(t.clock.timers) < before
}

// waiting is the number of running timers.
func (c *handClock) waiting() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.timers)
}
