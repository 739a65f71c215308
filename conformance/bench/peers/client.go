package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/conformance/load"
)

const (
	// connections is how many the sessions share, where they can.
	connections = 16
	// busySession is the session timeout of clients that work, cutSession that of those that are cut off
	// (W6), and idleSession that of those that do nothing (W4).
	busySession = 30 * time.Second
	cutSession  = 5 * time.Second
	idleSession = 10 * time.Second
	// memberBytes is what each member of a group says about itself (W5).
	memberBytes = 64
)

// client is how programs use a product. What is nil is not measured.
type client struct {
	// locks opens sessions that take and release what the kind of load names.
	locks func(ctx context.Context, address string, kind load.Kind, n int) ([]load.Session, func(), error)
	// watch opens n watchers of one value and a writer.
	watch func(ctx context.Context, address string, n int) (*watching, error)
	// group makes a group of members, and listers of it.
	group func(ctx context.Context, address string, members, listers int) (*listing, error)
	// idle opens n sessions that are kept alive; an error that comes later goes to lost.
	idle func(ctx context.Context, address string, n int, lost chan<- error) (func(), error)
	// hold has a client with a connection of its own hold lock i, and another one ready to wait for it.
	hold func(ctx context.Context, address string, i int) (*holding, error)
	// roam has a client that can go to all servers, and begins at one of them.
	roam func(ctx context.Context, addresses []string, first int) (*roaming, error)
	// fill makes n rows.
	fill func(ctx context.Context, address string, n int) error
}

// watching is W3.
type watching struct {
	arm   func(watcher int) error // nil where a watch stays
	heard func(watcher int) error // waits for the next change
	write func(round int) error
	close func()
}

// listing is W5.
type listing struct {
	list  func(lister int) (members int, err error)
	close func()
}

// holding is W6.
type holding struct {
	cut   func()       // nothing comes or goes any more on the holder's connection
	wait  func() error // until the other client has the lock
	close func()
}

// roaming is W7: step locks and unlocks, or fails for now.
type roaming struct {
	step  func(ctx context.Context) error
	close func()
}

// holder counts how often a lock passes from one session to another.
type holder struct {
	load.Session
	number  int64
	last    *atomic.Int64 // who had it last
	changes *atomic.Int64
}

// Acquire implements load.Session.
func (h *holder) Acquire(name string, count uint64) error {
	if err := h.Session.Acquire(name, count); err != nil {
		return err
	}
	if h.last.Swap(h.number) != h.number {
		h.changes.Add(1)
	}
	return nil
}
