package load

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// exactBits is how many leading bits of a duration are kept: a thousandth is the most that is lost.
	exactBits = 10
	// longestBits is that of the longest duration that is told from longer ones: 73 minutes in nanoseconds.
	longestBits = 42
	buckets     = (longestBits - exactBits + 1) << exactBits
)

// Histogram counts durations, in a memory that does not grow with them (270 KB). Several goroutines may add
// to it while others read it.
type Histogram struct {
	longest atomic.Int64
	counts  [buckets]atomic.Uint64
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucketOf(d)].Add(1)
	for {
		longest := h.longest.Load()
		if int64(d) <= longest || h.longest.CompareAndSwap(longest, int64(d)) {
			return
		}
	}
}

// bucketOf is where a duration is counted: below 2^11 ns each has its own, and above that the leading eleven
// bits, of which the first is always set, say which.
func bucketOf(d time.Duration) int {
	v := min(uint64(max(d, 0)), 1<<longestBits-1)
	shift := max(bits.Len64(v)-exactBits-1, 0)
	return shift<<exactBits + int(v>>shift)
}

// longestIn is the longest duration that a bucket counts.
func longestIn(bucket int) time.Duration {
	shift := max(bucket>>exactBits-1, 0)
	leading := bucket - shift<<exactBits
	return time.Duration((leading+1)<<shift - 1)
}

// Count is how many durations were added.
func (h *Histogram) Count() uint64 {
	var n uint64
	for i := range h.counts {
		n += h.counts[i].Load()
	}
	return n
}

// CountUpTo returns how many durations are not longer than one, to a thousandth.
func (h *Histogram) CountUpTo(d time.Duration) uint64 {
	var n uint64
	for i := range bucketOf(d) + 1 {
		n += h.counts[i].Load()
	}
	return n
}

// Max is the longest duration, exactly.
func (h *Histogram) Max() time.Duration { return time.Duration(h.longest.Load()) }

// Percentile is the duration that p per cent of them are not above, to a thousandth; 0 of none.
func (h *Histogram) Percentile(p float64) time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	before := min(uint64(float64(n)*p/100), n-1) // how many are shorter, or as long
	for i := range h.counts {
		if here := h.counts[i].Load(); here > before {
			return min(longestIn(i), h.Max())
		} else {
			before -= here
		}
	}
	return h.Max()
}
