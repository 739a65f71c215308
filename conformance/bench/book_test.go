package main

import (
	"strings"
	"testing"
)

// Ratios are those of a round, and a missing measurement differs from one that does not apply.
func TestBook(t *testing.T) {
	b := newBook()
	b.contestants = []string{ours, etcd, redisOf}
	b.missing[redisOf] = "not installed"
	c := cell{w1, 64, pairsFigure}
	for _, round := range [][2]float64{{1000, 500}, {3000, 1000}, {200, 200}} {
		b.add(c, ours, round[0])
		b.add(c, etcd, round[1])
	}
	if got, measured := b.ratio(c, ours, etcd); !measured || got != 2 {
		t.Errorf("the ratio is %v, %v; want that of the first round", got, measured)
	}
	if _, measured := b.ratio(c, ours, redisOf); measured {
		t.Error("there is a ratio to what was not measured")
	}
	if got, want := b.table(),
		"| W1 lock+unlock | 64 | pairs/s | 1,000 | 500 | not measured |\n"; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q in the end", got, want)
	}
	if got, want := b.runs(),
		"W1 lock+unlock, 64, pairs/s, coordd, raw: 1,000 3,000 200\nW1 lock+unlock, 64, pairs/s, etcd: 500 1,000 200\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Every target is in the table, also when nothing was measured, with the reason where it is known.
func TestTargetsOfNothing(t *testing.T) {
	b := &bench{book: newBook(), settings: settings{idle: 10_000}}
	b.book.missing[redisOf] = "not installed"
	for _, target := range b.targets() {
		want := "not in this run"
		if strings.Contains(target.Figure, redisOf) {
			want = "not installed"
		}
		if target.Missing != want {
			t.Errorf("%s: %q, want %q", target.Figure, target.Missing, want)
		}
	}
}

// TestInterval: so many of 20 or of 6 values on both sides are beyond the median in one case of 40, and too few values
// have no interval.
func TestInterval(t *testing.T) {
	values := make([]float64, 20)
	for i := range values {
		values[i] = float64(i)
	}
	for n, want := range map[int][2]float64{20: {5, 14}, 6: {0, 5}} {
		if low, high, known := interval(values[:n]); !known || low != want[0] || high != want[1] {
			t.Errorf("%d values: %v to %v, %v", n, low, high, known)
		}
	}
	if _, _, known := interval(values[:5]); known {
		t.Error("five values have an interval")
	}
}
