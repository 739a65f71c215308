package openloop

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/load"
)

// fakeClock oversleeps by what a test says, and a dispatch takes as long as a test says.
type fakeClock struct {
	now       time.Duration
	oversleep map[int]time.Duration // by the number of the sleep
	sleeps    int
}

func (c *fakeClock) Now() time.Duration { return c.now }

func (c *fakeClock) SleepUntil(at time.Duration) {
	if c.now < at {
		c.now = at + c.oversleep[c.sleeps]
	}
	c.sleeps++
}

// After an overslept request the ones that have become due follow at once, and all of the delay is lateness.
func TestDrive(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	clock := &fakeClock{oversleep: map[int]time.Duration{1: 25 * ms}}
	var sent []time.Duration
	dues := []time.Duration{0, 10 * ms, 20 * ms, 30 * ms, 40 * ms}
	late, err := Drive(clock, dues, func(i int) error {
		sent = append(sent, clock.now)
		if i == 3 {
			clock.now += 7 * ms
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []time.Duration{0, 35 * ms, 35 * ms, 35 * ms, 42 * ms}; !slices.Equal(sent, want) {
		t.Errorf("sent at %v, want %v", sent, want)
	}
	if len(late) != 5 || late.Percentile(100) != 25*ms || late.Percentile(0) != 0 {
		t.Errorf("%d are late by %v to %v", len(late), late.Percentile(0), late.Percentile(100))
	}
	failed := errors.New("no connection")
	if _, err := Drive(clock, dues, func(int) error { return failed }); err != failed {
		t.Errorf("the error is %v", err)
	}
}

// A schedule has its rate, is in order, and depends on nothing but its seed; the distances of Poisson arrivals
// vary as much as they are long.
func TestSchedules(t *testing.T) {
	t.Parallel()
	const rate, length = 1000, 100 * time.Second
	random := Poisson(rate, length, 1)
	if !slices.IsSorted(random) || random[len(random)-1] >= length {
		t.Error("not in order, or beyond the end")
	}
	if n := len(random); n < 98_000 || n > 102_000 {
		t.Errorf("%d random ones, want about 100,000", n)
	}
	var sum, squares float64
	for i, due := range random[1:] {
		gap := (due - random[i]).Seconds() * rate
		sum, squares = sum+gap, squares+gap*gap
	}
	mean := sum / float64(len(random)-1)
	if deviation := math.Sqrt(squares/float64(len(random)-1) - mean*mean); math.Abs(deviation-1) > 0.05 {
		t.Errorf("the distances deviate by %.3f of their mean, want 1", deviation)
	}
	if !slices.Equal(random, Poisson(rate, length, 1)) || slices.Equal(random, Poisson(rate, length, 2)) {
		t.Error("the seed does not make the schedule")
	}
}

// Each rule makes a row void by itself, and only beyond its bound.
func TestVoid(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	sound := func() *Row {
		return &Row{Took: load.Times{10 * ms}, Late: load.Times{ms},
			Length: 10 * time.Second, Spent: Spent{All: 11 * time.Second, Steal: time.Second,
				Server: 7 * time.Second, Generator: 3 * time.Second}}
	}
	for name, c := range map[string]struct {
		change func(*Row)
		want   []string
	}{
		"sound":              {func(*Row) {}, nil},
		"unanswered":         {func(r *Row) { r.Unanswered = 3 }, []string{"3 requests"}},
		"late":               {func(r *Row) { r.Late = load.Times{9 * ms} }, nil},
		"others":             {func(r *Row) { r.Spent.All += 10 * ms }, []string{"others took 0.10"}},
		"others of a longer": {func(r *Row) { r.Spent.All += time.Second; r.Length *= 2 }, nil},
	} {
		row := sound()
		c.change(row)
		got := row.Void()
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], c.want[i]) {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	}
}

// A percentile is a bound where the generator was late by more than a tenth of it.
func TestAtMost(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	row := &Row{Took: load.Times{10 * ms}, Late: load.Times{0, 0, ms, 2 * ms}}
	if row.AtMost(50) || !row.AtMost(99) {
		t.Error(row.AtMost(50), row.AtMost(99))
	}
}

// The knee is the last rate that holds, a single stall does not end the search, and nothing is beyond the most.
func TestKnee(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	good, bad := load.Times{ms, 9 * ms}, load.Times{ms, ms, 11 * ms}
	tries := 0
	below := func(knee float64, stall int) func(float64) (*Row, error) {
		return func(rate float64) (*Row, error) {
			tries++
			if rate > knee || tries == stall {
				return &Row{Took: bad}, nil
			}
			return &Row{Took: good}, nil
		}
	}
	if knee, err := Knee(100, 10_000, below(200, 2)); err != nil || knee != 100*1.25*1.25*1.25 || tries != 8 {
		t.Errorf("%v, %v in %d tries", knee, err, tries)
	}
	if knee, _ := Knee(100, 10_000, below(99, 0)); knee != 0 {
		t.Errorf("%v where the first rate does not hold", knee)
	}
	if knee, _ := Knee(100, 130, below(1e9, 0)); knee != 125 {
		t.Errorf("%v, want none above 130", knee)
	}
	growing := load.Times{100 * ms, 100 * ms, 200 * ms} // of a server that answers 1000 requests a second at most
	if knee, _ := Knee(500, 10_000, func(rate float64) (*Row, error) {
		if rate > 1000 {
			return &Row{Took: growing}, nil
		}
		return &Row{Took: good}, nil
	}); knee != 500*1.25*1.25*1.25 {
		t.Errorf("%v where the queue grows above 1000", knee)
	}
	failed := errors.New("no server")
	if _, err := Knee(100, 130, func(float64) (*Row, error) { return nil, failed }); err != failed {
		t.Errorf("the error is %v", err)
	}
	if (&Row{Took: good, Unanswered: 1}).holds(ms) || (&Row{Took: nil}).holds(ms) {
		t.Error("a rate holds without answers")
	}
}
