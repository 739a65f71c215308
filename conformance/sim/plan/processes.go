package plan

import (
	"slices"
	"strings"
)

// ForProcesses returns what of a plan can happen to servers that are processes of one machine in real time: they share
// its clock, and its kernel keeps what they have written. The words name what is left out. Where Go's library is not
// patched, no fault of a disk is possible but a report of little space. It fails if no event is left.
func (p *Plan) ForProcesses(patched bool) (_ Plan, left []string, any bool) {
	q := p.clone()
	cannot := []Kind{Clock, Jump, Suspend}
	if !patched {
		cannot = append(cannot, CrashAt, EIO, ENOSPC, ShortWrite, SlowSync, FreezeSync)
	}
	leave := func(word string) {
		if !slices.Contains(left, word) {
			left = append(left, word)
		}
	}
	q.Events = slices.DeleteFunc(q.Events, func(e Event) bool {
		out := slices.Contains(cannot, e.Kind)
		if out {
			leave(string(e.Kind))
		}
		return out
	})
	for i := range q.Servers {
		if q.Servers[i].ClockPPM != 0 {
			leave("clock rates")
		}
		q.Servers[i].ClockPPM = 0
	}
	q.Yield = 0
	slices.SortFunc(left, strings.Compare)
	return q, left, len(q.Events) > 0
}
