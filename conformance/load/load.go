// Package load is what the benchmarks have sessions do. conformance/bench measures servers of its own with
// it, and `coordd bench` any server: each brings its own client, the load and what is counted of it are the
// same.
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

// Run has the sessions do what the load is until over is closed, all at once. Each step, an acquire and the
// release, is added to took. The result is how long it went on: a session that is in a step when it is over
// ends it first, and each does one at least, so that there is something to tell of the shortest time.
func Run[S Session](kind Kind, prefix string, sessions []S, over <-chan struct{},
	took *Histogram) (time.Duration, error) {
	begun := time.Now()
	err := Together(sessions, func(i int, s S) error {
		name := kind.semaphore(prefix, i)
		for {
			start := time.Now()
			if err := s.Acquire(name, 1); err != nil {
				return err
			}
			if err := s.Release(name); err != nil {
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
