package histogram

import (
	"slices"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	if !slices.IsSorted(Bounds[:]) {
		t.Fatal("the bounds are not ascending")
	}
	var h Histogram
	h.Observe(0)
	for _, bound := range Bounds {
		h.Observe(bound)
		h.Observe(bound + 1)
	}
	r := h.Read()
	if want := uint64(1 + 2*len(Bounds)); r.Count != want {
		t.Errorf("counted %d, want %d", r.Count, want)
	}
	sum := time.Duration(len(Bounds))
	for i, bound := range Bounds {
		sum += 2 * bound
		if want := uint64(2 + 2*i); r.UpTo[i] != want { // its bound is in it, what is longer is not
			t.Errorf("up to %s: %d, want %d", bound, r.UpTo[i], want)
		}
	}
	if r.Sum != sum {
		t.Errorf("sum %s, want %s", r.Sum, sum)
	}
}

// TestHistogramAllocatesNothing because it is bumped for each request.
func TestHistogramAllocatesNothing(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Observe(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations for an event", n)
	}
}

// TestReadings compares sums, differences and quantiles of readings with what was observed.
func TestReadings(t *testing.T) {
	var h, other Histogram
	if got := h.Read().Quantile(0.99); got != 0 {
		t.Errorf("a quantile of nothing: %s", got)
	}
	h.Observe(time.Hour)
	before := h.Read()
	for i := range 100 {
		h.Observe(time.Duration(i+1) * time.Millisecond)
		other.Observe(80 * time.Millisecond)
	}
	since := h.Read().Since(before)
	if since.Count != 100 || since.Sum != 5050*time.Millisecond {
		t.Errorf("since: %+v", since)
	}
	for q, want := range map[float64]time.Duration{0.5: 50 * time.Millisecond, 0.99: 99 * time.Millisecond,
		0.01: time.Millisecond} {
		if got := since.Quantile(q); got < want-time.Microsecond || got > want+time.Microsecond {
			t.Errorf("quantile %v: %s, want %s", q, got, want)
		}
	}
	if both := since.Plus(other.Read()); both.Count != 200 || both.Sum != since.Sum+8*time.Second {
		t.Errorf("both: %+v", both)
	}
	if got := before.Quantile(0.5); got != Bounds[len(Bounds)-1] {
		t.Errorf("beyond all bounds: %s", got)
	}
}
