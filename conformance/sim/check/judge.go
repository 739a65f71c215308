package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/coordd/coordd/coordination"
)

// Judge returns the violations in a history, in the order of their times, and the extent of what was compared.
func Judge(events []Event, options Options) ([]Violation, Extent) {
	j := collect(events, options)
	j.believe()
	if !options.WithoutModel {
		j.replay()
		j.compare()
		j.owed()
	}
	slices.SortStableFunc(j.violations, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return j.violations, j.extent()
}

func (j *judge) extent() Extent {
	e := Extent{Requests: len(j.order), Compared: j.compared}
	for _, s := range j.streams {
		if s.doubtful {
			e.Doubtful += len(s.requests)
		}
	}
	return e
}

// collect sorts the events of a history by streams, requests and entries.
func collect(events []Event, options Options) *judge {
	j := &judge{options: options, events: events, streams: make(map[int]*stream),
		sessions: make(map[sessionKey][]*stream), newest: make(map[int]int),
		nodes: make(map[coordination.NodeID]*node), first: make(map[coordination.Index]*coordination.Entry)}
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
			j.execute(place, e.At, fact)
		}
	}
	slices.SortFunc(j.log, func(a, b logged) int { return cmp.Compare(a.entry.Index, b.entry.Index) })
	return j
}

// owed reports answers that living streams should have received.
func (j *judge) owed() {
	for _, q := range j.order {
		if q.stream.doubtful || q.stream.failure != "" {
			continue
		}
		last := q.answerAt(func(a *answer) bool { return final(&a.Reply) })
		switch {
		case slices.ContainsFunc(q.got, func(g got) bool { return final(&g.Reply) }):
			j.owedWatch(q)
		case last != 0:
			if at := j.find(last).at; j.overdue(q.stream, at) {
				j.report(at, "answers", "%v is entry %v, and its answer never came: %v", q, q.executed, q.answers)
			}
		case q.executed == 0 && j.overdue(q.stream, q.at):
			j.report(q.at, "answers", "%v was never answered", q)
		}
	}
}

// answerAt returns the place in the log of the first answer of a kind, 0 without one.
func (q *request) answerAt(fits func(*answer) bool) point {
	for i := range q.answers {
		if fits(&q.answers[i]) {
			return q.answers[i].by
		}
	}
	return 0
}

// overdue reports whether the stream was alive long after something was due.
func (j *judge) overdue(s *stream, at time.Duration) bool {
	due := max(at, j.options.Healed) + j.options.Patience
	return len(s.proofs) > 0 && s.proofs[len(s.proofs)-1].sent > due
}
