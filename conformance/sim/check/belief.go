package check

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/coordd/coordd/conformance/model"
)

// beliefs are those of the client of one session.
type beliefs struct {
	session sessionKey
	alive   time.Duration // until when the last proof makes the session live
	held    map[string]*Tenure
	ended   []Tenure
}

// believe finds out when clients had proof that they held tokens, and compares these times with each other.
func (j *judge) believe() {
	all := make(map[sessionKey]*beliefs)
	limits := make(map[string]uint64)
	forced := make(map[string]bool) // their owners may have lost them silently
	next := make(map[*stream]int)   // of its proofs
	for place, e := range j.events {
		switch fact := e.Fact.(type) {
		case *Sent:
			s := j.streams[fact.Stream]
			r := requestOf(fact.Request)
			name := s.path + "/" + r.Name
			switch r.Kind {
			case model.Create:
				limits[name] = max(limits[name], r.Limit)
			case model.Delete:
				forced[name] = forced[name] || r.Force
			case model.Acquire:
				if r.Ephemeral {
					limits[name] = math.MaxUint64
				}
			}
			if s.started < place {
				beliefsOf(all, s).asked(e.At, name, &r)
			}
		case *Got:
			if s := j.streams[fact.Stream]; s.started <= place {
				b := beliefsOf(all, s)
				for ; next[s] < len(s.proofs) && s.proofs[next[s]].place <= place; next[s]++ {
					b.lives(e.At, s.proofs[next[s]].sent+j.lasts(s.timeout))
				}
				b.heard(place, e.At, s, model.ReplyOf(fact.Message))
			}
		}
	}
	var tenures []Tenure
	for _, b := range all {
		b.end(time.Duration(math.MaxInt64), slices.Collect(maps.Keys(b.held))...)
		tenures = append(tenures, b.ended...)
	}
	limit := func(name string) uint64 {
		if forced[name] {
			return 0
		}
		return limits[name]
	}
	if err := Tenures(tenures, limit, 0); err != nil {
		j.report(j.events[len(j.events)-1].At, "belief", "%v", err)
	}
}

func beliefsOf(all map[sessionKey]*beliefs, s *stream) *beliefs {
	key := sessionKey{s.path, s.session}
	if all[key] == nil {
		all[key] = &beliefs{session: key, held: make(map[string]*Tenure)}
	}
	return all[key]
}

// lives records a sign of life. One after the belief had ended ends all holds first.
func (b *beliefs) lives(at, until time.Duration) {
	if at > b.alive {
		b.end(at, slices.Collect(maps.Keys(b.held))...)
	}
	b.alive = max(b.alive, until)
}

// end ends the belief to hold some semaphores.
func (b *beliefs) end(at time.Duration, names ...string) {
	for _, name := range names {
		if t := b.held[name]; t != nil {
			t.Until = min(at, b.alive)
			b.ended = append(b.ended, *t)
			delete(b.held, name)
		}
	}
}

// asked ends the belief to hold what the client may lose by its own request.
func (b *beliefs) asked(at time.Duration, name string, r *model.Request) {
	switch r.Kind {
	case model.Stop:
		b.end(at, slices.Collect(maps.Keys(b.held))...)
	case model.Release, model.Acquire, model.Delete:
		b.end(at, name)
	}
}

// heard begins the belief to hold tokens with an acquire that has succeeded, unless the client has asked for something
// else since.
func (b *beliefs) heard(place int, at time.Duration, s *stream, r model.Reply) {
	q := s.byID[r.ReqID]
	switch {
	case r.Kind == model.Failure && r.Status != model.Unavailable:
		b.end(at, slices.Collect(maps.Keys(b.held))...)
	case r.Kind != model.Result || r.To != model.Acquire || !r.Done || q == nil || at > b.alive:
	case !slices.ContainsFunc(s.requests[q.sequence:], func(later *request) bool {
		return later.place < place && (later.Name == q.Name || later.Kind == model.Stop)
	}):
		name := s.path + "/" + q.Name
		b.end(at, name)
		b.held[name] = &Tenure{Name: name, Session: s.session, Count: q.Count, From: at}
	}
}

// expires reports a session that is ended although its client had a sign of life less than its timeout ago.
func (j *judge) expires(l *logged, n *node, session uint64) {
	streams := j.sessions[sessionKey{n.path, session}]
	if len(streams) == 0 {
		return
	}
	timeout := streams[0].timeout
	for _, s := range streams {
		timeout = min(timeout, s.timeout)
	}
	for _, s := range streams {
		for _, p := range s.proofs {
			if p.place < l.place && l.at < p.sent+j.lasts(timeout) {
				j.report(l.at, "expiry", "entry %d ends session %d of %s, which was alive at %v with a timeout of %v",
					l.entry.Index, session, n.path, p.sent, timeout)
				return
			}
		}
	}
}
