package standin

import (
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/hooks"
)

// clock stands still until Advance turns it. Its zero value is ready.
type clock struct {
	mutex  sync.Mutex
	now    coordination.Instant
	set    uint64   // timers so far
	timers []*timer // that run, the next to run out first
}

type timer struct {
	clock  *clock
	due    coordination.Instant
	number uint64 // what was set first runs out first
	do     func()
}

// Now implements hooks.Clock.
func (c *clock) Now() coordination.Instant {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.now
}

// AfterFunc implements hooks.Clock.
func (c *clock) AfterFunc(d time.Duration, do func()) hooks.Timer {
	t := &timer{clock: c, do: do}
	t.Reset(d)
	return t
}

// Reset implements hooks.Timer.
func (t *timer) Reset(d time.Duration) bool {
	c := t.clock
	c.mutex.Lock()
	defer c.mutex.Unlock()
	ran := c.remove(t)
	c.set++
	t.due, t.number = c.now+coordination.Instant(d), c.set
	at, _ := slices.BinarySearchFunc(c.timers, t, compareTimers)
	c.timers = slices.Insert(c.timers, at, t)
	return ran
}

// Stop implements hooks.Timer.
func (t *timer) Stop() bool {
	t.clock.mutex.Lock()
	defer t.clock.mutex.Unlock()
	return t.clock.remove(t)
}

func compareTimers(a, b *timer) int {
	switch {
	case a.due != b.due:
		if a.due < b.due {
			return -1
		}
		return 1
	case a.number < b.number:
		return -1
	case a.number > b.number:
		return 1
	}
	return 0
}

// remove reports whether the timer ran. The mutex is held.
func (c *clock) remove(t *timer) bool {
	at, found := slices.BinarySearchFunc(c.timers, t, compareTimers)
	if found {
		c.timers = slices.Delete(c.timers, at, at+1)
	}
	return found
}

// turn lets time pass until the next timer runs out, or until end, and calls the timers that run out at that moment. It
// reports whether there was one.
func (c *clock) turn(end coordination.Instant) bool {
	c.mutex.Lock()
	if len(c.timers) == 0 || c.timers[0].due > end {
		c.now = end
		c.mutex.Unlock()
		return false
	}
	c.now = max(c.now, c.timers[0].due)
	n := 0
	for n < len(c.timers) && c.timers[n].due <= c.now {
		n++
	}
	due := slices.Clone(c.timers[:n])
	c.timers = slices.Delete(c.timers, 0, n)
	c.mutex.Unlock()
	for _, t := range due {
		t.do()
	}
	return true
}
