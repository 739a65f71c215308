package roster

import (
	"fmt"
	"maps"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

// The log has the incarnation of a member only some time after the member's first vote. A member that loses its
// directory in between must not come back and vote again. So every member that has had its word remembers it.

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
	err := r.change(func(t *datadir.Learnt) {
		seen := maps.Clone(t.Incarnations)
		if seen == nil {
			seen = map[uint64]uint64{}
		}
		seen[id] = now
		t.Incarnations = seen
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

// Hear notes the incarnation of a member that has opened a stream. A follower sends what binds it to its leader alone,
// whose directory may be lost together with its own: so the others know it too, in memory, once there were entries.
func (r *Roster) Hear(h *peerpb.Header) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.heard[h.GetFrom()] == 0 || r.cfg.Fresh() {
		r.heard[h.GetFrom()] = h.GetIncarnation()
	}
}

// Incarnation returns the incarnation of a member as Hello reports it.
func (r *Roster) Incarnation(id uint64) uint64 {
	known := r.List().Conf.Incarnation(id)
	if known != 0 || r.cfg.Fresh() {
		return known
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heard[id]
}
