package group

import (
	"sync"
	"time"
)

// readBarrier marks the read-index questions of this file; those of the leader's strict describes are below
// it.
const readBarrier = 1 << 63

// barrierRetry is how long a question is waited for before it is asked again under a new number: a question
// is lost with the leader that it was put to.
const barrierRetry = 300 * time.Millisecond

// passedBarrier is a question that was answered: it is good once index is applied here.
type passedBarrier struct{ id, index uint64 }

// readRounds has reads share questions. One round is under way at a time; reads that come meanwhile wait for
// the next, because an answer covers only those who were there before the question.
type readRounds struct {
	mutex    sync.Mutex
	last     uint64     // number of the last question
	underWay *readRound // nil: nobody waits
	next     *readRound // nil: nobody came since
}

// readRound is reads that wait for one answer. It is guarded by the mutex of its readRounds, but for passed.
type readRound struct {
	question uint64 // 0 as long as the round is not under way
	answered bool   // the answer is known; what it speaks of is not applied here yet
	readers  int
	passed   chan struct{} // closed when the answer is there
}

// join adds a read to the round that it may be answered with. ask is the question to put now, 0 if there is
// none.
func (r *readRounds) join() (round *readRound, ask uint64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.next == nil {
		r.next = &readRound{passed: make(chan struct{})}
	}
	round = r.next
	round.readers++
	return round, r.advance()
}

// advance puts the next round under way if there is none. The mutex is held.
func (r *readRounds) advance() (ask uint64) {
	if r.underWay != nil || r.next == nil {
		return 0
	}
	r.underWay, r.next = r.next, nil
	return r.number(r.underWay)
}

// number gives a round its next question.
func (r *readRounds) number(round *readRound) uint64 {
	r.last++
	round.question = readBarrier | r.last
	return round.question
}

// drop takes out a read that waits no more.
func (r *readRounds) drop(round *readRound) (ask uint64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if round.readers--; round.readers == 0 {
		switch round {
		case r.underWay:
			r.underWay = nil
		case r.next:
			r.next = nil
		}
	}
	return r.advance()
}

// pass lets the round go on whose question has been answered.
func (r *readRounds) pass(question uint64) (ask uint64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.underWay == nil || r.underWay.question != question {
		return 0
	}
	close(r.underWay.passed)
	r.underWay = nil
	return r.advance()
}

// asked is the question that a round waits for.
func (r *readRounds) asked(round *readRound) uint64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return round.question
}

// answer notes that a question was answered, so that it is not put again: on a server that lags, each new
// answer would be further ahead than the one before.
func (r *readRounds) answer(question uint64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.underWay != nil && r.underWay.question == question {
		r.underWay.answered = true
	}
}

// again replaces a question that may be lost, unless another read of the round has done so.
func (r *readRounds) again(round *readRound, lost uint64) (ask uint64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if round != r.underWay || round.question != lost || round.answered {
		return 0
	}
	return r.number(round)
}
