package raftstore

import (
	"cmp"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// NoClients is the client address of a member that wants no further clients, because it is about to stop.
const NoClients = "none"

// clientAddressIn returns the client address that a member's header announces.
func clientAddressIn(h *peerpb.Header) string {
	if address := h.GetClientAddress(); len(address) <= clientTextMax {
		return address
	}
	return ""
}

// publish has the leader put into the log what a member says of itself and the log does not. Raft takes one
// such entry at a time and drops others; this is tried again on every few ticks.
func (l *loop) publish() {
	if !l.leading || !l.caughtUp {
		return
	}
	if m := l.unpublished(); m != nil {
		if err := l.proposeChange(pb.ConfChangeUpdateNode, m.ID, m); err != nil {
			l.s.cfg.Logger.Debug("publish a member's record", "err", err)
		}
	}
}

// unpublished returns the record of one member as it should be, for the first whose record in the log differs
// from what it says of itself, and nil if there is none. Only the leader asks, which then writes it
// (publish).
func (l *loop) unpublished() *membership.Record {
	if l.s.Peers.out == nil {
		return nil
	}
	self := l.s.identity.Member
	for _, id := range append(append([]uint64{}, l.conf.Voters...), l.conf.Learners...) {
		h := l.headers[id]
		if id == self {
			h = endpoint{l.s}.Header(0, false)
		}
		if h == nil {
			continue
		}
		old := membership.Record{ID: id}
		if m := l.conf.Member(id); m != nil {
			old = *m
		}
		want := old
		if id == self && want.Name == "" {
			want.Name = l.s.cfg.Cluster.Name
		}
		want.Incarnation = cmp.Or(want.Incarnation, l.s.Peers.roster.List().Conf.Incarnation(id), h.GetIncarnation())
		if h.GetAddress() != "" && len(h.GetAddress()) <= memberTextMax {
			want.Peer = h.GetAddress()
		}
		if client := clientAddressIn(h); client != "" && client != NoClients {
			want.Client = client
		}
		want.Version = h.GetVersion()
		if want != old {
			return &want
		}
	}
	return nil
}
