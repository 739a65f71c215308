package listen

import (
	"testing"
	"time"
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
		{0, 10, true}, {time.Second, 2, true}, {500 * time.Millisecond, 1, true}, {time.Hour, 10, true},
		{0, 1, false},
	} {
		now = now.Add(step.after)
		if got := m.allow(step.resets, limits, now); got != step.want {
			t.Errorf("%+v: allowed %v", step, got)
		}
	}
}
