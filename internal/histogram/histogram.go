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

// Since returns the durations of r that were not yet in before, an earlier Reading of the same Histogram.
func (r Reading) Since(before Reading) Reading {
	r.Count, r.Sum = r.Count-before.Count, r.Sum-before.Sum
	for i := range r.UpTo {
		r.UpTo[i] -= before.UpTo[i]
	}
	return r
}

// Plus returns the durations of both.
func (r Reading) Plus(other Reading) Reading {
	r.Count, r.Sum = r.Count+other.Count, r.Sum+other.Sum
	for i := range r.UpTo {
		r.UpTo[i] += other.UpTo[i]
	}
	return r
}

// Quantile returns an estimate of the duration below which the part q of all is, from 0 to 1: it takes them as spread
// evenly within a bucket. It is 0 if there are no durations, and the last of Bounds at most.
func (r Reading) Quantile(q float64) time.Duration {
	rank := q * float64(r.Count)
	below, from := 0.0, time.Duration(0)
	for i, upTo := range r.UpTo {
		if upTo := float64(upTo); upTo >= rank && upTo > below {
			return from + time.Duration(float64(Bounds[i]-from)*(rank-below)/(upTo-below))
		}
		below, from = float64(upTo), Bounds[i]
	}
	if r.Count == 0 {
		return 0
	}
	return from
}
