package quota

import "github.com/coordd/coordd/coordination"

const (
	// Tick is the time between two distributions. They lie on a grid of the clock.
	Tick coordination.Instant = 100_000_000
	// ticksPerSecond is how many there are.
	ticksPerSecond = 10
	// maxMissedTicks is how many ticks are made up for when they are late. More are dropped.
	maxMissedTicks = 10
	// millisecond is the grain in which waits are looked at.
	millisecond coordination.Instant = 1_000_000
)

// grid is the number of the last tick at or before now.
func grid(now coordination.Instant) int64 { return int64(now / Tick) }

// ticks counts the ticks of a grid that have been handled.
type ticks int64

// due is how many ticks there are to be handled, and handles them.
func (t *ticks) due(now coordination.Instant) int64 {
	missed := grid(now) - int64(*t)
	*t = ticks(max(grid(now), int64(*t)))
	return max(0, min(missed, maxMissedTicks))
}

// next is when the next tick is.
func (t ticks) next() coordination.Instant { return coordination.Instant(t+1) * Tick }
