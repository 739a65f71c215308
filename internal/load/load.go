// Package load has the closed loop of the benchmarks and the percentiles of what it measures. conformance/bench
// measures servers of its own with it, and `coordd bench` any server: each brings its own client.
package load

import (
	"slices"
	"sync"
	"time"
)

// Times are the durations of steps.
type Times []time.Duration

// Percentile sorts the times and returns the one that p per cent of them are not above; 0 of none.
func (t Times) Percentile(p float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	slices.Sort(t)
	return t[min(len(t)-1, int(float64(len(t))*p/100))]
}

// Loop has each session take one step after the other until over is closed, all sessions at once. It returns the
// times of all steps, and the time that passed: a session that is in a step when over is closed ends it first, and
// each takes at least one, so that the shortest time has a result as well.
func Loop[S any](sessions []S, over <-chan struct{}, step func(i int, s S) error) (Times, time.Duration, error) {
	took := make([]Times, len(sessions))
	begun := time.Now()
	err := Together(sessions, func(i int, s S) error {
		for {
			start := time.Now()
			if err := step(i, s); err != nil {
				return err
			}
			took[i] = append(took[i], time.Since(start))
			select {
			case <-over:
				return nil
			default:
			}
		}
	})
	return slices.Concat(took...), time.Since(begun), err
}

// Together calls do for every element at once, and returns one of the errors.
func Together[T any](elements []T, do func(int, T) error) error {
	var wait sync.WaitGroup
	errs := make(chan error, len(elements))
	for i, e := range elements {
		wait.Go(func() { errs <- do(i, e) })
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
