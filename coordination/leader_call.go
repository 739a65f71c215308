package coordination

import "github.com/coordd/coordd/scheme/outcome"

// CallUnknown is the outcome of a repeated call if nobody knows any more whether it was executed.
var CallUnknown = outcome.Because(outcome.Unavailable,
	"The leader changed while the call was under way: it may have been executed")

// CallDone answers a call about the path tree or the users.
type CallDone struct {
	Call    CallID
	Outcome outcome.Outcome
}

// Call takes the command of a call; the outcome comes in Output.Calls, under the call's name. A call that is
// here already is not executed again: both who ask get the one outcome.
//
// since is an entry that was applied when the call came to the cluster, so that no entry up to it belongs to
// the call. repeated reports that an earlier attempt may have reached a leader. If that was in an earlier term, its
// entry is applied by now or lost for ever, because a Leader is made behind the first entry of its own term. So what
// the machine does not remember was never executed, unless it remembers too little: then the outcome is CallUnknown.
func (l *Leader) Call(now Instant, c Command, since Index, repeated bool) {
	call, _ := CallOf(c)
	if l.calling[call] {
		return
	}
	became, answer := l.machine.calls.recall(call, since)
	switch {
	case became == answered:
		l.out.Calls = append(l.out.Calls, CallDone{call, answer})
	case became == unknown && repeated:
		l.out.Calls = append(l.out.Calls, CallDone{call, CallUnknown})
	default:
		if call != (CallID{}) {
			l.calling[call] = true
		}
		if end, is := c.(*EndSession); is {
			if n := l.leaderSide(end.Node); n != nil && n.leaderSide(end.Session) != nil {
				s, named := n.sessions[end.Session], *end
				named.Client = s.lastClient(l, now)
				c = &named
			}
		}
		l.put(c)
	}
}

func (l *Leader) callDone(e *Effect) {
	delete(l.calling, e.Call)
	l.out.Calls = append(l.out.Calls, CallDone{e.Call, e.Outcome})
}
