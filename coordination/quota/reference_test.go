package quota

import (
	"math"
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
)

// These are the numbers that the tests of YDB assert (§5.3), at any place between two ticks.

func eachPhase(t *testing.T, run func(t *testing.T, w *world)) {
	for phase := time.Duration(0); phase < 100*time.Millisecond; phase += 9 * time.Millisecond {
		w := newWorld(t, 1)
		w.pass(phase)
		run(t, w)
		if t.Failed() {
			t.Fatalf("begun %s behind a tick", phase)
		}
	}
}

func TestFirstAcquireMakesADebt(t *testing.T) {
	eachPhase(t, func(t *testing.T, w *world) {
		w.resource(1, 0, usual(1))
		w.wants(true, 1, 10_000, 0)
		w.wants(false, 1, 1, 200*time.Millisecond)
		w.servers[0].Use(w.now, w.bucket(0, 1), 1)
		w.wants(false, 1, 1, 200*time.Millisecond)
	})
}

func TestUsedIsWaitedOut(t *testing.T) {
	eachPhase(t, func(t *testing.T, w *world) {
		w.resource(1, 0, usual(3))
		w.pass(time.Second)
		w.wants(true, 1, 1, 0)
		w.servers[0].Use(w.now, w.bucket(0, 1), 10_000)
		w.wants(false, 1, 10_000, 2*time.Second)
	})
}

// What is reported as used restarts the clock of the pace, as a grant does.
func TestUsedRestartsThePace(t *testing.T) {
	eachPhase(t, func(t *testing.T, w *world) {
		e := usual(10)
		e.Prefetch = 10
		w.resource(1, 0, e)
		w.wants(true, 1, 1, 0)
		w.pass(10 * time.Second)
		w.servers[0].Use(w.now, w.bucket(0, 1), 1)
		w.wants(false, 1, 300, 200*time.Millisecond)
		w.wants(true, 1, 300, 200*time.Millisecond)
	})
}

func TestPaceOfLargeAmounts(t *testing.T) {
	for amount, near := range map[uint64]time.Duration{40: 600 * time.Millisecond, 20: 400 * time.Millisecond,
		30: 500 * time.Millisecond} {
		eachPhase(t, func(t *testing.T, w *world) {
			w.resource(1, 0, usual(10))
			w.wants(true, 1, 1, 0)
			if took := w.wants(true, 1, amount, 3*time.Second); (took - near).Abs() > 110*time.Millisecond {
				t.Errorf("%d units took %s, not about %s", amount, took, near)
			}
		})
	}
	eachPhase(t, func(t *testing.T, w *world) {
		w.resource(1, 0, usual(10))
		w.wants(true, 1, 1, 0)
		w.wants(false, 1, 40, 500*time.Millisecond)
		w.wants(true, 1, 20, 3*time.Second)
	})
}

func TestLargePrefetchOfAChild(t *testing.T) {
	eachPhase(t, func(t *testing.T, w *world) {
		e := usual(100)
		e.Prefetch = 1000
		w.resource(1, 0, e)
		w.resource(2, 1, e)
		w.wants(true, 2, 1, 0)
		w.wants(true, 2, 90_000, 500*time.Millisecond)
		w.wants(true, 2, 20_000, 500*time.Millisecond)
		w.wants(false, 2, 1, 500*time.Millisecond)
	})
}

func TestTwelveAndTwelve(t *testing.T) {
	eachPhase(t, func(t *testing.T, w *world) {
		w.resource(1, 0, usual(10))
		w.wants(true, 1, 12, 0)
		w.pass(time.Second)
		w.wants(true, 1, 12, 3*time.Second)
	})
}

