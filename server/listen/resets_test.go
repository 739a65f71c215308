package listen

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

func TestResetMeter(t *testing.T) {
	limits := Limits{ResetBurst: 10, ResetsPerSecond: 2}
	now := time.Unix(1000, 0)
	m := resetMeter{allowance: 10, at: now}
	for _, step := range []struct {
		after  time.Duration
		resets int
		want   bool
	}{
		{0, 10, true}, {time.Second, 2, true}, {500 * time.Millisecond, 1, true}, {time.Hour, 10, true}, {0, 1, false},
	} {
		now = now.Add(step.after)
		if got := m.allow(step.resets, limits, now); got != step.want {
			t.Errorf("%+v: allowed %v", step, got)
		}
	}
}

// TestFrameCounter cuts a stream of frames at every place.
func TestFrameCounter(t *testing.T) {
	var stream strings.Builder
	stream.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&stream, nil)
	payload := []byte(strings.Repeat("\x00\x00\x04\x03", 100)) // looks like resets inside
	for id := uint32(1); id < 20; id += 2 {
		if err := framer.WriteData(id, false, payload[:id]); err != nil {
			t.Fatal(err)
		}
		if err := framer.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
			t.Fatal(err)
		}
	}
	for size := 1; size < stream.Len(); size++ {
		var f frameCounter
		resets := 0
		for rest := stream.String(); rest != ""; {
			n := min(size, len(rest))
			resets += f.count([]byte(rest[:n]))
			rest = rest[n:]
		}
		if resets != 10 {
			t.Fatalf("in pieces of %d: %d resets, want 10", size, resets)
		}
	}
}
