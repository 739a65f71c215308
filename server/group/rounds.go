package group

import (
	"sync"
	"time"
)

// readBarrier marks the numbers of this file's read questions; those that the leader on this server puts for strict
// describes are smaller (coordination.Work.Barrier).
const readBarrier = 1 << 63

// barrierRetry is the time after which a question is put again under a new number: a question is lost with the leader
// that has it.
const barrierRetry = 300 * time.Millisecond

// passedBarrier is a question that was answered with a read index: its round ends once that is applied here.
type passedBarrier struct{ id, index uint64 }

// readRounds makes reads share questions to the leader. One round is under way at a time; reads that come meanwhile
// wait for the next, because an answer covers only the reads that were there before the question.
type readRounds struct {
	mutex    sync.Mutex
	last     uint64     // number of the last question
	underWay *readRound // nil: no read waits
	next     *readRound // nil: no read came since
}

// readRound is the reads that wait for one answer. It is guarded by the mutex of its readRounds, but for passed.
type readRound struct {
	question uint64 // 0 as long as the round is not under way
	answered bool   // the read index is known, but not applied here yet
	readers  int
	passed   chan struct{} // closed when the read index is applied here
}

// join adds a read to the next round. ask is the question that the caller puts now, unless it is 0; here and below.
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

// advance begins the next round if no other is under way. The mutex is held.
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

// drop removes a read that waits no more.
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

// pass ends the round of a question: its read index is applied here.
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

// asked returns the question that a round waits for.
func (r *readRounds) asked(round *readRound) uint64 {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return round.question
}

// answer notes that the read index of a question is known, so that it is not put again: on a server that lags, each
// new answer would be further ahead than the one before.
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
