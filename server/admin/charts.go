package admin

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/histogram"
	"github.com/coordd/coordd/server/adminpb"
)

const (
	// ChartPeriod is the time that a sample covers, and maxSamples bounds the samples that are kept: an hour.
	ChartPeriod = 10 * time.Second
	maxSamples  = 360
)

// Reading is a reading of the figures that a sample is made of.
type Reading struct {
	At             time.Time
	Waits, Appends histogram.Reading
	Calls, Applied uint64
	// Levels has the fields that are numbers at one moment.
	Levels *adminpb.Sample
}

// Charts keep samples of the last hour. The zero value is empty.
type Charts struct {
	period  int64 // in which Due was called last
	mutex   sync.Mutex
	before  Reading
	samples []*adminpb.Sample // the oldest first; a sample does not change
}

// Due reports whether a sample is due: with the first call in each ten seconds of the day. The console adds up what the
// servers have of the same ten seconds, so a server must not have two. One goroutine at a time may call it.
func (c *Charts) Due(now time.Time) bool {
	before := c.period
	c.period = now.UnixNano() / int64(ChartPeriod)
	return c.period != before
}

// Add adds the sample of the time since the reading before.
func (c *Charts) Add(now Reading) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	before := c.before
	c.before = now
	if before.At.IsZero() {
		return
	}
	seconds := now.At.Sub(before.At).Seconds()
	rate := func(now, before uint64) float64 { return float64(now-before) / seconds }
	waits, appends := now.Waits.Since(before.Waits), now.Appends.Since(before.Appends)
	sample := now.Levels
	sample.AtMillis = uint64(now.At.UnixMilli())
	sample.GrantsPerSecond = float64(waits.Count) / seconds
	sample.WaitP99Millis, sample.AppendP99Millis = millis(waits.Quantile(0.99)), millis(appends.Quantile(0.99))
	sample.CallsPerSecond, sample.AppliedPerSecond = rate(now.Calls, before.Calls), rate(now.Applied, before.Applied)
	if c.samples = append(c.samples, sample); len(c.samples) > maxSamples {
		c.samples = append([]*adminpb.Sample(nil), c.samples[1:]...)
	}
}

// Since returns the samples that ended after a time, in milliseconds since 1970, the oldest first.
func (c *Charts) Since(millis uint64) []*adminpb.Sample {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	first, _ := slices.BinarySearchFunc(c.samples, millis+1, func(s *adminpb.Sample, at uint64) int {
		return cmp.Compare(s.GetAtMillis(), at)
	})
	return c.samples[first:len(c.samples):len(c.samples)]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
