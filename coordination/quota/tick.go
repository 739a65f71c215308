package quota

import "github.com/coordd/coordd/coordination"

const (
	// Tick is the time between two distributions. They lie on a grid of the clock.
	Tick coordination.Instant = 100_000_000
	// ticksPerSecond is the number of ticks in a second.
	ticksPerSecond = 10
	// maxMissedTicks is the number of late ticks that are made up for. More are dropped.
	maxMissedTicks = 10
	// millisecond is the grain in which waits are looked at.
	millisecond coordination.Instant = 1_000_000
)

// grid is the number of the last tick at or before now.
func grid(now coordination.Instant) int64 { return int64(now / Tick) }

// ticks counts the ticks of a grid that have been handled.
type ticks int64

// due returns the number of ticks to handle, and counts them as handled.
func (t *ticks) due(now coordination.Instant) int64 {
	missed := grid(now) - int64(*t)
	*t = ticks(max(grid(now), int64(*t)))
	return max(0, min(missed, maxMissedTicks))
}

// next is the time of the next tick.
func (t ticks) next() coordination.Instant { return coordination.Instant(t+1) * Tick }
