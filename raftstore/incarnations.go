package raftstore

import (
	"fmt"
	"maps"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// The log has the incarnation of a member only some time after the member's first vote. A member that loses its
// directory in between must not come back and vote again. So every member that has had its word remembers it.

// binds reports whether a member must not forget that it has sent a message of this type. Pre-votes promise nothing.
func binds(t pb.MessageType) bool { return t != pb.MsgPreVote && t != pb.MsgPreVoteResp }

// remember makes the sender's incarnation durable before raft gets the sender's first binding message, and refuses a
// sender with another one.
func (a *admission) remember(h *peerpb.Header) error {
	id, now := h.GetFrom(), h.GetIncarnation()
	if known, err := a.fits(id, now); known || err != nil {
		return err
	}
	a.saving <- struct{}{}
	defer func() { <-a.saving }()
	if known, err := a.fits(id, now); known || err != nil {
		return err
	}
	if other := a.vouched[id]; other != 0 && other != now {
		return ErrEmptied
	}
	err := a.change(func(t *datadir.Learnt) {
		seen := maps.Clone(t.Incarnations)
		if seen == nil {
			seen = map[uint64]uint64{}
		}
		seen[id] = now
		t.Incarnations = seen
	}, true)
	if err != nil {
		a.s.inbox.fail(err)
		return fmt.Errorf("remember the member: %w", err)
	}
	return nil
}

// fits compares an incarnation with the known one of a member. Of a member without a record nothing can be known.
func (a *admission) fits(id, incarnation uint64) (known bool, err error) {
	m := a.list.Load().Conf.Member(id)
	switch {
	case m == nil || m.Incarnation == incarnation:
		return true, nil
	case m.Incarnation != 0:
		return true, ErrEmptied
	}
	return false, nil
}

// vouch makes sure that the answer about id stays true: once this member has answered a data directory that it knows of
// no other one, it takes no message that another one has sent before and that is still on its way. Connections do not
// outlive this process, so memory is enough.
func (a *admission) vouch(id, incarnation uint64) {
	if known, _ := a.fits(id, incarnation); incarnation == 0 || known {
		return
	}
	a.saving <- struct{}{}
	defer func() { <-a.saving }()
	a.vouched[id] = incarnation
}

// hear notes the incarnation of a member that has opened a stream. A follower sends what binds it to its leader alone,
// whose directory may be lost together with its own: so the others know it too, in memory, once there were entries.
func (a *admission) hear(h *peerpb.Header) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.heard[h.GetFrom()] == 0 || a.s.log.fresh() {
		a.heard[h.GetFrom()] = h.GetIncarnation()
	}
}

// incarnationOf returns the incarnation of a member as Hello reports it.
func (a *admission) incarnationOf(id uint64) uint64 {
	known := a.list.Load().Conf.Incarnation(id)
	if known != 0 || a.s.log.fresh() {
		return known
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.heard[id]
}
