package openloop

import (
	"math/rand/v2"
	"time"

	"github.com/coordd/coordd/conformance/load"
)

// Poisson returns the due times of requests that arrive independently of each other, rate of them a second on
// average, as a seed gives them. They are in order, counted from the begin of a run that takes length.
func Poisson(rate float64, length time.Duration, seed uint64) []time.Duration {
	random := rand.New(rand.NewPCG(seed, seed))
	var dues []time.Duration
	for due := 0.0; ; {
		due += random.ExpFloat64() / rate
		at := time.Duration(due * float64(time.Second))
		if at >= length {
			return dues
		}
		dues = append(dues, at)
	}
}

// Fixed returns the due times of requests at equal distances.
func Fixed(rate float64, length time.Duration) []time.Duration {
	dues := make([]time.Duration, int(rate*length.Seconds()))
	for i := range dues {
		dues[i] = time.Duration(float64(i) / rate * float64(time.Second))
	}
	return dues
}

// Clock is the time since the begin of a run.
type Clock interface {
	Now() time.Duration
	// SleepUntil returns when it is that time, at once if it is later.
	SleepUntil(time.Duration)
}

// Drive calls dispatch for each request when it is due, and adds to late how much later than due it did. After a
// delay the requests that have become due meanwhile follow at once: none is left out, and none is moved.
func Drive(clock Clock, dues []time.Duration, late *load.Histogram, dispatch func(i int) error) error {
	for i, due := range dues {
		clock.SleepUntil(due)
		late.Add(clock.Now() - due)
		if err := dispatch(i); err != nil {
			return err
		}
	}
	return nil
}
