package raftstore

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/raftstore/peerpb"
)

var _ peerServer = (*Store)(nil)

func idText(id uint64) string { return fmt.Sprintf("%016x", id) }

// answerHello implements peerServer.
func (s *Store) answerHello(req *peerpb.HelloRequest) (*peerpb.HelloResponse, error) {
	v := s.view.Load()
	a := &peerpb.HelloResponse{
		Cluster: s.identity.Cluster, Member: s.identity.Member, Leader: v.leader,
		Fresh: v.fresh, Membership: v.conf.encode(), Version: v.conf.version(),
	}
	if conf, ok := s.tail.origin(); ok {
		a.Origin, a.Forced, a.Lineage = conf.encode(), s.forced.Load(), s.lineage.Load()
	}
	return a, nil
}

// accept implements peerServer. A sender that is not a member here is accepted: if this member lags, it may be the
// leader of a membership this member has yet to hear of. What such a sender says counts for nothing by itself, raft
// asks a majority. Removed members and members with another data directory are refused.
func (s *Store) accept(h *peerpb.Header) error {
	if h.GetFormat() != headerFormat {
		return fmt.Errorf("the sender speaks version %d, this member version %d", h.GetFormat(), headerFormat)
	}
	if h.GetCluster() != s.identity.Cluster || h.GetTo() != s.identity.Member || h.GetFrom() == s.identity.Member {
		return ErrOtherCluster
	}
	conf := s.view.Load().conf
	if slices.Contains(conf.Removed, h.GetFrom()) {
		return ErrRemoved
	}
	if m := conf.member(h.GetFrom()); m != nil && m.Incarnation != 0 && m.Incarnation != h.GetIncarnation() {
		return ErrEmptied
	}
	if known := h.GetToIncarnation(); known != 0 && known != s.identity.Incarnation {
		s.inbox.fail(ErrEmptied)
		return ErrOtherCluster
	}
	s.peers.learn(h.GetFrom(), h.GetAddress())
	s.inbox.put(func(m *mail) { m.headers = append(m.headers, h) })
	return nil
}

// receive implements peerServer.
func (s *Store) receive(h *peerpb.Header, f *peerpb.Frame) error {
	if err := s.stillWelcome(h); err != nil {
		return err
	}
	if again := f.GetHeader(); again != nil {
		if err := s.acceptAgain(h, again); err != nil {
			return err
		}
	}
	for _, b := range f.GetMessages() {
		m := &pb.Message{}
		if err := proto.Unmarshal(b, m); err != nil {
			return fmt.Errorf("message: %w", err)
		}
		if err := checkMessage(h, m); err != nil {
			return err
		}
		if m.GetType() == pb.MsgSnap {
			return fmt.Errorf("a snapshot among messages")
		}
		s.inbox.receive(m)
	}
	if s.loop.kick() {
		s.loop.handler.Flush(false)
	}
	return nil
}

// stillWelcome refuses a sender that was removed after its stream was accepted.
func (s *Store) stillWelcome(h *peerpb.Header) error {
	if slices.Contains(s.view.Load().conf.Removed, h.GetFrom()) {
		return ErrRemoved
	}
	return nil
}

// checkMessage refuses what cannot come from the sender of a stream.
func checkMessage(h *peerpb.Header, m *pb.Message) error {
	if m.GetFrom() != h.GetFrom() || m.GetTo() != h.GetTo() {
		return ErrOtherCluster
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

// lost implements peerServer.
func (s *Store) lost(h *peerpb.Header) {
	if h.GetUrgent() {
		s.inbox.put(func(m *mail) { m.lost = append(m.lost, h) })
	}
}
