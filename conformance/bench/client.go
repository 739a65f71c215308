package main

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/conformance/load"
)

const (
	// busySession is the session timeout of clients that work, cutSession that of those that are cut off
	// (W6), and idleSession that of those that do nothing (W4).
	busySession = 30 * time.Second
	cutSession  = 5 * time.Second
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
	// locks opens sessions that take and release the semaphores of a kind of load.
	locks func(t *turn, address string, kind load.Kind, n int) ([]load.Session, error)
	// watch opens n watchers of one value and a writer.
	watch func(t *turn, address string, n int) (*watching, error)
	// list makes a group of members, and returns a function by which each lister counts them.
	list func(t *turn, address string, members, listers int) (func(lister int) (int, error), error)
	// idle opens n sessions that are kept alive; an error that comes later goes to lost.
	idle func(t *turn, address string, n int, lost chan<- error) error
	// hold opens a client with a connection of its own that holds lock i, and another one ready to wait for it.
	hold func(t *turn, address string, i int) (*holding, error)
	// roam opens a client that can go to all servers and begins at one of them. The function that it returns
	// locks and unlocks, or fails for now.
	roam func(t *turn, addresses []string, first int) (func(context.Context) error, error)
	// fill makes n rows.
	fill func(t *turn, address string, n int) error
}

// watching is W3.
type watching struct {
	arm   func(watcher int) error // nil where a watch stays
	heard func(watcher int) error // waits for the next change
	write func() error
}

// holding is W6.
type holding struct {
	cut  func()       // nothing comes or goes any more on the holder's connection
	wait func() error // until the other client has the lock
}

// observed is a session that counts how often a lock passes from one session to another, and measures how long
// an acquire takes by itself.
type observed struct {
	load.Session
	number  int64
	last    *atomic.Int64 // the session that had it last
	changes *atomic.Int64
	took    *load.Histogram
}

// Acquire implements load.Session.
func (o *observed) Acquire(name string, count uint64) error {
	begun := time.Now()
	if err := o.Session.Acquire(name, count); err != nil {
		return err
	}
	o.took.Add(time.Since(begun))
	if o.last.Swap(o.number) != o.number {
		o.changes.Add(1)
	}
	return nil
}
