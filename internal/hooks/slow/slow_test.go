package slow

import (
	"math"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
)

// TestClock checks that a timer runs out once its clock has advanced far enough, and not before.
func TestClock(t *testing.T) {
	const d = 2 * time.Millisecond
	begun := time.Now()
	clock := NewClock()
	ran := make(chan coordination.Instant, 1)
	timer := clock.AfterFunc(math.MaxInt64, func() { ran <- clock.Now() })
	if !timer.Reset(d) {
		t.Error("a timer that was never to run out has")
	}
	at := <-ran
	took := time.Since(begun)
	if time.Duration(at) < d || time.Duration(at) > took/slowness {
		t.Errorf("ran out at %v, after %v of real time", time.Duration(at), took)
	}
	if timer.Reset(math.MaxInt64 / slowness); !timer.Stop() {
		t.Error("it was not running")
	}
}
