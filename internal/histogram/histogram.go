// Package histogram counts durations on hot paths: two atomic additions for an event, no lock, no allocation.
package histogram

import (
	"sync/atomic"
	"time"
)

// Bounds are the upper ends of a Histogram's buckets, ascending. What is longer than the last is counted in
// none of them.
var Bounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute,
}

// Histogram counts durations by their length. Its zero value is empty. It must not be copied.
type Histogram struct {
	buckets [len(Bounds) + 1]atomic.Uint64 // the last one is of what is longer than all bounds
	sum     atomic.Int64
}

// Observe counts a duration.
func (h *Histogram) Observe(d time.Duration) {
	at := 0
	for at < len(Bounds) && d > Bounds[at] {
		at++
	}
	h.buckets[at].Add(1)
	h.sum.Add(int64(d))
}

// Reading is a Histogram at one moment.
type Reading struct {
	// Count is the number of durations, and Sum their sum. Sum may be a few events ahead or behind.
	Count uint64
	Sum   time.Duration
	// UpTo counts the durations that were not longer than each of Bounds.
	UpTo [len(Bounds)]uint64
}

// Read adds the buckets up.
func (h *Histogram) Read() (r Reading) {
	r.Sum = time.Duration(h.sum.Load())
	for i := range h.buckets {
		r.Count += h.buckets[i].Load()
		if i < len(r.UpTo) {
			r.UpTo[i] = r.Count
		}
	}
	return r
}
