package tty

import (
	"testing"
	"time"
)

// TestProgressText wants the rest of the time from what was done since the work began, and none before that is known.
func TestProgressText(t *testing.T) {
	begun := time.Unix(1000, 0)
	for _, test := range []struct {
		unit     string
		done, of uint64
		after    time.Duration
		want     string
	}{
		{"rows", 30, 120, 10 * time.Second, "load: 30 rows of 120 rows, 25 %, 45s left"},
		{"rows", 20, 120, 500 * time.Millisecond, "load: 20 rows of 120 rows, 16 %"},
		{"rows", 0, 120, 10 * time.Second, "load: 0 rows of 120 rows, 0 %"},
		{"bytes", 3 << 20, 0, 10 * time.Second, "load: 3.0 MiB"},
		{"bytes", 1 << 20, 4 << 20, 10 * time.Second, "load: 1.0 MiB of 4.0 MiB, 25 %, 30s left"},
	} {
		p := &Progress{what: "load", begun: begun}
		if test.unit == "rows" {
			p.behind = 10
		}
		if got := p.text(test.unit, test.done, test.of, begun.Add(test.after)); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	NewProgress(nil).Show("load", "rows", 1, 2) // without a terminal nothing is shown
}
