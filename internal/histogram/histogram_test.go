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
