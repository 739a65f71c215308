package main

import (
	"context"
	"slices"
	"time"

	"github.com/coordd/coordd/internal/load"
)

const (
	// busySession is the session timeout of clients that work, idleSession that of those that do nothing (W4).
	busySession = 30 * time.Second
	idleSession = 10 * time.Second
	// memberBytes is the length of each group member's data (W5).
	memberBytes = 64
)

// connections is the number of connections that the sessions share, where they can.
var connections = 16

// turn is the time in which a contestant is measured. Its context ends with it, and so does whatever its
// clients have opened.
type turn struct {
	context.Context
	undo []func()
}

// newTurn begins a turn. The caller has to end it.
func newTurn(ctx context.Context) *turn {
	ctx, cancel := context.WithCancel(ctx)
	return &turn{ctx, []func(){cancel}}
}

// later registers a function that the end of the turn calls, the last one first.
func (t *turn) later(undo func()) { t.undo = append(t.undo, undo) }

func (t *turn) end() {
	for _, undo := range slices.Backward(t.undo) {
		undo()
	}
}

// client implements the workloads for one product, as its programs use it. Those that are nil are not measured.
type client struct {
	// locks opens sessions, each with a lock of its own or, with handOver, all with the same one.
	locks func(t *turn, address string, handOver bool, n int) ([]locker, error)
	// watch opens n watchers of one value and a writer.
	watch func(t *turn, address string, n int) (*watching, error)
	// list makes a group of members, and returns a function by which each lister counts them.
	list func(t *turn, address string, members, listers int) (func(lister int) (int, error), error)
	// idle opens n sessions that are kept alive; an error that comes later goes to lost.
	idle func(t *turn, address string, n int, lost chan<- error) error
	// roam opens a client that can go to all servers and begins at one of them. The function that it returns
	// locks and unlocks, or fails for now.
	roam func(t *turn, addresses []string, first int) (func(context.Context) error, error)
	// fill makes n rows.
	fill func(t *turn, address string, n int) error
}

// locker is a session that takes and releases locks.
type locker interface {
	Acquire(name string, count uint64) error // waits until the session has it
	Release(name string) error
}

// watching is W3.
type watching struct {
	arm   func(watcher int) error // nil where a watch stays
	heard func(watcher int) error // waits for the next change
	write func() error
}

// spread calls do for 0 to n-1, divided among workers that go on at the same time.
func spread[W any](workers []W, n int, do func(w W, i int) error) error {
	return load.Together(workers, func(first int, w W) error {
		for i := first; i < n; i += len(workers) {
			if err := do(w, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// openAll opens n sessions, divided among connections.
func openAll[C, S any](conns []C, n int, open func(c C) (S, error)) ([]S, error) {
	sessions := make([]S, n)
	return sessions, spread(conns, n, func(c C, i int) (err error) {
		sessions[i], err = open(c)
		return err
	})
}

// inBatches calls do with the bounds of batches of most rows each, divided among workers.
func inBatches[W any](workers []W, n, most int, do func(w W, from, to int) error) error {
	return spread(workers, (n+most-1)/most, func(w W, batch int) error {
		return do(w, batch*most, min((batch+1)*most, n))
	})
}
