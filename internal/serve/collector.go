package serve

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// collectorShare is the number of times that collections have to rest as long as they work: requests that meet a
	// collection are slower, and are less than one of a hundred then.
	collectorShare = 100
	// garbageShare is the part of the memory that garbage may take for that, one of so many. Garbage may always take
	// as much as what lives, as Go's runtime has it.
	garbageShare = 8
	// usualPercent is Go's own ratio of garbage to what lives when a collection begins.
	usualPercent = 100
)

// spaceCollections makes the collector of garbage run less often while it runs often, if there is a limit of memory to
// go by and GOGC does not say how often. What it needs shrinks again with the load: an idle server collects each two
// minutes. It is called at the end of a start, which garbage delays more than the collector does: new memory is slow.
// A server in memory is for tests and laptops: little memory goes before speed.
func spaceCollections(onDisk bool) {
	if onDisk && debug.SetMemoryLimit(-1) < math.MaxInt64 && os.Getenv("GOGC") == "" {
		(&collections{percent: usualPercent}).done()
	}
}

// collections sees the end of each collection.
type collections struct {
	percent int // as it is set
	at      time.Time
	spent   float64 // by the collector so far, seconds of a processor
	made    uint64  // bytes allocated so far
}

// done sets when the next collection begins. The first time it sets nothing: the time passed is all time.
func (c *collections) done() {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(samples)
	live, made, spent := samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Float64()
	now := time.Now()
	perSecond := float64(made-c.made) / max(now.Sub(c.at).Seconds(), 0.001) // some clocks are coarse
	percent := nextPercent(float64(live), perSecond, spent-c.spent, debug.SetMemoryLimit(-1))
	c.at, c.made, c.spent = now, made, spent
	if 10*max(percent, c.percent) > 11*min(percent, c.percent) { // setting it stops the process for a moment
		c.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.AddCleanup(new(*collections), (*collections).done, c) // when the next collection finds it unreferenced
}

// nextPercent returns the ratio of garbage to what lives, in per cent, at which the next collection begins: the last
// one left live bytes and took seconds of a processor, and since the one before so many bytes a second were allocated.
func nextPercent(live, perSecond, seconds float64, memory int64) int {
	garbage := min(collectorShare*seconds*perSecond, float64(memory/garbageShare))
	return int(min(max(100*garbage/max(live, 1), usualPercent), math.MaxInt32))
}
