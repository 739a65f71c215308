package porcupine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/coordd/coordd/conformance/model"
	"github.com/coordd/coordd/conformance/sim/check"
)

// state is one semaphore. Values are shared between states and never changed.
type state struct {
	exists bool
	limit  uint64
	data   string
	owners []share
	queue  []share // in its order
}

// share holds the tokens that a session owns or waits for.
type share struct{ session, count uint64 }

func (s *state) free() uint64 {
	held := uint64(0)
	for _, o := range s.owners {
		held += o.count
	}
	return s.limit - held
}

// settled makes owners of the first waiters, as far as tokens are free.
func (s state) settled() state {
	for len(s.queue) > 0 && s.queue[0].count <= s.free() {
		s.owners = append(slices.Clip(s.owners), s.queue[0])
		s.queue = s.queue[1:]
	}
	return s
}

func at(list []share, session uint64) int {
	return slices.IndexFunc(list, func(s share) bool { return s.session == session })
}

func without(list []share, session uint64) []share {
	return slices.DeleteFunc(slices.Clone(list), func(s share) bool { return s.session == session })
}

// gone returns the state without a session.
func (s state) gone(session uint64) state {
	s.owners, s.queue = without(s.owners, session), without(s.queue, session)
	return s.settled()
}

// step is the semaphore as a machine: whether an operation may have its outcome in a state, and the state after it.
func step(s state, o *check.Operation) (bool, state) {
	is := func(status model.Status) bool { return o.Unknown || o.Status == status }
	switch o.Kind {
	case model.Create:
		if s.exists {
			return is(model.AlreadyExists), s
		}
		return is(model.Success), state{exists: true, limit: o.Limit, data: o.Data}
	case check.Ends:
		return true, s.gone(o.Session)
	}
	if !s.exists {
		return is(model.NotFound) || o.Kind == model.Release && !o.Done && is(model.Success), s
	}
	switch o.Kind {
	case model.Update:
		s.data = o.Data
		return is(model.Success), s
	case model.Delete:
		if len(s.owners)+len(s.queue) > 0 && !o.Force {
			return is(model.PreconditionFailed), s
		}
		return is(model.Success), state{}
	case model.Acquire:
		return acquire(s, o)
	case model.Release:
		has := at(s.owners, o.Session) >= 0 || at(s.queue, o.Session) >= 0
		return o.Unknown || o.Done == has, s.gone(o.Session)
	case model.Describe:
		return o.Unknown || describes(o.Describe, &s), s
	case check.Owns:
		return o.Unknown || at(s.owners, o.Session) >= 0, s
	case check.Leaves:
		if o.Unknown {
			s.queue = without(s.queue, o.Session)
			return true, s.settled()
		}
		waits := at(s.queue, o.Session) >= 0
		s.queue = without(s.queue, o.Session)
		return waits, s.settled()
	}
	return false, s
}

// acquire joins the queue, or lowers what the session has or waits for.
func acquire(s state, o *check.Operation) (bool, state) {
	if !o.Unknown && o.Status != model.Success && o.Status != 0 && o.Status != model.Aborted {
		return true, s // it was refused, which changes nothing
	}
	if own := at(s.owners, o.Session); own >= 0 {
		if o.Count > s.owners[own].count {
			return o.Unknown, s
		}
		s.owners = slices.Clone(s.owners)
		s.owners[own].count = o.Count
		return o.Unknown || !o.Pending, s.settled()
	}
	if wait := at(s.queue, o.Session); wait >= 0 {
		if o.Count > s.queue[wait].count {
			return o.Unknown, s
		}
		s.queue = slices.Clone(s.queue)
		s.queue[wait].count = o.Count
		granted := wait == 0 && o.Count <= s.free()
		if o.Try && !granted { // it leaves the queue
			return o.Unknown || !o.Done, s.gone(o.Session)
		}
		return o.Unknown || (!o.Try || o.Done) && !(granted && o.Pending), s.settled()
	}
	if o.Count > s.limit {
		return o.Unknown, s
	}
	granted := len(s.queue) == 0 && o.Count <= s.free()
	if o.Try && !granted {
		return o.Unknown || !o.Done, s
	}
	s.queue = append(slices.Clip(s.queue), share{o.Session, o.Count})
	return o.Unknown || o.Try && o.Done || !o.Try && !(granted && o.Pending), s.settled()
}

// describes reports whether a description matches a state.
func describes(d *model.Description, s *state) bool {
	same := func(list []model.LinkDescription, shares []share) bool {
		if len(list) != len(shares) {
			return false
		}
		for _, l := range list {
			if i := at(shares, l.Session); i < 0 || shares[i].count != l.Count {
				return false
			}
		}
		return true
	}
	return d != nil && d.Data == s.data && d.Limit == s.limit && same(d.Owners, s.owners) && same(d.Waiters, s.queue)
}

func equal(a, b state) bool {
	return a.exists == b.exists && a.limit == b.limit && a.data == b.data && slices.Equal(a.owners, b.owners) &&
		slices.Equal(a.queue, b.queue)
}

// semaphore is the model for porcupine.
var semaphore = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(before, input, _ any) (bool, any) {
		o := input.(*check.Operation)
		return step(before.(state), o)
	},
	Equal:             func(a, b any) bool { return equal(a.(state), b.(state)) },
	DescribeOperation: func(input, _ any) string { return describe(input.(*check.Operation)) },
	DescribeState: func(of any) string {
		s := of.(state)
		return fmt.Sprintf("exists %v, limit %d, data %q, owners %v, queue %v", s.exists, s.limit, s.data, s.owners,
			s.queue)
	},
}

func describe(o *check.Operation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "session %d: %s", o.Session, o.Kind)
	if o.Count > 0 {
		fmt.Fprintf(&b, " %d", o.Count)
	}
	switch {
	case o.Unknown:
		b.WriteString(" -> ?")
	case o.Describe != nil:
		fmt.Fprintf(&b, " -> %+v", *o.Describe)
	default:
		fmt.Fprintf(&b, " -> %d done=%v pending=%v", o.Status, o.Done, o.Pending)
	}
	return b.String()
}
