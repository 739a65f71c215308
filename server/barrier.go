package server

import (
	"context"
	"sync"
	"time"
)

// readBarrier marks the read-index questions of this file; those of the leader's strict describes are below it.
const readBarrier = 1 << 63

// barrierRetry is how long a question is waited for before it is asked again under a new number: a question is lost
// with the leader that it was put to.
const barrierRetry = 300 * time.Millisecond

// passedBarrier is a question that was answered: it is good once index is applied here.
type passedBarrier struct{ id, index uint64 }

type barrierWaiters struct {
	mutex   sync.Mutex
	last    uint64
	waiting map[uint64]chan struct{}
}

func (b *barrierWaiters) ask() (uint64, <-chan struct{}) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.waiting == nil {
		b.waiting = make(map[uint64]chan struct{})
	}
	b.last++
	id, passed := readBarrier|b.last, make(chan struct{})
	b.waiting[id] = passed
	return id, passed
}

func (b *barrierWaiters) forget(id uint64, passed bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if waiting := b.waiting[id]; waiting != nil && passed {
		close(waiting)
	}
	delete(b.waiting, id)
}

// catchUp returns when this server has applied everything that was committed when it was called. news returns what is
// closed when there may be another leader: then the question is asked again at once.
func (g *group) catchUp(ctx context.Context, news func() <-chan struct{}) error {
	for {
		changed := news()
		id, passed := g.waiting.ask()
		g.store.ReadIndex(id)
		retry := time.NewTimer(barrierRetry)
		select {
		case <-passed:
			retry.Stop()
			return nil
		case <-changed:
			retry.Stop()
			g.waiting.forget(id, false)
		case <-retry.C:
			g.waiting.forget(id, false)
		case <-ctx.Done():
			g.waiting.forget(id, false)
			return ctx.Err()
		case <-g.over:
			return errStopped
		}
	}
}

// answerBarriers lets those go on whose index is applied. The turn is held.
func (g *group) answerBarriers() {
	kept := g.barriers[:0]
	for _, b := range g.barriers {
		if b.index <= uint64(g.machine.Index()) {
			g.waiting.forget(b.id, true)
		} else {
			kept = append(kept, b)
		}
	}
	g.barriers = kept
}

func (g *group) markReady() { g.readyOnce.Do(func() { close(g.ready) }) }
