package raftstore

import (
	"crypto/x509"
	"fmt"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/raftstore/peerpb"
)

var _ peerServer = (*Store)(nil)

// answerHello implements peerServer. Who asks has to have the certificate of a member; without certificates
// everybody is told.
func (s *Store) answerHello(req *peerpb.HelloRequest, certificate *x509.Certificate) (*peerpb.HelloResponse, error) {
	switch list := s.admitted(); {
	case req.GetCluster() == s.identity.Cluster && list.IsRemoved(req.GetMember()):
		return nil, ErrRemoved
	case s.cfg.Cluster.TLS != nil && !certifies(list, certificate):
		return nil, errCertificate
	}
	if req.GetCluster() == s.identity.Cluster {
		s.admission.vouch(req.GetMember(), req.GetIncarnation())
	}
	v := s.view.Load()
	a := &peerpb.HelloResponse{
		Cluster: s.identity.Cluster, Member: s.identity.Member, Leader: v.leader, Lineage: s.lineage.Load(),
		Fresh: v.fresh, Membership: v.conf.WithIncarnations(s.admission.incarnationOf).Encode(),
		Version: v.conf.Version(),
	}
	if conf, ok := s.log.origin(); ok {
		a.Origin, a.Forced = conf.Encode(), s.forced.Load()
	}
	return a, nil
}

// accept implements peerServer. Only members are accepted, see admission; removed ones and those with another
// data directory are told so.
func (s *Store) accept(h *peerpb.Header, certificate *x509.Certificate) error {
	err := s.judgeHeader(h, certificate)
	if err != nil {
		s.refused.tell(s.cfg.Logger, time.Now(), s.admitted().Conf.NameOf(h.GetFrom()), h.GetAddress(), err)
		return err
	}
	s.admission.hear(h)
	s.peers.learn(h.GetFrom(), h.GetAddress())
	s.unlike.compare(s, h, time.Now())
	s.inbox.put(func(m *mail) { m.streams = append(m.streams, streamChange{header: h}) })
	return nil
}

func (s *Store) judgeHeader(h *peerpb.Header, certificate *x509.Certificate) error {
	self := s.identity
	switch {
	case h.GetFormat() != headerFormat:
		return fmt.Errorf("the sender speaks version %d, this member version %d", h.GetFormat(), headerFormat)
	case h.GetCluster() != self.Cluster:
		return s.callerOfOtherCluster(h)
	case h.GetTo() != self.Member:
		return refuse(ErrOtherCluster,
			"the server that was called is member %s of the cluster, the caller looks for member %s",
			IDText(self.Member), IDText(h.GetTo()))
	case h.GetFrom() == self.Member:
		return refuse(ErrOtherCluster,
			"the caller says that it is member %s, which is the server that was called", IDText(self.Member))
	}
	m, err := s.admission.identify(h.GetFrom(), certificate)
	if err != nil {
		return err
	}
	if m != nil && m.Incarnation != 0 && m.Incarnation != h.GetIncarnation() {
		return ErrEmptied
	}
	if known := h.GetToIncarnation(); known != 0 && known != self.Incarnation {
		s.admission.begin() // if it is as the caller says, the other members say so too
		return refuse(ErrOtherCluster,
			"the caller knows member %s with another data directory than the server that was called has",
			IDText(self.Member))
	}
	return nil
}

// receive implements peerServer.
func (s *Store) receive(h *peerpb.Header, f *peerpb.Frame) error {
	if err := s.admission.stillWelcome(h.GetFrom()); err != nil {
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
		if forwarded(m, h.GetFrom()) {
			continue
		}
		if err := checkMessage(h, m); err != nil {
			return err
		}
		if m.GetType() == pb.MsgSnap {
			return fmt.Errorf("a snapshot among messages")
		}
		if !s.admission.open.Load() {
			continue
		}
		if binds(m.GetType()) {
			if err := s.admission.remember(h); err != nil {
				return err
			}
		}
		s.inbox.receive(m)
	}
	if s.loop.kick() {
		s.loop.handler.Flush(false)
	}
	return nil
}

// forwarded reports whether a message is a read question that raft passes on for another member: one that
// still takes the sender for the leader. Nobody waits for the answer: that member asks anew when it hears of
// the leader.
func forwarded(m *pb.Message, sender uint64) bool {
	return m.GetType() == pb.MsgReadIndex && m.GetFrom() != sender
}

// checkMessage refuses what cannot come from the sender of a stream.
func checkMessage(h *peerpb.Header, m *pb.Message) error {
	if m.GetFrom() != h.GetFrom() || m.GetTo() != h.GetTo() {
		return refuse(ErrOtherCluster, "a message from %s to %s came on the stream from %s to %s",
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

// lost implements peerServer.
func (s *Store) lost(h *peerpb.Header) {
	if h.GetUrgent() {
		s.inbox.put(func(m *mail) { m.streams = append(m.streams, streamChange{header: h, ended: true}) })
	}
}
