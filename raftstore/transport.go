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
	UrgentConn(id uint64) *grpc.ClientConn
	Close()
}

// UrgentConn is the connection over which this member's heartbeats, and its answers to them, go to another
// member; nil while there is none. Calls over it must be small. It is closed when the members connect anew.
func (s *Store) UrgentConn(member uint64) *grpc.ClientConn { return s.peers.UrgentConn(member) }

// DialPeer makes a connection to another member for the server's own services, see Cluster.Services.
func (s *Store) DialPeer(address string) (*grpc.ClientConn, error) {
	return s.cfg.Cluster.grpc(s.cfg.Logger).Dial(address)
}

// Crowded returns the last time at which there were too many connections to the address for other members, the zero
// time if there never were.
func (s *Store) Crowded() time.Time {
	if network, ok := s.network.(*peers.GRPC); ok {
		return network.Crowded()
	}
	return time.Time{}
}
