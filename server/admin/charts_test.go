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
