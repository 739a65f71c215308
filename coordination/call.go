package coordination

import "github.com/coordd/coordd/scheme/outcome"

func (*CallID) subject() (NodeID, SessionID) { return 0, 0 }

func (c *CallID) name() *CallID { return c }

type callCommand interface {
	Command
	name() *CallID
	by() Caller
}

// CallOf returns the name of the call that a command belongs to; false if it belongs to a session, or to
// nobody.
func CallOf(c Command) (CallID, bool) {
	if c, is := c.(callCommand); is {
		return *c.name(), true
	}
	return CallID{}, false
}

// maxRememberedCalls bounds how many outcomes of calls a machine remembers. A call is repeated within
// seconds, and servers make far fewer calls than that meanwhile.
const maxRememberedCalls = 4096

// callMemory has the outcomes of recent calls, so that a call that is repeated to a new leader gets its one true
// answer. It is not stored, and no command depends on it: every server remembers what it has applied itself.
type callMemory struct {
	// All outcomes of calls after this entry are here. A call is compared by since, an entry as a whole: no command of
	// the call is in it, at whatever place.
	complete Index
	outcomes map[CallID]rememberedCall
	order    []CallID // of outcomes, as a ring once it is full
	oldest   int      // in order
}

type rememberedCall struct {
	index   Index
	outcome outcome.Outcome
}

// remember keeps the outcome of the call that was executed at index, in place of the oldest one if there are
// too many.
func (m *callMemory) remember(call CallID, index Index, answer outcome.Outcome) {
	switch {
	case call == CallID{}:
		return
	case m.outcomes == nil:
		m.outcomes = make(map[CallID]rememberedCall)
	}
	if len(m.order) < maxRememberedCalls {
		m.order = append(m.order, call)
	} else {
		forgotten := m.order[m.oldest]
		m.complete = max(m.complete, m.outcomes[forgotten].index)
		delete(m.outcomes, forgotten)
		m.order[m.oldest] = call
		m.oldest = (m.oldest + 1) % maxRememberedCalls
	}
	m.outcomes[call] = rememberedCall{index, answer}
}

// recall finds what became of a call that no entry up to since belongs to.
func (m *callMemory) recall(call CallID, since Index) (knowledge, outcome.Outcome) {
	if known, found := m.outcomes[call]; found {
		return answered, known.outcome
	}
	if since < m.complete {
		return unknown, outcome.Outcome{}
	}
	return neverExecuted, outcome.Outcome{}
}
