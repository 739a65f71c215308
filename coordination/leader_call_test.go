package coordination

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/coordd/coordd/scheme"
)

// answers takes what the calls since the last time were answered, as short words.
func (r *rig) answers() []string {
	var words []string
	for _, done := range r.calls {
		word := fmt.Sprint(done.Call.Nonce, " ", done.Outcome.Status)
		if reflect.DeepEqual(done.Outcome, CallUnknown) {
			word = fmt.Sprint(done.Call.Nonce, " unknown")
		}
		words = append(words, word)
	}
	r.calls = nil
	return words
}

func (r *rig) wantAnswers(want ...string) {
	r.t.Helper()
	if got := r.answers(); !slices.Equal(got, want) {
		r.t.Fatalf("answered %q, want %q", got, want)
	}
}

func makeA(nonce uint64) Command {
	return &MakeDirectory{CallID: CallID{nonce}, Path: scheme.SplitLoose("/local/a")}
}

func removeA(nonce uint64) Command {
	return &RemoveDirectory{CallID: CallID{nonce}, Path: scheme.SplitLoose("/local/a")}
}

// repeat plays a server that does not know the outcome of its call.
func (r *rig) repeat(c Command, since Index) {
	name, _ := CallOf(c)
	r.replica.Call(r.now, name, c, since, true)
	r.take()
}

// A call that was executed under an earlier leader is answered as it was then; one that was lost with that
// leader is executed now. Either way it is executed once.
func TestCallIsRepeatedToTheNextLeader(t *testing.T) {
	r := newRig(t)
	since := r.index
	r.call(makeA(1))
	r.applyAll()
	r.call(removeA(2))
	r.applyAll()
	r.call(removeA(3)) // lost
	r.answers()
	r.lead()
	r.repeat(makeA(1), since)
	r.repeat(removeA(2), since)
	r.wantAnswers("1 SUCCESS", "2 SUCCESS")
	if len(r.inFlight) != 0 {
		t.Fatalf("executed again: %v", r.inFlight)
	}
	r.repeat(removeA(3), since)
	r.applyAll()
	r.wantAnswers("3 SCHEME_ERROR")
}

// Who asks again while the call is in flight waits for the one outcome.
func TestCallInFlightIsNotProposedAgain(t *testing.T) {
	r := newRig(t)
	since := r.index
	r.call(makeA(1))
	r.repeat(makeA(1), since)
	r.call(makeA(2))
	if len(r.inFlight) != 2 {
		t.Fatalf("in flight: %v", r.inFlight)
	}
	r.applyAll()
	r.wantAnswers("1 SUCCESS", "1 SUCCESS", "2 SUCCESS") // the first one twice: to each who asked
	r.repeat(makeA(1), since)
	r.wantAnswers("1 SUCCESS")
}

// Calls without a name are all executed.
func TestNamelessCalls(t *testing.T) {
	r := newRig(t)
	r.call(makeA(0))
	r.call(removeA(0))
	r.applyAll()
	r.call(removeA(0))
	r.applyAll()
	r.wantAnswers("0 SUCCESS", "0 SUCCESS", "0 SCHEME_ERROR")
	if len(r.machine.calls.outcomes) > 0 {
		t.Error("remembered")
	}
}

// A machine that was loaded from a checkpoint knows nothing of the calls before it, and answers so, but only where it
// matters.
func TestCallBeforeTheCheckpoint(t *testing.T) {
	r := newRig(t)
	before := r.index
	r.call(makeA(1))
	r.applyAll()
	r.answers()
	restorer, err := NewRestorer("/local", DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.machine.AllRows() {
		if err := restorer.Add(row); err != nil {
			t.Fatal(err)
		}
	}
	checkpoint := r.index
	restored, err := restorer.Finish()
	if err != nil {
		t.Fatal(err)
	}
	r.start(restored)
	r.repeat(makeA(1), before)
	r.repeat(makeA(2), checkpoint-1)
	r.wantAnswers("1 unknown", "2 unknown")
	r.repeat(removeA(3), checkpoint)
	r.replica.Call(r.now, CallID{4}, makeA(4), before, false) // nobody had it before
	r.take()
	r.applyAll()
	r.wantAnswers("3 SUCCESS", "4 SUCCESS")
}

// What is remembered is bounded. A call that is so old that its outcome may have been forgotten is not
// executed again.
func TestForgottenCalls(t *testing.T) {
	r := newRig(t)
	since := r.index
	r.call(makeA(1))
	r.applyAll()
	for i := range uint64(maxRememberedCalls - 1) {
		r.call(removeA(2 + i))
		r.applyAll()
	}
	r.answers()
	r.lead()
	r.repeat(makeA(1), since)
	r.wantAnswers("1 SUCCESS")
	r.call(makeA(maxRememberedCalls + 1)) // takes the place of the first
	r.applyAll()
	r.answers()
	r.repeat(makeA(1), since)
	r.wantAnswers("1 unknown")
	r.repeat(removeA(2), since)
	r.wantAnswers("2 SUCCESS")
	r.repeat(makeA(1), since+1) // never was, for that server's call began behind the forgotten one
	if len(r.inFlight) != 1 {
		t.Fatal("not executed")
	}
	r.applyAll()
	for i := range uint64(3 * maxRememberedCalls) {
		r.call(removeA(100_000 + i))
		r.applyAll()
	}
	if n := len(r.machine.calls.outcomes); n != maxRememberedCalls || len(r.machine.calls.order) != n {
		t.Errorf("%d are remembered", n)
	}
}

// Machines that remember different things have the same state.
func TestCallMemoryIsNoState(t *testing.T) {
	r := newRig(t)
	r.call(makeA(1))
	r.applyAll()
	digest, rows := r.machine.Digest(), r.machine.AllRows()
	r.machine.calls = callMemory{}
	if r.machine.Digest() != digest || !reflect.DeepEqual(r.machine.AllRows(), rows) {
		t.Error("the state depends on what is remembered")
	}
}

func TestCallOf(t *testing.T) {
	if call, is := CallOf(makeA(7)); !is || call.Nonce != 7 {
		t.Errorf("got %v, %v", call, is)
	}
	if _, is := CallOf(&StopSession{}); is {
		t.Error("a session's command has a call")
	}
	if node, session := makeA(7).subject(); node != 0 || session != 0 {
		t.Error("a call is about a session")
	}
}
