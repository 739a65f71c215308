package raftstore

import (
	"crypto/x509"
	"fmt"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/raftstore/roster"
)

// endpoint is the store as the other members see it.
type endpoint struct{ s *Store }

var (
	_ peers.Server = endpoint{}
	_ peers.Member = endpoint{}
)

// Hello implements peers.Server. The caller needs the certificate of a member; without certificates every caller gets
// the answer.
func (e endpoint) Hello(req *peerpb.HelloRequest, certificate *x509.Certificate) (*peerpb.HelloResponse, error) {
	switch list := e.Admitted(); {
	case req.GetCluster() == e.s.identity.Cluster && list.IsRemoved(req.GetMember()):
		return nil, ErrRemoved
	case e.s.cfg.Cluster.TLS != nil && !e.s.Peers.roster.Certifies(certificate):
		return nil, roster.ErrCertificate
	}
	if req.GetCluster() == e.s.identity.Cluster {
		e.s.Peers.roster.Vouch(req.GetMember(), req.GetIncarnation())
	}
	v := e.s.view.Load()
	a := &peerpb.HelloResponse{
		Cluster: e.s.identity.Cluster, Member: e.s.identity.Member, Leader: v.leader, Lineage: e.s.lineage.Load(),
		Fresh: v.fresh, Membership: v.conf.WithIncarnations(e.s.Peers.roster.Incarnation).Encode(),
		Version: v.conf.Version(),
	}
	if conf, ok := e.s.log.Origin(); ok {
		a.Origin, a.Forced = conf.Encode(), e.s.forced.Load()
	}
	return a, nil
}

// Judge implements peers.Server. Only members are admitted, see package roster; removed ones and those with another
// data directory learn that.
func (e endpoint) Judge(h *peerpb.Header, certificate *x509.Certificate, messages bool) error {
	err := e.judgeHeader(h, certificate)
	if err == nil && messages {
		err = e.s.Peers.roster.Hear(h)
	}
	if err != nil {
		e.s.Peers.refused.tell(e.s.cfg.Logger, time.Now(), e.Admitted().Conf.NameOf(h.GetFrom()), h.GetAddress(), err)
		return err
	}
	if !messages && !e.s.Peers.roster.Open() {
		return roster.ErrNotAsked
	}
	return nil
}

// Opened implements peers.Server.
func (e endpoint) Opened(h *peerpb.Header) {
	e.s.Peers.out.Learn(h.GetFrom(), h.GetAddress())
	e.s.Peers.unlike.Compare(e.Admitted(), e.s.cfg.Cluster.settings(), h, e.s.cfg.Logger, time.Now())
	e.s.inbox.put(func(m *mail) { m.streams = append(m.streams, streamChange{header: h}) })
}

func (e endpoint) judgeHeader(h *peerpb.Header, certificate *x509.Certificate) error {
	self := e.s.identity
	switch {
	case h.GetFormat() != peers.Format:
		return fmt.Errorf("the server that called speaks version %d of the protocol between servers, this one version "+
			"%d: run the same release on both", h.GetFormat(), peers.Format)
	case h.GetCluster() != self.Cluster:
		return e.callerOfOtherCluster(h)
	case h.GetTo() != self.Member:
		return peers.Refuse(ErrOtherCluster,
			"the server that was called is member %s of the cluster, the caller looks for member %s",
			IDText(self.Member), IDText(h.GetTo()))
	case h.GetFrom() == self.Member:
		return peers.Refuse(ErrOtherCluster,
			"the caller says that it is member %s, which is the server that was called", IDText(self.Member))
	}
	m, err := e.s.Peers.roster.Identify(h.GetFrom(), certificate)
	if err != nil {
		return err
	}
	if m != nil && m.Incarnation != 0 && m.Incarnation != h.GetIncarnation() {
		return ErrEmptied
	}
	if known := h.GetToIncarnation(); known != 0 && known != self.Incarnation {
		e.s.Peers.roster.Ask() // if it is as the caller says, the other members say so too
		return peers.Refuse(ErrOtherCluster,
			"the caller knows member %s with another data directory than the server that was called has",
			IDText(self.Member))
	}
	return nil
}

