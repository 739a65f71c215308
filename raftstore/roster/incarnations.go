package roster

import (
	"fmt"
	"maps"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

// The log has the incarnation of a member only some time after the member's first vote. A member that loses its
// directory in between must not come back and vote again. So every member that has had its word remembers it, and every
// other one that it has connected to.

// Remember makes the sender's incarnation durable before raft gets the sender's first binding message, and refuses a
// sender with another one.
func (r *Roster) Remember(h *peerpb.Header) error {
	id, now := h.GetFrom(), h.GetIncarnation()
	if known, err := r.fits(id, now); known || err != nil {
		return err
	}
	r.saving <- struct{}{}
	defer func() { <-r.saving }()
	if known, err := r.fits(id, now); known || err != nil {
		return err
	}
	if other := r.vouched[id]; other != 0 && other != now {
		return peers.ErrEmptied
	}
	return r.note(h, func(t *datadir.Learnt) *map[uint64]uint64 { return &t.Incarnations })
}

// note makes the sender's incarnation durable in one of the maps. The caller holds saving.
func (r *Roster) note(h *peerpb.Header, in func(t *datadir.Learnt) *map[uint64]uint64) error {
	err := r.change(func(t *datadir.Learnt) {
		seen := map[uint64]uint64{}
		maps.Copy(seen, *in(t))
		seen[h.GetFrom()] = h.GetIncarnation()
		*in(t) = seen
	}, true)
	if err != nil {
		r.cfg.Fail(err)
		return fmt.Errorf("remember the member: %w", err)
	}
	return nil
}

// fits compares an incarnation with the known one of a member. Of a member without a record nothing can be known.
func (r *Roster) fits(id, incarnation uint64) (known bool, err error) {
	m := r.List().Conf.Member(id)
	switch {
	case m == nil || m.Incarnation == incarnation:
		return true, nil
	case m.Incarnation != 0:
		return true, peers.ErrEmptied
	}
	return false, nil
}

// Vouch makes sure that the answer about id stays true: once this member has answered a data directory that it knows of
// no other one, it takes no message that another one has sent before and that is still on its way. Connections do not
// outlive this process, so memory is enough.
func (r *Roster) Vouch(id, incarnation uint64) {
	if known, _ := r.fits(id, incarnation); incarnation == 0 || known {
		return
	}
	r.saving <- struct{}{}
	defer func() { <-r.saving }()
	r.vouched[id] = incarnation
}

// Hear makes the incarnation of a member that opens a stream durable before the stream is accepted. A follower sends
// binding messages to its leader alone, whose directory may be lost together with its own: so the others know it too.
// Before there are entries a later directory takes the place of an earlier one.
func (r *Roster) Hear(h *peerpb.Header) error {
	id, now := h.GetFrom(), h.GetIncarnation()
	if known, _ := r.fits(id, now); known {
		return nil
	}
	r.saving <- struct{}{}
	defer func() { <-r.saving }()
	if before := r.heard(id); before == now || before != 0 && !r.cfg.Fresh() {
		return nil
	}
	return r.note(h, func(t *datadir.Learnt) *map[uint64]uint64 { return &t.Heard })
}

func (r *Roster) heard(id uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.learnt.Heard[id]
}

// Incarnation returns the incarnation of a member as Hello reports it.
func (r *Roster) Incarnation(id uint64) uint64 {
	known := r.List().Conf.Incarnation(id)
	if known != 0 || r.cfg.Fresh() {
		return known
	}
	return r.heard(id)
}
