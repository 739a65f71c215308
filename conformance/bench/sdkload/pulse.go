package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
)

// pulse records when a session last heard something. A client may believe that its session lives for its timeout from
// then on. A longer silence counts for ever: a lock held before it is not believed to be held after it.
type pulse struct {
	timeout time.Duration
	last    atomic.Int64
	lapsed  atomic.Int64 // when the first belief since the last reset ended, 0 if it holds
}

func (p *pulse) reset() {
	p.last.Store(monotonic())
	p.lapsed.Store(0)
}

func (p *pulse) beat() {
	now := monotonic()
	if last := p.last.Swap(now); now > last+p.timeout.Nanoseconds() {
		p.lapsed.CompareAndSwap(0, last+p.timeout.Nanoseconds())
	}
}

func (p *pulse) silence() time.Duration { return time.Duration(monotonic() - p.last.Load()) }

// until returns the time up to which a lock may be believed to be held.
func (p *pulse) until() int64 {
	if lapsed := p.lapsed.Load(); lapsed != 0 {
		return lapsed
	}
	return p.last.Load() + p.timeout.Nanoseconds()
}

// watch is a watch of the data of a worker's own semaphore. It is set again each time it has fired.
type watch struct {
	fired chan struct{}
}

// watchOwn sets the watch.
func (w *worker) watchOwn(ctx context.Context, s coordination.Session) error {
	next := &watch{fired: make(chan struct{}, 1)}
	_, err := s.DescribeSemaphore(ctx, w.own(),
		options.WithSemaphoreWatch(options.WatchData, func(options.SemaphoreWatchEvent) {
			select {
			case next.fired <- struct{}{}:
			default:
			}
		}))
	w.watch = next
	return err
}

// follow waits for the watch to fire after an update, and sets it again. It fires for the update, or because
// it was lost.
func (v *watch) follow(ctx context.Context, w *worker, s coordination.Session) error {
	select {
	case <-v.fired:
		return w.watchOwn(ctx, s)
	case <-ctx.Done():
		return fmt.Errorf("the watch of %s did not fire: %w", w.own(), ctx.Err())
	}
}
