package raftstore

import (
	"context"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

// transport sends to the other members: see peers.Transport, which tests replace.
type transport interface {
	Send(m *pb.Message)
	Release()
	SendSnapshot(to uint64, next func(context.Context) (*peerpb.Chunk, error), done func(error)) bool
	Update(conf membership.Conf)
	Learn(id uint64, address string)
	Renew(id uint64)
	Shut(ids []uint64)
	Reopen()
	Announce()
	Announced(client string) bool
	Connected(id uint64) (up, tried bool)
	Conn(id uint64, urgent bool) *grpc.ClientConn
	RenewBulk(id uint64)
	Close()
}

// PeerConn returns one of the two connections to another member, for peers.Ask and peers.Open; nil while it is not
// connected. Over the urgent one go heartbeats and the answers to them: calls over it must be small. It is closed when
// the members connect anew.
func (s *Store) PeerConn(member uint64, urgent bool) *grpc.ClientConn {
	if s.peers == nil {
		return nil
	}
	return s.peers.Conn(member, urgent)
}

// RenewPeerConn replaces the connection to a member that is not urgent: a firewall may have forgotten the present one.
func (s *Store) RenewPeerConn(member uint64) { s.peers.RenewBulk(member) }

// Crowded returns the last time at which there were too many connections to the address for other members, the zero
// time if there never were.
func (s *Store) Crowded() time.Time {
	if network, ok := s.network.(*peers.GRPC); ok {
		return network.Crowded()
	}
	return time.Time{}
}
