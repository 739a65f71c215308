package conformance

import (
	"testing"
	"time"
)

// TestPaceIsUndone shows that what the server says about times that were stretched reads as the script has
// them.
func TestPaceIsUndone(t *testing.T) {
	for _, p := range []pace{{}, {more: unhurried}, {scale: 1}, {scale: slowestScale}} {
		for _, millis := range []uint64{0, 1, 200, stretchedMost, 1_800_000, 1<<64 - 1} {
			if got := p.unstretch(p.stretch(millis)); got != millis {
				t.Errorf("%+v: %d ms come back as %d", p, millis, got)
			}
		}
	}
}

// TestPaceSlowsDown loses more time than the waits of a script allow for, at each pace but the slowest.
func TestPaceSlowsDown(t *testing.T) {
	p := pace{scale: 1, margin: time.Second, began: time.Now()}
	if p.late() {
		t.Error("late at once")
	}
	for last := uint64(1); p.scale < slowestScale; last = p.scale {
		p.allowed = -time.Minute * time.Duration(p.scale)
		if !p.late() {
			t.Fatalf("not late at %+v", p)
		}
		if p = p.slower(); p.scale <= last || p.late() {
			t.Fatalf("not slower: %+v", p)
		}
	}
	p.allowed = -time.Hour
	if p.late() {
		t.Error("given up at the slowest pace")
	}
}
