package raftstore

import (
	"testing"
	"time"
)

// jumpyClock is a clock whose monotonic reading and time of day can go apart, as those of a machine that
// slept do.
type jumpyClock struct {
	realClock
	at time.Time
}

func (c *jumpyClock) now() time.Time { return c.at }

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
		{"just before its end", LeaseWindow - 1, LeaseWindow - 1, true},
		{"at its end", LeaseWindow, LeaseWindow, false},
		{"slept over its end", 0, LeaseWindow, false},
		{"slept for a while", 0, LeaseWindow / 2, true},
		{"put back", LeaseWindow - 1, -time.Hour, true},
		{"put back, at its end", LeaseWindow, -time.Hour, false},
	} {
		clock := &jumpyClock{at: begun}
		s := &Store{lease: lease{clock: clock, base: begun}}
		s.lease.extend(begun.Add(LeaseWindow))
		// Only time.Now can make a time whose two readings differ: the lease is moved instead of the clock.
		s.lease.wall.Add(int64(c.monotonic - c.wall))
		clock.at = begun.Add(c.monotonic)
		if s.MaySpeak() != c.speaks || s.lease.lapsed() == c.speaks {
			t.Errorf("%s: may speak: %v", c.name, s.MaySpeak())
		}
	}
}
