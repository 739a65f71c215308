package coordination

import (
	"cmp"
	"maps"
	"slices"

	"github.com/coordd/coordd/scheme/outcome"
)

// CallEnd is the end of the wait for a call.
type CallEnd uint8

// The ends of a call.
const (
	// CallAnswered: Answer.Outcome is the outcome.
	CallAnswered CallEnd = iota
	// CallNotLed: no leader is here. The call was not executed, and never will be because of this attempt.
	CallNotLed
	// CallLost: the leader that had the call is no more. Nobody here knows what becomes of it; it may be
	// repeated to the next leader, as repeated.
	CallLost
)

// Answer is the end of a call for one of those who wait for it.
type Answer[W any] struct {
	Waiter  W
	End     CallEnd
	Outcome outcome.Outcome // with CallAnswered
}

// Call takes the command of a call for which waiter waits; since and repeated are those of Leader.Call.
// Everybody gets one Answer. Who waits for a call of the same name gets the same one.
func (r *Replica[S, W]) Call(now Instant, waiter W, c Command, since Index, repeated bool) {
	if r.leader == nil {
		r.answers = append(r.answers, Answer[W]{Waiter: waiter, End: CallNotLed})
		return
	}
	// what was executed before is still answered
	if refusal := r.admission.refusalOf(c); refusal != nil && !repeated {
		r.answers = append(r.answers, Answer[W]{Waiter: waiter,
			Outcome: outcome.Because(refusal.Status, refusal.Text)})
		return
	}
	call, _ := CallOf(c)
	r.calls[call] = append(r.calls[call], waiter)
	r.leader.Call(now, c, since, repeated)
}

// Waiting returns the waiters of a call. The slice is the Replica's.
func (r *Replica[S, W]) Waiting(call CallID) []W { return r.calls[call] }

// answerCalls passes the outcomes to all that wait for them.
func (r *Replica[S, W]) answerCalls(done []CallDone) {
	for i := range done {
		for _, waiter := range r.calls[done[i].Call] {
			r.answers = append(r.answers, Answer[W]{Waiter: waiter, Outcome: done[i].Outcome})
		}
		delete(r.calls, done[i].Call)
	}
}

// loseCalls notifies all waiters that the leader is gone.
func (r *Replica[S, W]) loseCalls() {
	byNonce := func(a, b CallID) int { return cmp.Compare(a.Nonce, b.Nonce) }
	for _, call := range slices.SortedFunc(maps.Keys(r.calls), byNonce) {
		for _, waiter := range r.calls[call] {
			r.answers = append(r.answers, Answer[W]{Waiter: waiter, End: CallLost})
		}
	}
	clear(r.calls)
}
