package slowest

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// maxCollections bounds the garbage collections that are remembered; Go itself remembers 256.
const maxCollections = 256

// collection is a garbage collection, in nanoseconds since 1970.
type collection struct{ begun, ended int64 }

// collections are the garbage collections of the process.
type collections struct {
	known   []collection // ascending
	stats   debug.GCStats
	marking [2]metrics.Sample
	number  int64
	before  [2]float64
}

// read adds the collections since the last read, and returns their number, their pauses in sum, the time of an average
// one, and the processor time for which goroutines helped. Go reports when each ended, but not when it began: that is
// estimated by the processor time of all of them, which is a quarter of what there is.
func (c *collections) read() (number int, paused, average, assisted time.Duration) {
	if c.marking[0].Name == "" {
		c.marking[0].Name = "/cpu/classes/gc/mark/dedicated:cpu-seconds"
		c.marking[1].Name = "/cpu/classes/gc/mark/assist:cpu-seconds"
		c.stats.Pause = make([]time.Duration, 2*maxCollections+3) // as much as ReadGCStats wants
	}
	debug.ReadGCStats(&c.stats)
	metrics.Read(c.marking[:])
	number = int(c.stats.NumGC - c.number)
	c.number = c.stats.NumGC
	marked, assists := c.marking[0].Value.Float64(), c.marking[1].Value.Float64()
	if number > 0 {
		average = time.Duration((marked - c.before[0]) / float64(number) * 4 / float64(runtime.GOMAXPROCS(0)) * 1e9)
		assisted = time.Duration((assists - c.before[1]) * 1e9)
		c.before = [2]float64{marked, assists}
	}
	for i := min(number, len(c.stats.PauseEnd)) - 1; i >= 0; i-- { // the last one comes first
		paused += c.stats.Pause[i]
		ended := c.stats.PauseEnd[i].UnixNano()
		c.known = append(c.known, collection{ended - int64(average), ended})
	}
	if more := len(c.known) - maxCollections; more > 0 {
		c.known = append(c.known[:0], c.known[more:]...)
	}
	return number, paused, average, assisted
}

// within returns the part of a time for which collections ran.
func (c *collections) within(begun, ended int64) (sum time.Duration) {
	for _, one := range c.known {
		sum += time.Duration(max(min(one.ended, ended)-max(one.begun, begun), 0))
	}
	return sum
}
