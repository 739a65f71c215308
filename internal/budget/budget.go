// Package budget bounds what many use together, such as the memory of requests under way, and grants it in the order
// of asking.
package budget

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
)

// Budget is an amount that is used by parts: bytes, or places. What is larger than all of it is granted alone. As long
// as nobody waits no lock is taken: every request passes here twice. All methods may be called concurrently.
type Budget struct {
	name  string
	limit atomic.Int64
	used  atomic.Int64
	line  atomic.Int64 // how many wait, or are about to; it grows before a waiter looks for the last time
	freed atomic.Pointer[func()]

	mutex   sync.Mutex
	waiting list.List // of *waiter
}

// waiter is a place in the line.
type waiter struct {
	amount  int
	granted chan struct{} // closed when the amount is used
	place   *list.Element // in Budget.waiting, nil once it is not there any more
}

// New returns a budget of which nothing is used. The name is for operators.
func New(name string, limit int) *Budget {
	b := &Budget{name: name}
	b.limit.Store(int64(limit))
	return b
}

// Name returns the name.
func (b *Budget) Name() string { return b.name }

// Limit returns the amount that may be used.
func (b *Budget) Limit() int { return int(b.limit.Load()) }

// SetLimit changes the amount that may be used.
func (b *Budget) SetLimit(limit int) {
	b.limit.Store(int64(limit))
	b.serveLine()
}

// Used returns the amount that is used. It may be above the limit, see Adjust.
func (b *Budget) Used() int { return int(b.used.Load()) }

// Free returns the amount that is left, 0 if the limit is exceeded.
func (b *Budget) Free() int { return max(0, b.Limit()-b.Used()) }

// Waiting returns the length of the line.
func (b *Budget) Waiting() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.waiting.Len()
}

// TryAcquire uses an amount if there is enough and nobody waits. It reports whether it did.
func (b *Budget) TryAcquire(amount int) bool { return b.line.Load() == 0 && b.take(amount) }

// Acquire uses an amount as soon as there is enough and all who have waited longer are served. It reports whether it
// did: ctx may be done before.
func (b *Budget) Acquire(ctx context.Context, amount int) bool {
	w := b.join(amount)
	return w == nil || b.await(ctx, w)
}

// Release gives back an amount.
func (b *Budget) Release(amount int) { b.Adjust(-amount) }

// Adjust uses an amount whether there is enough or not, or gives back a negative one.
func (b *Budget) Adjust(amount int) {
	if amount == 0 {
		return
	}
	b.used.Add(int64(amount))
	b.serveLine()
	if freed := b.freed.Load(); amount < 0 && freed != nil && *freed != nil {
		(*freed)()
	}
}

// OnRelease makes f be called after each release, on the goroutine that releases; nil ends that.
func (b *Budget) OnRelease(f func()) { b.freed.Store(&f) }

// join uses an amount if there is enough and nobody waits. If not, it returns a place in line.
func (b *Budget) join(amount int) *waiter {
	if b.TryAcquire(amount) {
		return nil
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.line.Add(1) // a give-back from now on comes here; an earlier one is found below
	if b.waiting.Len() == 0 && b.take(amount) {
		b.line.Add(-1)
		return nil
	}
	w := &waiter{amount: amount, granted: make(chan struct{})}
	w.place = b.waiting.PushBack(w)
	return w
}

// take uses an amount if there is enough.
func (b *Budget) take(amount int) bool {
	for {
		used := b.used.Load()
		if used != 0 && used+int64(amount) > b.limit.Load() {
			return false
		}
		if b.used.CompareAndSwap(used, used+int64(amount)) {
			return true
		}
	}
}

// serveLine serves those who wait, if anybody does.
func (b *Budget) serveLine() {
	if b.line.Load() > 0 {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		b.serve()
	}
}

// serve grants what those who wait may have by now. The mutex is held.
func (b *Budget) serve() {
	for first := b.waiting.Front(); first != nil; first = b.waiting.Front() {
		w := first.Value.(*waiter)
		if !b.take(w.amount) {
			return
		}
		b.leave(w)
		close(w.granted)
	}
}

// leave takes a waiter out of the line. The mutex is held.
func (b *Budget) leave(w *waiter) {
	b.waiting.Remove(w.place)
	w.place = nil
	b.line.Add(-1)
}

// await returns when the waiter is served, or ctx is done. It reports whether it was served.
func (b *Budget) await(ctx context.Context, w *waiter) bool {
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
