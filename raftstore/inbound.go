package raftstore

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

// forwarded reports whether a message is a read question that raft passes on for another member: one that
// still takes the sender for the leader. Nobody waits for the answer: that member asks anew when it hears of
// the leader.
func forwarded(m *pb.Message, sender uint64) bool {
	return m.GetType() == pb.MsgReadIndex && m.GetFrom() != sender
}

// checkMessage refuses what cannot come from the sender of a stream.
func checkMessage(h *peerpb.Header, m *pb.Message) error {
	if m.GetFrom() != h.GetFrom() || m.GetTo() != h.GetTo() {
		return peers.Refuse(ErrOtherCluster, "a message from %s to %s came on the stream from %s to %s",
			IDText(m.GetFrom()), IDText(m.GetTo()), IDText(h.GetFrom()), IDText(h.GetTo()))
	}
	switch {
	case raft.IsLocalMsg(m.GetType()), m.GetType() == pb.MsgProp, m.GetType() == pb.MsgTransferLeader:
		return fmt.Errorf("message of type %v from another member", m.GetType())
	case m.GetType() == pb.MsgReadIndex && len(m.GetEntries()) != 1:
		return fmt.Errorf("read question with %d entries", len(m.GetEntries()))
	}
	next := m.GetIndex()
	for _, e := range m.GetEntries() {
		if m.GetType() == pb.MsgApp && e.GetIndex() != next+1 {
			return fmt.Errorf("entry %d after entry %d", e.GetIndex(), next)
		}
		next = e.GetIndex()
	}
	return nil
}
