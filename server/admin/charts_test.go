package admin

import (
	"testing"
	"time"

	"github.com/coordd/coordd/internal/histogram"
	"github.com/coordd/coordd/server/adminpb"
)

// TestCharts: a sample has what was between two readings, and there are those of an hour.
func TestCharts(t *testing.T) {
	var charts Charts
	var waits histogram.Histogram
	at := time.Unix(1_000_000_000, 0)
	for i := range uint64(maxSamples + 2) {
		charts.Add(Reading{At: at, Waits: waits.Read(), Calls: 100 * i, Levels: &adminpb.Sample{Sessions: i}})
		at = at.Add(ChartPeriod)
		for range 20 {
			waits.Observe(time.Millisecond)
		}
	}
	samples := charts.Since(0)
	if len(samples) != maxSamples {
		t.Fatalf("%d samples", len(samples))
	}
	last := samples[maxSamples-1].GetAtMillis()
	if n := len(charts.Since(last - 1)); n != 1 {
		t.Errorf("%d samples after the last but one", n)
	}
	if n := len(charts.Since(last)); n != 0 {
		t.Errorf("%d samples after the last", n)
	}
	for i, s := range samples {
		if s.GetSessions() != uint64(i+2) || s.GetCallsPerSecond() != 10 || s.GetGrantsPerSecond() != 2 ||
			s.GetWaitP99Millis() < 0.9 || s.GetWaitP99Millis() > 1 {
			t.Fatalf("sample %d: %v", i, s)
		}
	}
}

// TestOneSampleAPeriod: of calls that come late, or are left out, one in each ten seconds of the day is due.
func TestOneSampleAPeriod(t *testing.T) {
	var charts Charts
	due := make(map[int64]int)
	at := time.Unix(1_000_000_003, 0)
	for i := range 2000 {
		if at = at.Add(time.Duration(i%7) * 300 * time.Millisecond); charts.Due(at) {
			due[at.Unix()/10]++
		}
	}
	for period := int64(100_000_000); period <= at.Unix()/10; period++ {
		if due[period] != 1 {
			t.Fatalf("period %d has %d samples", period, due[period])
		}
	}
}
