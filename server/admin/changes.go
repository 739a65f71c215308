package admin

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/group/streams"
)

// Add implements adminpb.ClusterServer.
func (s *Cluster) Add(ctx context.Context, r *adminpb.AddMemberRequest) (*adminpb.AddMemberResponse, error) {
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	if err := s.administerNow(ctx); err != nil {
		return nil, err
	}
	if err := validMember(r.GetName(), r.GetPeerAddress()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	answer, unclear, err := onLeader(ctx, s, r, Leader.Add)
	if unclear && status.Code(err) == codes.AlreadyExists {
		// by an attempt whose answer was lost
		if m := s.memberWith(r.GetName(), r.GetPeerAddress()); m != nil {
			return &adminpb.AddMemberResponse{Id: raftstore.IDText(m.ID)}, nil
		}
	}
	return answer, err
}

// Promote implements adminpb.ClusterServer.
func (s *Cluster) Promote(ctx context.Context,
	r *adminpb.PromoteMemberRequest) (*adminpb.PromoteMemberResponse, error) {
	ctx, cancel := s.promotionTime(ctx, r)
	defer cancel()
	if err := s.administerNow(ctx); err != nil {
		return nil, err
	}
	answer, _, err := onLeader(ctx, s, r, Leader.Promote)
	return answer, err
}

// Remove implements adminpb.ClusterServer.
func (s *Cluster) Remove(ctx context.Context, r *adminpb.RemoveMemberRequest) (*adminpb.RemoveMemberResponse, error) {
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	if err := s.administerNow(ctx); err != nil {
		return nil, err
	}
	// Another member may get the name while this goes on, but never the id.
	resolved := &adminpb.RemoveMemberRequest{Member: r.GetMember()}
	if m, err := s.findMember(r.GetMember()); err == nil {
		resolved.Member = raftstore.IDText(m.ID)
	}
	answer, unclear, err := onLeader(ctx, s, resolved, Leader.Remove)
	switch {
	case unclear && status.Code(err) == codes.NotFound, err != nil && s.removed(resolved.Member):
		return &adminpb.RemoveMemberResponse{}, nil // by an attempt whose answer was lost
	case status.Code(err) == codes.NotFound:
		err = s.noSuchMember(r.GetMember())
	}
	return answer, err
}

// TransferLeader implements adminpb.ClusterServer.
func (s *Cluster) TransferLeader(ctx context.Context,
	r *adminpb.TransferLeaderRequest) (*adminpb.TransferLeaderResponse, error) {
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	if err := s.administerNow(ctx); err != nil {
		return nil, err
	}
	answer, _, err := onLeader(ctx, s, r, Leader.TransferLeader)
	return answer, err
}

// onLeader makes a call on the leader, wherever it is. It waits for one until ctx ends, which comes from
// InTime or AsLongAsAsked, and for calls.Patience at most. unclear says that an attempt before the last one may
// have succeeded.
func onLeader[Request, Response proto.Message](ctx context.Context, s *Cluster, r Request,
	here func(Leader, context.Context, Request) (Response, error)) (answer Response, unclear bool, err error) {
	patience, cancel := context.WithTimeout(ctx, s.Longest())
	defer cancel()
	unasked := s.Group.AskLeader(patience, func(bool) group.Asked {
		leader := s.Group.OtherLeader()
		if leader != 0 {
			got := answer.ProtoReflect().New().Interface()
			err = peers.Ask(ctx, s.Store.Peers.Conn(leader, false), r, got)
			answer = got.(Response)
		} else {
			answer, err = here(Leader{Cluster: s}, ctx, r)
		}
		switch code := status.Code(err); {
		case code == codes.Aborted, errors.Is(err, peers.ErrNotConnected):
			return group.NotLed
		case code == codes.Unavailable, code == codes.Canceled && ctx.Err() == nil: // the leader went away
			unclear = true
			return group.LeaderGone
		case code == codes.DeadlineExceeded && leader != 0 && ctx.Err() != nil: // it did not answer in time
			unclear, err = true, s.nobodyLeads(true)
		}
		return group.Answered
	})
	switch {
	case errors.Is(unasked, streams.ErrStopped):
		return answer, unclear, status.Error(codes.Unavailable, streams.ErrStopped.Error())
	case unasked != nil:
		return answer, unclear, s.nobodyLeads(unclear)
	}
	return answer, unclear, err
}
