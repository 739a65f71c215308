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
	// maxHashesWaiting bounds how many of each, known callers and strangers, wait for a slot.
	maxHashesWaiting = 128
)

// slots bound how many passwords are hashed at a time: whoever hashes one has a slot meanwhile. Those whom
// the server knows, and strangers, wait for one in a line each, and a stranger gets one only where that
// leaves one to the others. Within a line the sources take turns, whatever their numbers, and where it is
// full the source with the most loses its last waiter: so nobody is shut out by somebody else.
type slots struct {
	mutex     sync.Mutex
	inUse     int
	strangers int // of those in use
	lines     [2]line
}

// lineOf is the number of the line.
func lineOf(known bool) int {
	if known {
		return 1
	}
	return 0
}

// acquire waits for a slot. The caller gives it back with done. Errors: ErrOverloaded, those of ctx.
func (s *slots) acquire(ctx context.Context, source string, known bool) (done func(), err error) {
	waits := &waiter{source: source, answer: make(chan error, 1)}
	s.mutex.Lock()
	line := &s.lines[lineOf(known)]
	line.join(waits)
	s.grant()
	if line.waiting > maxHashesWaiting {
		line.dropOne()
	}
	s.mutex.Unlock()
	select {
	case err = <-waits.answer:
	case <-ctx.Done():
		if !s.giveUp(line, waits) {
			if err = <-waits.answer; err == nil {
				s.release(known)
			}
		}
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return func() { s.release(known) }, nil
}

// giveUp takes a waiter out of its line, and reports whether it was there.
func (s *slots) giveUp(l *line, w *waiter) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return l.leave(w)
}

func (s *slots) release(known bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.inUse--
	if !known {
		s.strangers--
	}
	s.grant()
}

// grant gives the free slots to those who wait. The last free one goes to a stranger if none has one, since
// those who are known have another then; before it, and wherever no stranger may have it, they come first.
func (s *slots) grant() {
	for s.inUse < maxHashesAtOnce {
		strangerMay := s.lines[0].waiting > 0 && s.strangers < maxStrangersAtOnce
		switch last := s.inUse == maxHashesAtOnce-1; {
		case s.lines[1].waiting > 0 && !(last && strangerMay):
			s.lines[1].next().answer <- nil
		case strangerMay:
			s.lines[0].next().answer <- nil
			s.strangers++
		default:
			return
		}
		s.inUse++
	}
}

// waiter is a call that waits for a slot.
type waiter struct {
	source string
	answer chan error // nil: it has it
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
	last.answer <- ErrOverloaded
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
