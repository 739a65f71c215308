// Package load has the closed loop of the benchmarks, the loads that sessions do in it, and the histogram of how
// long the steps take. conformance/bench measures servers of its own with it, and `coordd bench` any server:
// each brings its own client.
package load

import (
	"fmt"
	"sync"
	"time"
)

// Session is what a load wants of a session of a coordination node.
type Session interface {
	Acquire(name string, count uint64) error // waits until the session has it
	Release(name string) error
}

// Kind is a load: each session acquires all of a semaphore and releases it, again and again.
type Kind struct {
	Name string
	Text string // what a step is
	own  bool   // each session has a semaphore of its own
}

// The loads, by the numbers of the project's performance guide.
var (
	// Pairs is W1.
	Pairs = Kind{Name: "pairs", Text: "lock and unlock, each session a semaphore of its own", own: true}
	// HandOver is W2: every acquire but the first is granted by a release of another session.
	HandOver = Kind{Name: "handover", Text: "one semaphore, handed over among all sessions"}
)

// Semaphores is the names of those that the sessions need, each with a limit of 1.
func (k Kind) Semaphores(prefix string, sessions int) []string {
	if !k.own {
		return []string{k.semaphore(prefix, 0)}
	}
	names := make([]string, sessions)
	for i := range names {
		names[i] = k.semaphore(prefix, i)
	}
	return names
}

func (k Kind) semaphore(prefix string, session int) string {
	if !k.own {
		return prefix + "one"
	}
	return fmt.Sprintf("%sown-%d", prefix, session)
}

// Run has the sessions do what the load is until over is closed, as Loop does.
func Run[S Session](kind Kind, prefix string, sessions []S, over <-chan struct{},
	took *Histogram) (time.Duration, error) {
	return Loop(sessions, over, took, Step[S](kind, prefix, len(sessions)))
}

// Step returns the step of a load with so many sessions: an acquire and the release.
func Step[S Session](kind Kind, prefix string, sessions int) func(i int, s S) error {
	names := kind.Semaphores(prefix, sessions)
	return func(i int, s S) error {
		name := names[i%len(names)]
		if err := s.Acquire(name, 1); err != nil {
			return err
		}
		return s.Release(name)
	}
}

// Loop has each session take one step after the other until over is closed, all sessions at once, and adds the
// time of every step to took. It returns the time that passed: a session that is in a step when over is closed
// ends it first, and each takes at least one, so that the shortest time has a result as well.
func Loop[S any](sessions []S, over <-chan struct{}, took *Histogram,
	step func(i int, s S) error) (time.Duration, error) {
	begun := time.Now()
	err := Together(sessions, func(i int, s S) error {
		for {
			start := time.Now()
			if err := step(i, s); err != nil {
				return err
			}
			took.Add(time.Since(start))
			select {
			case <-over:
				return nil
			default:
			}
		}
	})
	return time.Since(begun), err
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
