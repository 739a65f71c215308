package group

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
)

const (
	// maxStreamBytes is how much a stream's requests without a first answer may have together before it is
	// not read any more. The last of them may go beyond.
	maxStreamBytes = 4 << 20
	// maxLocalBytes is how much the requests of all streams of a server that leads may have together. Streams
	// that bring more are not read until there is room.
	maxLocalBytes = 64 << 20
	// maxRelayBytes is the same for a server that does not lead: what it may have under way to the leader,
	// which holds it for all servers.
	maxRelayBytes = 16 << 20
)

// budget is the credit in bytes for the requests of a server's streams. A request holds its bytes from before
// its stream hands it to the leader until its first answer, a refusal, or the end of its stream: an acquire
// that waits in a queue has been answered, so it holds none, and the release that it waits for always comes
// through. Who wants credit waits in line. As long as nobody waits, no lock is taken: every request passes
// here twice.
type budget struct {
	most  atomic.Int64
	spent atomic.Int64
	line  atomic.Int64 // how many wait, or are about to; it grows before a wish looks for the last time

	mutex   sync.Mutex
	waiting list.List // of *wish
}

// wish is credit that somebody waits for.
type wish struct {
	bytes   int
	granted chan struct{} // closed when it is spent
	place   *list.Element // in budget.waiting, nil once it is not there any more
}

// wishFor spends credit if there is enough and nobody waits. If not, the wish is in line.
func (b *budget) wishFor(bytes int) *wish {
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
	w := &wish{bytes: bytes, granted: make(chan struct{})}
	w.place = b.waiting.PushBack(w)
	return w
}

// spend spends credit if there is enough. What is larger than all of it may be spent alone.
func (b *budget) spend(bytes int) bool {
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

// change gives back credit, or spends some that nobody has asked for.
func (b *budget) change(bytes int) {
	if bytes == 0 {
		return
	}
	b.spent.Add(int64(bytes))
	b.look()
}

// limit sets how much there is.
func (b *budget) limit(most int) {
	b.most.Store(int64(most))
	b.look()
}

// look serves those who wait, if anybody does.
func (b *budget) look() {
	if b.line.Load() == 0 {
		return
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.serve()
}

// serve spends what those who wait may have by now. The mutex is held.
func (b *budget) serve() {
	for first := b.waiting.Front(); first != nil; first = b.waiting.Front() {
		w := first.Value.(*wish)
		if !b.spend(w.bytes) {
			return
		}
		b.leave(w)
		close(w.granted)
	}
}

// leave takes a wish out of the line. The mutex is held.
func (b *budget) leave(w *wish) {
	b.waiting.Remove(w.place)
	w.place = nil
	b.line.Add(-1)
}

// held is how much is spent, and how many wait.
func (b *budget) held() (spent, waiting int) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return int(b.spent.Load()), b.waiting.Len()
}

// enter spends credit as soon as there is enough. It reports whether it did: ctx may be done before.
func (b *budget) enter(ctx context.Context, bytes int) bool {
	w := b.wishFor(bytes)
	return w == nil || b.await(ctx, w)
}

// await returns when the wish is granted, or ctx is done. It reports whether it was granted.
func (b *budget) await(ctx context.Context, w *wish) bool {
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
