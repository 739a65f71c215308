package auth

import (
	"context"
	"slices"
	"sync"
)

const (
	// maxHashesAtOnce bounds how many passwords are hashed at a time, so that logins cannot eat the machine;
	// maxStrangersAtOnce how many of them for strangers, so that they cannot have all of it.
	maxHashesAtOnce    = 2
	maxStrangersAtOnce = 1
	// maxHashesWaiting bounds how many of each, known callers and strangers, wait for their turn.
	maxHashesWaiting = 128
)

// turns hands out the right to hash a password. Those whom the server knows, and strangers, wait in a line
// each, and a stranger's turn comes only where it leaves one to the others. Within a line the sources take
// turns, whatever their numbers, and where it is full the source with the most loses its last one: so nobody
// is shut out by somebody else.
type turns struct {
	mutex     sync.Mutex
	taken     int
	strangers int // of those taken
	lines     [2]line
}

// lineOf is the number of the line.
func lineOf(known bool) int {
	if known {
		return 1
	}
	return 0
}

// take waits for a turn. The caller gives it back with done. Errors: ErrOverloaded, those of ctx.
func (t *turns) take(ctx context.Context, source string, known bool) (done func(), err error) {
	waits := &waiter{source: source, told: make(chan error, 1)}
	t.mutex.Lock()
	line := &t.lines[lineOf(known)]
	line.join(waits)
	t.grant()
	if line.waiting > maxHashesWaiting {
		line.dropOne()
	}
	t.mutex.Unlock()
	select {
	case err = <-waits.told:
	case <-ctx.Done():
		if !t.giveUp(line, waits) {
			if err = <-waits.told; err == nil {
				t.giveBack(known)
			}
		}
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return func() { t.giveBack(known) }, nil
}

// giveUp takes a waiter out of its line, and reports whether it was there.
func (t *turns) giveUp(l *line, w *waiter) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return l.leave(w)
}

func (t *turns) giveBack(known bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.taken--
	if !known {
		t.strangers--
	}
	t.grant()
}

// grant gives the free turns to those who wait. The last free one goes to a stranger if none has one, since
// those who are known have another then; before it, and wherever no stranger may have it, they come first.
func (t *turns) grant() {
	for t.taken < maxHashesAtOnce {
		strangerMay := t.lines[0].waiting > 0 && t.strangers < maxStrangersAtOnce
		switch last := t.taken == maxHashesAtOnce-1; {
		case t.lines[1].waiting > 0 && !(last && strangerMay):
			t.lines[1].next().told <- nil
		case strangerMay:
			t.lines[0].next().told <- nil
			t.strangers++
		default:
			return
		}
		t.taken++
	}
}

// waiter is a call that waits for its turn.
type waiter struct {
	source string
	told   chan error // nil: it has it
}

// line is those who wait, by source. The source whose turn is next comes first.
type line struct {
	waiting int
	sources []sourceQueue
}

type sourceQueue struct {
	source  string
	waiters []*waiter // the longest waiting first; never empty
}

func (l *line) join(w *waiter) {
	l.waiting++
	at := slices.IndexFunc(l.sources, func(q sourceQueue) bool { return q.source == w.source })
	if at < 0 {
		l.sources = append(l.sources, sourceQueue{w.source, []*waiter{w}})
		return
	}
	l.sources[at].waiters = append(l.sources[at].waiters, w)
}

// next takes out whose turn it is. Its source comes last from then on.
func (l *line) next() *waiter {
	first := l.sources[0]
	l.sources = slices.Delete(l.sources, 0, 1)
	if len(first.waiters) > 1 {
		l.sources = append(l.sources, sourceQueue{first.source, slices.Clone(first.waiters[1:])})
	}
	l.waiting--
	return first.waiters[0]
}

// dropOne refuses the last waiter of the source that has the most.
func (l *line) dropOne() {
	most := slices.MaxFunc(l.sources, func(a, b sourceQueue) int { return len(a.waiters) - len(b.waiters) })
	last := most.waiters[len(most.waiters)-1]
	l.leave(last)
	last.told <- ErrOverloaded
}

func (l *line) leave(w *waiter) bool {
	for i, q := range l.sources {
		at := slices.Index(q.waiters, w)
		if at < 0 {
			continue
		}
		l.waiting--
		if l.sources[i].waiters = slices.Delete(q.waiters, at, at+1); len(l.sources[i].waiters) == 0 {
			l.sources = slices.Delete(l.sources, i, i+1)
		}
		return true
	}
	return false
}
