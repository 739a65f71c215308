package rings

import (
	"slices"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
)

// Call is a unary call about the path tree or the users on its way.
type Call struct {
	command coordination.Command
	since   coordination.Index
	lost    bool // with a leader that had it
	outcome outcome.Outcome
}

// Outcome returns the answer; before it comes, the zero value.
func (c *Call) Outcome() outcome.Outcome { return c.outcome }

// Call executes a command; build gets the name to put into the command. While Hold is in force the outcome is
// the zero one.
func (w *World) Call(build func(call coordination.CallID) coordination.Command) outcome.Outcome {
	return w.Begin(build).Outcome()
}

// Begin is Call for those who want the outcome later: while Hold is in force the call stays in flight. It
// survives FailOver, as a server repeats it to the next leader, but not Restart.
func (w *World) Begin(build func(call coordination.CallID) coordination.Command) *Call {
	w.named++
	c := &Call{command: build(coordination.CallID{Nonce: w.named}), since: w.index}
	w.calls = append(w.calls, c)
	w.ask(c)
	return c
}

// ask puts a call to the present leader.
func (w *World) ask(c *Call) {
	w.replica.Call(w.now, c, c.command, c.since, c.lost)
	w.run()
}

// repeatCalls asks the present leader for all calls that are not answered yet.
func (w *World) repeatCalls() {
	for _, c := range slices.Clone(w.calls) {
		w.ask(c)
	}
}

// answer notes what became of a call.
func (w *World) answer(a coordination.Answer[*Call]) {
	c := a.Waiter
	if a.End != coordination.CallAnswered {
		c.lost = true
		return
	}
	c.outcome = a.Outcome
	w.calls = slices.DeleteFunc(w.calls, func(other *Call) bool { return other == c })
}