// Receive implements peers.Server.
func (e endpoint) Receive(h *peerpb.Header, f *peerpb.Frame) error {
	if err := e.s.Peers.roster.StillWelcome(h.GetFrom()); err != nil {
		return err
	}
	if again := f.GetHeader(); again != nil {
		if err := e.acceptAgain(h, again); err != nil {
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
		if !e.s.Peers.roster.Open() {
			continue
		}
		if binds(m.GetType()) {
			if err := e.s.Peers.roster.Remember(h); err != nil {
				return err
			}
		}
		e.s.inbox.receive(m)
	}
	if e.s.loop.kick() {
		e.s.loop.handler.Flush(false)
	}
	return nil
}

// acceptAgain takes a further header of the sender of an accepted stream. Its identity cannot change.
func (e endpoint) acceptAgain(before, now *peerpb.Header) error {
	if now.GetFormat() != before.GetFormat() || now.GetCluster() != before.GetCluster() ||
		now.GetFrom() != before.GetFrom() ||
		now.GetTo() != before.GetTo() || now.GetIncarnation() != before.GetIncarnation() {
		return peers.Refuse(ErrOtherCluster, "member %s says on its stream that it is somebody else",
			IDText(before.GetFrom()))
	}
	e.s.inbox.put(func(m *mail) { m.streams = append(m.streams, streamChange{header: before, again: now}) })
	return nil
}

// callerOfOtherCluster returns the error that names to both sides how this server and its caller differ.
func (e endpoint) callerOfOtherCluster(h *peerpb.Header) error {
	theirs, ours := "", ""
	if text := h.GetMembers(); text != "" { // older programs do not send it
		theirs = ", with the members " + lograte.Printable(text, peers.MembersTextMax)
		ours = ", with the members " + lograte.Printable(e.s.view.Load().conf.List(), peers.MembersTextMax)
	}
	return peers.Refuse(ErrOtherCluster,
		"the server that was called belongs to cluster %s%s, the caller to cluster %s%s",
		IDText(e.s.identity.Cluster), ours, IDText(h.GetCluster()), theirs)
}

// Lost implements peers.Server.
func (e endpoint) Lost(h *peerpb.Header) {
	if h.GetUrgent() {
		e.s.inbox.put(func(m *mail) { m.streams = append(m.streams, streamChange{header: h, ended: true}) })
	}
}

// Admitted implements peers.Server and peers.Member.
func (e endpoint) Admitted() *membership.List { return e.s.Peers.roster.List() }

// Header implements peers.Member.
func (e endpoint) Header(to uint64, urgent bool) *peerpb.Header {
	s := e.s
	return &peerpb.Header{
		Members:  lograte.Printable(s.view.Load().conf.List(), peers.MembersTextMax),
		Settings: s.cfg.Cluster.settings(), Format: peers.Format, Cluster: s.identity.Cluster,
		From: s.identity.Member, To: to,
		Incarnation: s.identity.Incarnation, Address: s.cfg.Cluster.address(),
		ClientAddress: *s.Peers.client.Load(), Version: s.cfg.Cluster.Version,
		ToIncarnation: e.Admitted().Conf.Incarnation(to), Urgent: urgent, Full: s.Space.full.Load(),
	}
}

// Unreachable implements peers.Member.
func (e endpoint) Unreachable(id uint64) {
	e.s.inbox.put(func(m *mail) { m.unreachable = append(m.unreachable, id) })
}

// Refused implements peers.Member. Members are asked: only what a majority says ends the store.
func (e endpoint) Refused() { e.s.Peers.roster.Ask() }

// Certifies implements peers.Server.
func (e endpoint) Certifies(certificate *x509.Certificate) bool {
	return e.s.Peers.roster.Certifies(certificate)
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
