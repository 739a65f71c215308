// Package budget bounds the bytes that requests hold together, and grants them in the order of asking.
package budget

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
)

// Budget is a credit in bytes, which is spent in the order of asking. As long as the line is empty no lock is taken:
// every request passes here twice.
type Budget struct {
	most  atomic.Int64
	spent atomic.Int64
	line  atomic.Int64 // how many wait, or are about to; it grows before a wish looks for the last time

	mutex   sync.Mutex
	waiting list.List // of *wish
}

// Wish is a place in the line for credit.
type Wish struct {
	bytes   int
	granted chan struct{} // closed when it is spent
	place   *list.Element // in budget.waiting, nil once it is not there any more
}

// WishFor spends credit if there is enough and nobody waits. If not, the wish is in line.
func (b *Budget) WishFor(bytes int) *Wish {
	if b.line.Load() == 0 && b.spend(bytes) {
		return nil
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.line.Add(1) // whoever gives back from now on comes here; what was given back before is found
	if b.waiting.Len() == 0 && b.spend(bytes) {
		b.line.Add(-1)
		return nil
	}
	w := &Wish{bytes: bytes, granted: make(chan struct{})}
	w.place = b.waiting.PushBack(w)
	return w
}

// spend spends credit if there is enough. What is larger than all of it may be spent alone.
func (b *Budget) spend(bytes int) bool {
	for {
		spent := b.spent.Load()
		if spent != 0 && spent+int64(bytes) > b.most.Load() {
			return false
		}
		if b.spent.CompareAndSwap(spent, spent+int64(bytes)) {
			return true
		}
	}
}

// Change gives back credit, or spends some that nobody has asked for.
func (b *Budget) Change(bytes int) {
	if bytes == 0 {
		return
	}
	b.spent.Add(int64(bytes))
	b.look()
}

// Limit sets how much there is.
func (b *Budget) Limit(most int) {
	b.most.Store(int64(most))
	b.look()
}

// look serves those who wait, if anybody does.
func (b *Budget) look() {
	if b.line.Load() == 0 {
		return
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.serve()
}

// serve spends what those who wait may have by now. The mutex is held.
func (b *Budget) serve() {
	for first := b.waiting.Front(); first != nil; first = b.waiting.Front() {
		w := first.Value.(*Wish)
		if !b.spend(w.bytes) {
			return
		}
		b.leave(w)
		close(w.granted)
	}
}

// leave takes a wish out of the line. The mutex is held.
func (b *Budget) leave(w *Wish) {
	b.waiting.Remove(w.place)
	w.place = nil
	b.line.Add(-1)
}

// Held returns the bytes that are spent, and the length of the line.
func (b *Budget) Held() (spent, waiting int) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return int(b.spent.Load()), b.waiting.Len()
}

// Acquire spends credit as soon as there is enough. It reports whether it did: ctx may be done before.
func (b *Budget) Acquire(ctx context.Context, bytes int) bool {
	w := b.WishFor(bytes)
	return w == nil || b.Await(ctx, w)
}

// Await returns when the wish is granted, or ctx is done. It reports whether it was granted.
func (b *Budget) Await(ctx context.Context, w *Wish) bool {
	select {
	case <-w.granted:
		return true
	case <-ctx.Done():
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if w.place == nil {
		return true
	}
	b.leave(w)
	b.serve() // it may have held up smaller ones
	return false
}