// Far more than the rate is asked for in small amounts that wait for 150 ms each.
func TestRateUnderLoad(t *testing.T) {
	const rate, limit = 2000, 150 * time.Millisecond
	w := newWorld(t, 1)
	w.resource(1, 0, usual(rate))
	s, b, granted := w.servers[0], w.bucket(0, 1), 0
	var waiting []*Waiter
	var since []time.Duration
	w.ended = func(_ int, waiter *Waiter) {
		if waiter.End == Granted {
			granted++
		}
	}
	for passed := time.Duration(0); passed < 2*time.Second+limit; passed += time.Millisecond {
		for range 10 {
			if passed >= 2*time.Second {
				break
			}
			if s.Acquire(w.now, b, 1) {
				granted++
				continue
			}
			waiter := new(Waiter)
			if !s.Wait(w.now, b, 1, waiter) {
				t.Fatal("no room")
			}
			waiting, since = append(waiting, waiter), append(since, passed)
		}
		for len(waiting) > 0 && passed-since[0] >= limit {
			s.Cancel(w.now, waiting[0])
			waiting, since = waiting[1:], since[1:]
		}
		w.pass(time.Millisecond)
	}
	if want := 2.15 * rate; math.Abs(float64(granted)-want) > 0.2*want {
		t.Errorf("%d granted, want about %.0f", granted, want)
	}
}

// An amount of 0 is granted where nobody is in debt, also without a prefetch.
func TestNothingIsGranted(t *testing.T) {
	w := newWorld(t, 1)
	e := usual(1)
	e.Prefetch = -1
	w.resource(1, 0, e)
	w.wants(true, 1, 0, 0)
	w.servers[0].Use(w.now, w.bucket(0, 1), 1)
	w.wants(false, 1, 0, 500*time.Millisecond)
	w.wants(true, 1, 0, time.Second)
}

// Without a prefetch a bucket gets what is waited for.
func TestNoPrefetch(t *testing.T) {
	w := newWorld(t, 1)
	e := usual(10)
	e.Prefetch = -1
	w.resource(1, 0, e)
	w.wants(true, 1, 5, time.Second)
	w.wants(true, 1, 1, time.Second)
	w.pass(10 * time.Second)
	if b := w.bucket(0, 1); b.Level() > 0 || w.servers[0].Figures().Active != 0 ||
		w.leader.Next() != 1<<63-1 {
		t.Errorf("level %f, %+v", b.Level(), w.servers[0].Figures())
	}
}

// What is enormous stays finite, and who waits for it waits.
func TestEnormousRates(t *testing.T) {
	w := newWorld(t, 2)
	for i, rate := range []float64{1e300, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		for j, prefetch := range []float64{1e300, 0.2, -1e300, math.SmallestNonzeroFloat64} {
			id := key(0).ID
			id += 1 + 10*key(0).ID + resourceNumber(i, j)
			w.resource(id, 0, usual(rate))
			e := w.effective[id]
			e.Prefetch = prefetch
			w.effective[id] = e
			b := w.bucket(0, id)
			for range 3 {
				w.servers[0].Use(w.now, b, math.MaxUint64)
				w.acquire(id, math.MaxUint64, 300*time.Millisecond)
				w.acquire(id, 1, 300*time.Millisecond)
			}
			if level := b.Level(); math.IsNaN(level) || math.IsInf(level, 0) {
				t.Errorf("rate %g, prefetch %g: level %g", rate, prefetch, level)
			}
		}
	}
}

// TestDebtIsBounded reports, or is granted, more than all units of years: what the rate repays in a day is
// what others wait for.
func TestDebtIsBounded(t *testing.T) {
	const amount = 1 << 62
	w := newWorld(t, 1)
	w.resource(1, 0, usual(10))
	w.resource(2, 0, usual(10))
	s := w.servers[0]
	s.Use(w.now, w.bucket(0, 1), amount)
	s.Use(w.now, w.bucket(0, 1), amount)
	if !s.Acquire(w.now, w.bucket(0, 2), amount) {
		t.Error("a full bucket did not grant a large amount")
	}
	both := []coordination.ResourceID{1, 2}
	for _, id := range both {
		if level := w.bucket(0, id).Level(); level != -10*MaxDebtSeconds {
			t.Errorf("resource %d: level %g", id, level)
		}
	}
	w.pass((MaxDebtSeconds + 1) * time.Second)
	for _, id := range both {
		w.wants(true, id, 1, 0)
	}
}
