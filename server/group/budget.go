package group

import (
	"context"
	"slices"
	"sync"
)

const (
	// maxStreamBytes is how much a stream's requests without a first answer may have together before it is not read any
	// more. The last of them may go beyond.
	maxStreamBytes = 4 << 20
	// maxLocalBytes is how much the requests of all streams of a server that leads may have together. Streams that bring
	// more are not read until there is room.
	maxLocalBytes = 64 << 20
	// maxRelayBytes is the same for a server that does not lead: what it may have under way to the leader, which holds it
	// for all servers.
	maxRelayBytes = 16 << 20
)

// budget is the credit in bytes for the requests of a server's streams. A request holds its bytes from before its stream
// hands it to the leader until its first answer, a refusal, or the end of its stream: an acquire that waits in a queue has
// been answered, so it holds none, and the release that it waits for always comes through. Who wants credit waits in line.
type budget struct {
	mutex   sync.Mutex
	most    int
	spent   int
	waiting []*wish
}

// wish is credit that somebody waits for.
type wish struct {
	bytes   int
	granted chan struct{} // closed when it is spent
}

// take spends credit if there is enough and nobody waits. If not, the wish is in line.
func (b *budget) take(bytes int) *wish {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if len(b.waiting) == 0 && b.allows(bytes) {
		b.spent += bytes
		return nil
	}
	w := &wish{bytes: bytes, granted: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	return w
}

// allows reports whether credit may be spent. What is larger than all of it may be spent alone. The mutex is held.
func (b *budget) allows(bytes int) bool { return b.spent == 0 || b.spent+bytes <= b.most }

// change gives back credit, or spends some that nobody has asked for.
func (b *budget) change(bytes int) {
	if bytes == 0 {
		return
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.spent += bytes
	b.serve()
}

// limit sets how much there is.
func (b *budget) limit(most int) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.most = most
	b.serve()
}

// serve spends what those who wait may have by now. The mutex is held.
func (b *budget) serve() {
	for len(b.waiting) > 0 && b.allows(b.waiting[0].bytes) {
		w := b.waiting[0]
		b.spent += w.bytes
		close(w.granted)
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
	}
	if len(b.waiting) == 0 {
		b.waiting = nil
	}
}

// enter spends credit as soon as there is enough. It reports whether it did: ctx may be done before.
func (b *budget) enter(ctx context.Context, bytes int) bool {
	w := b.take(bytes)
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
	at := slices.Index(b.waiting, w)
	if at < 0 {
		return true
	}
	b.waiting = slices.Delete(b.waiting, at, at+1)
	b.serve() // it may have held up smaller ones
	return false
}
