package lease

import (
	"testing"
	"time"
)

// TestLeaseOfAMachineThatSlept: the lease is over when the time of day has passed its end, although the
// monotonic clock stood still; a clock that is put back does not lengthen it.
func TestLeaseOfAMachineThatSlept(t *testing.T) {
	begun := time.Now()
	for _, c := range []struct {
		name            string
		monotonic, wall time.Duration
		speaks          bool
	}{
		{"at once", 0, 0, true},
		{"just before its end", Window - 1, Window - 1, true},
		{"at its end", Window, Window, false},
		{"slept over its end", 0, Window, false},
		{"slept for a while", 0, Window / 2, true},
		{"put back", Window - 1, -time.Hour, true},
		{"put back, at its end", Window, -time.Hour, false},
	} {
		now := begun
		l := &Lease{}
		l.Begin(func() time.Time { return now })
		l.Extend(begun.Add(Window))
		// Only time.Now can make a time whose two readings differ: the lease is moved instead of the clock.
		l.wall.Add(int64(c.monotonic - c.wall))
		now = begun.Add(c.monotonic)
		if l.Holds() != c.speaks || l.Lapsed() == c.speaks {
			t.Errorf("%s: holds: %v", c.name, l.Holds())
		}
	}
}
