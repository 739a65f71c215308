package check

import (
	"cmp"
	"slices"

	"github.com/coordd/coordd/conformance/model"
	"github.com/coordd/coordd/coordination"
)

// Judge returns the violations in a history, in the order of their times.
func Judge(events []Event, options Options) []Violation {
	j := &judge{options: options, events: events, streams: make(map[int]*stream),
		sessions: make(map[sessionKey][]*stream), newest: make(map[int]int),
		nodes: make(map[coordination.NodeID]*node), first: make(map[coordination.Index]*coordination.Entry)}
	servers := make(map[int]coordination.Index)
	for place, e := range events {
		switch fact := e.Fact.(type) {
		case *Opened:
			j.open(place, fact)
		case *Sent:
			j.sent(place, e.At, fact)
		case *Got:
			j.got(place, e.At, fact)
		case *Ended:
			j.end(place, fact)
		case *Executed:
			j.execute(place, e.At, fact, servers)
		}
	}
	slices.SortFunc(j.log, func(a, b logged) int { return cmp.Compare(a.entry.Index, b.entry.Index) })
	j.believe()
	if !options.WithoutModel {
		j.replay()
		j.compare()
		j.owed()
	}
	slices.SortStableFunc(j.violations, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return j.violations
}

// owed reports answers that open streams should have received by the end.
func (j *judge) owed() {
	latest := j.options.End - j.options.Patience
	for _, q := range j.order {
		s := q.stream
		if s.ended != never || s.doubtful || s.failure != "" || q.at > latest {
			continue
		}
		answered := slices.ContainsFunc(q.got, func(g got) bool { return final(&g.Reply) })
		due := slices.ContainsFunc(q.answers, func(a answer) bool {
			return final(&a.Reply) && j.find(a.by).at <= latest
		})
		switch {
		case answered:
			j.owedWatch(q, latest)
		case due:
			j.report(j.options.End, "answers", "%v was executed as entry %v, and its answer %+v never came", q,
				q.executed, q.answers)
		case q.Kind == model.Describe || q.executed == 0:
			j.report(j.options.End, "answers", "%v, sent at %v, was never answered", q, q.at)
		case q.waits && len(q.got) == 0:
			j.report(j.options.End, "answers", "%v waits and its client was never told", q)
		}
	}
}
