package server

import (
	"context"
	"flag"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var rateSeconds = flag.Int("rate-seconds", 0,
	"have TestRateOfUnits go on for so long, and want what it is granted to be no less than the rate; the machine has to be quiet")

// TestRateOfUnits wants no more granted than the rates allow while much more is asked for, and on a quiet
// machine, over a minute, no less either: 1 % at most and a bucket. coordination/quota has the same exactly,
// with a clock of its own.
func TestRateOfUnits(t *testing.T) {
	for _, rate := range []float64{10, 100, 1000, 10_000, 100_000} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			t.Parallel()
			s, conn := startTest(t, nil)
			c := newLimiterClient(t, conn, testNode)
			c.create("r", rate)
			bucket := 0.2 * rate
			c.use("r", uint64(bucket)+1) // the first fill is drawn from nobody
			amount := uint64(max(1, rate/100))
			ctx, cancel := context.WithCancel(t.Context())
			var granted atomic.Uint64
			var callers sync.WaitGroup
			for range 30 {
				callers.Go(func() {
					for ctx.Err() == nil {
						if c.acquire(ctx, "r", amount, time.Hour) == "SUCCESS" {
							granted.Add(amount)
						}
					}
				})
			}
			eventually(t, "the first grants", func() bool { return granted.Load() > 0 })
			length := max(time.Duration(*rateSeconds)*time.Second, 500*time.Millisecond)
			from, begun := s.group.Limiter().Figures().Aggregated.Granted, time.Now()
			time.Sleep(length)
			sum, took := s.group.Limiter().Figures().Aggregated.Granted-from, time.Since(begun)
			cancel()
			callers.Wait()
			want := rate * took.Seconds()
			most := want*1.01 + bucket + float64(amount) + rate/10
			if *rateSeconds == 0 { // a late machine makes up for ten ticks that were before
				most += rate
			}
			t.Logf("%.0f units in %v, the rate makes %.0f: %+.2f %%", sum, took, want, 100*(sum-want)/want)
			if sum > most || *rateSeconds > 0 && math.Abs(sum-want) > want/100+bucket+float64(amount) {
				t.Errorf("%.0f units in %v, the rate makes %.0f", sum, took, want)
			}
		})
	}
}
