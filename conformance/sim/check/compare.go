package check

import (
	"fmt"
	"math"
	"slices"

	"github.com/coordd/coordd/conformance/model"
)

// compare goes through the history once more, now with what the model says about each request. It keeps how far the
// clients together have seen the log: a request that is sent afterwards has to come after that.
func (j *judge) compare() {
	seen := point(0)
	j.highest = 0
	taken := make(map[*request]int) // of request.got
	for place, e := range j.events {
		switch fact := e.Fact.(type) {
		case *Executed:
			j.highest = max(j.highest, endOf(fact.Index))
		case *Sent:
			if q := j.streams[fact.Stream].requestAt(place, fact); q != nil {
				q.known = seen
				if q.executed != 0 && q.executed <= seen {
					j.report(e.At, "time", "%v is entry %v, but clients had seen entry %v before it was sent", q,
						q.executed, seen)
				}
			}
		case *Got:
			if q := j.streams[fact.Stream].answeredAt(place, fact); q != nil {
				taken[q]++
				j.compared++
				seen = max(seen, j.answered(q, taken[q]-1))
			}
		}
	}
}

// requestAt returns the request that was sent at a place in the history, if it was one.
func (s *stream) requestAt(place int, e *Sent) *request {
	if s.doubtful {
		return nil
	}
	if q := s.byID[requestOf(e.Request).ReqID]; q != nil && q.place == place {
		return q
	}
	return nil
}

// answeredAt returns the request that was answered at a place in the history, if any was.
func (s *stream) answeredAt(place int, e *Got) *request {
	if s.doubtful {
		return nil
	}
	q := s.byID[model.ReplyOf(e.Message).ReqID]
	if q != nil && slices.ContainsFunc(q.got, func(g got) bool { return g.place == place }) {
		return q
	}
	return nil
}

// answered judges an answer, and returns the place in the log whose effects it proves.
func (j *judge) answered(q *request, at int) point {
	g := &q.got[at]
	j.once(q, at)
	switch {
	case g.Kind == model.ChangedBy:
		j.changed(q, g)
		return 0
	case q.Kind == model.Describe:
		return j.described(q, g)
	case q.Kind == model.Stop && q.executed == 0:
		if n := j.nodeOf(q.stream); n != nil && (n.gone[g.Session] == 0 || n.gone[g.Session] > j.highest) {
			j.report(g.at, "model", "%v got %s, and nothing had ended the session", q, show(&g.Reply))
		}
		return 0
	case q.executed == 0:
		if g.Status == model.Success || g.Kind != model.Result {
			j.report(g.at, "model", "%v got %s, and no server ever executed it", q, show(&g.Reply))
		}
		return 0
	}
	for _, a := range q.answers {
		if a.Reply == g.Reply {
			if l := j.find(a.by); l.place > g.place {
				j.report(g.at, "model", "%v got %s before any server had executed entry %v", q, show(&g.Reply), a.by)
			}
			return a.by
		}
	}
	j.report(g.at, "model", "%v, entry %v, got %s, and the model has %v", q, q.executed, show(&g.Reply), q.answers)
	return 0
}

// once wants one Pending at most, before the only result, and one Changed, after it.
func (j *judge) once(q *request, at int) {
	g := &q.got[at]
	for _, earlier := range q.got[:at] {
		if earlier.Kind == g.Kind || final(&earlier.Reply) && g.Kind == model.Pending {
			kind := "answers"
			if g.Kind == model.ChangedBy {
				kind = "watch"
			}
			j.report(g.at, kind, "%v got %s after %s", q, show(&g.Reply), show(&earlier.Reply))
		}
	}
	if g.Kind == model.ChangedBy && q.watch == nil {
		j.report(g.at, "watch", "%v got %s without a watch", q, show(&g.Reply))
	}
}

// described judges the answer to a describe. It has to be the semaphore as it was after some command: not before the
// stream's earlier requests, nor after its later ones and, in strict mode, not before anything that any client had seen
// when it was sent.
func (j *judge) described(q *request, g *got) point {
	n := j.nodeOf(q.stream)
	if n == nil || g.Status != model.Success && g.Status != model.NotFound {
		return 0
	}
	low := point(0)
	if n.strict {
		low = q.known
	}
	for _, earlier := range q.stream.requests[:q.sequence-1] {
		low = max(low, earlier.executed)
	}
	high := j.highest
	for _, later := range q.stream.requests[q.sequence:] {
		if later.executed != 0 {
			high = min(high, later.executed-1) // a describe has its turn among the requests of its stream
		}
	}
	list := append([]version{{}}, n.history[q.Name]...)
	w, found := watch{}, false
	for i := range list {
		next := point(math.MaxUint64)
		if i+1 < len(list) {
			next = list[i+1].from
		}
		if next <= low || list[i].from > high || !shows(g.Description, list[i].state, &q.Request) {
			continue
		}
		if !found {
			w.from = list[i].from
		}
		w.next, found = next, true
	}
	if !found {
		j.report(g.at, "model", "%v got %s, which was not the state after any command from %v to %v: %s", q,
			show(&g.Reply), low, high, showVersions(list, low))
		return 0
	}
	if g.WatchAdded {
		q.watch = &w
	}
	if !n.strict {
		return 0
	}
	return max(low, w.from)
}

// shows reports whether a description is that of a state, as far as was asked.
func shows(d, state *model.Description, q *model.Request) bool {
	if d == nil || state == nil {
		return d == nil && state == nil
	}
	return d.Name == state.Name && d.Data == state.Data && d.Count == state.Count && d.Limit == state.Limit &&
		d.Ephemeral == state.Ephemeral && (!q.IncludeOwners || slices.Equal(d.Owners, state.Owners)) &&
		(!q.IncludeWaiters || slices.Equal(d.Waiters, state.Waiters)) &&
		(q.IncludeOwners || len(d.Owners) == 0) && (q.IncludeWaiters || len(d.Waiters) == 0)
}

// showVersions shows the states that were possible, and the last before.
func showVersions(list []version, low point) string {
	text := ""
	for i, v := range list {
		if i+1 < len(list) && list[i+1].from <= low && i+2 < len(list) && list[i+2].from <= low {
			continue
		}
		if text += fmt.Sprintf(" %v: ", v.from); v.state != nil {
			text += fmt.Sprintf("%+v", *v.state)
		} else {
			text += "none"
		}
	}
	return text
}

// changed judges a notice of a watch. Without flags it only ends the watch.
func (j *judge) changed(q *request, g *got) {
	if q.watch == nil || q.watch.fired {
		return
	}
	q.watch.fired = true
	n := j.nodeOf(q.stream)
	if n == nil || !g.DataChanged && !g.OwnersChanged {
		return
	}
	happened := slices.ContainsFunc(n.changes[q.Name], func(c change) bool {
		return c.by > q.watch.from && c.by <= j.highest && c.concerns(q) &&
			c.Data == g.DataChanged && c.Owners == g.OwnersChanged
	})
	if !happened {
		j.report(g.at, "watch", "%v got %s, and nothing such happened after entry %v", q, show(&g.Reply), q.watch.from)
	}
}

// owedWatch reports a watch that missed a change.
func (j *judge) owedWatch(q *request) {
	n := j.nodeOf(q.stream)
	if q.watch == nil || q.watch.fired || n == nil {
		return
	}
	for _, c := range n.changes[q.Name] {
		if at := j.find(c.by).at; c.by >= q.watch.next && c.concerns(q) && j.overdue(q.stream, at) {
			j.report(at, "watch", "%v has a watch, and nothing reported entry %v", q, c.by)
			return
		}
	}
}
