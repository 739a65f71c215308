package load

import (
	"errors"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	all := make(Times, 1000)
	for i := range all {
		all[i] = time.Duration(len(all) - i)
	}
	for p, want := range map[float64]time.Duration{0: 1, 50: 501, 99: 991, 99.9: 1000, 100: 1000} {
		if got := all.Percentile(p); got != want {
			t.Errorf("p%g is %d, want %d", p, got, want)
		}
	}
	if Times(nil).Percentile(50) != 0 {
		t.Error("nothing took some time")
	}
}

// Every session takes one step after the other until it is over, at least one, and every step is counted; a failure
// ends the session, and is returned.
func TestLoop(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	steps := make([]int, 4)
	took, _, err := Loop(steps, over, func(i, _ int) error {
		if steps[i]++; i == 0 && steps[i] == 10 {
			close(over)
		}
		return nil
	})
	sum := 0
	for i, n := range steps {
		if n == 0 {
			t.Errorf("session %d has taken no step", i)
		}
		sum += n
	}
	if err != nil || len(took) != sum || steps[0] != 10 {
		t.Errorf("%d steps were counted of %d, %v", len(took), steps, err)
	}
	lost := errors.New("lost")
	if took, _, err := Loop(steps, over, func(i, _ int) error {
		if i == 1 {
			return lost
		}
		return nil
	}); err != lost || len(took) != len(steps)-1 {
		t.Errorf("%v, %d steps; want %v, %d", err, len(took), lost, len(steps)-1)
	}
}
