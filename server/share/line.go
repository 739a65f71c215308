package share

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// ErrFull is returned to the waiter that a full line drops.
var ErrFull = errors.New("too many wait already")

// Line hands out the places of a pool in turn. Callers that are known and callers that are not wait in a queue
// each; within a queue the subjects take turns, however many waiters each has. A full queue drops the last
// waiter of the subject that has most, so no subject shuts out another.
type Line struct {
	most int // waiters of a queue, 0: without bound

	mutex  sync.Mutex
	pool   *Pool
	queues [2]queue
}

// NewLine returns a line for so many places, in each queue of which so many may wait; 0: any number.
func NewLine(places, most int) *Line { return &Line{most: most, pool: NewPool(places)} }

// queueOf returns the number of the subject's queue.
func queueOf(s Subject) int {
	if s.Class == Unknown {
		return 0
	}
	return 1
}

// Acquire waits for a place, which the caller gives back with release. Errors: ErrFull, those of ctx.
func (l *Line) Acquire(ctx context.Context, s Subject) (release func(), err error) {
	w := &waiter{subject: s, answer: make(chan error, 1)}
	l.mutex.Lock()
	q := &l.queues[queueOf(s)]
	q.join(w)
	l.grant()
	if l.most > 0 && q.waiting > l.most {
		q.dropOne()
	}
	l.mutex.Unlock()
	select {
	case err = <-w.answer:
	case <-ctx.Done():
		if !l.giveUp(q, w) && <-w.answer == nil {
			l.release(s)
		}
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return func() { l.release(s) }, nil
}

// Waiting returns how many wait in the subject's queue.
func (l *Line) Waiting(s Subject) int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.queues[queueOf(s)].waiting
}

// giveUp takes a waiter out of its queue, and reports whether it was there.
func (l *Line) giveUp(q *queue, w *waiter) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if w.place == nil {
		return false
	}
	q.leave(w)
	return true
}

func (l *Line) release(s Subject) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.pool.Leave(s)
	l.grant()
}

// grant gives free places to waiters. Known callers come first, except that the last free place goes to an
// unknown caller if no unknown one has a place: the known ones have the others then.
func (l *Line) grant() {
	for l.pool.used < l.pool.total {
		order := [2]int{1, 0}
		if l.pool.used == l.pool.total-1 && l.pool.unknown == 0 {
			order = [2]int{0, 1}
		}
		w := l.queues[order[0]].next(l.pool)
		if w == nil {
			w = l.queues[order[1]].next(l.pool)
		}
		if w == nil {
			return
		}
		w.answer <- nil
	}
}

// waiter is a caller that waits for a place.
type waiter struct {
	subject Subject
	answer  chan error    // nil: it has the place
	place   *list.Element // nil: it waits no more
}

// queue is the waiters of one kind.
type queue struct {
	waiting int
	turns   list.List // of *waiters; the subject whose turn is next comes first
	by      map[Subject]*list.Element
}

// waiters are those of one subject, the longest waiting first; never empty.
type waiters struct {
	subject Subject
	list.List
}

func (q *queue) join(w *waiter) {
	turn, found := q.by[w.subject]
	if !found {
		if q.by == nil {
			q.by = make(map[Subject]*list.Element)
		}
		turn = q.turns.PushBack(&waiters{subject: w.subject})
		q.by[w.subject] = turn
	}
	w.place = turn.Value.(*waiters).PushBack(w)
	q.waiting++
}

// leave takes a waiter out of the queue.
func (q *queue) leave(w *waiter) {
	turn := q.by[w.subject]
	all := turn.Value.(*waiters)
	all.Remove(w.place)
	w.place = nil
	q.waiting--
	if all.Len() == 0 {
		q.turns.Remove(turn)
		delete(q.by, w.subject)
	}
}

// next takes out the waiter whose turn is next among the subjects that may have one more place of the pool, in
// which it takes the place. That subject's turn comes last from then on. It returns nil if no waiter may.
func (q *queue) next(p *Pool) *waiter {
	for turn := q.turns.Front(); turn != nil; turn = turn.Next() {
		all := turn.Value.(*waiters)
		if !p.Enter(all.subject) {
			continue
		}
		w := all.Front().Value.(*waiter)
		q.turns.MoveToBack(turn)
		q.leave(w)
		return w
	}
	return nil
}

// dropOne refuses the last waiter of the subject that has the most.
func (q *queue) dropOne() {
	var most *waiters
	for turn := q.turns.Front(); turn != nil; turn = turn.Next() {
		if all := turn.Value.(*waiters); most == nil || all.Len() > most.Len() {
			most = all
		}
	}
	last := most.Back().Value.(*waiter)
	q.leave(last)
	last.answer <- ErrFull
}
