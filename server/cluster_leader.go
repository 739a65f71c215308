package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/clusterpb"
	"github.com/coordd/coordd/server/group"
)

// transferPoll is the pause between two looks for the new leader, which nobody announces.
const transferPoll = 20 * time.Millisecond

// clusterLeader answers the other servers of the cluster (clusterpb/cluster.proto). It changes the cluster
// where this server leads; elsewhere it answers errLeadsElsewhere.
type clusterLeader struct {
	clusterpb.UnimplementedClusterServer
	*Server
}

// promotePoll is how often a promotion that waits looks at the learner again.
const promotePoll = 100 * time.Millisecond

// Add implements clusterpb.ClusterServer.
func (s clusterLeader) Add(ctx context.Context, r *adminpb.AddMemberRequest) (*adminpb.AddMemberResponse,
	error) {
	ctx, cancel := s.calls.InTime(ctx)
	defer cancel()
	if !s.group.Leads() {
		return nil, errLeadsElsewhere
	}
	if s.config.Cluster.ListenPeer == "" {
		return nil, status.Error(codes.FailedPrecondition,
			"This server does not listen for others: start it with --name, --listen-peer and its peer certificate first")
	}
	id, err := s.store.AddLearner(ctx, r.GetName(), r.GetPeerAddress())
	if err != nil {
		return nil, s.changeRefused(ctx, "add "+r.GetName(), err)
	}
	s.config.Logger.Info("a server was added as a learner", "name", r.GetName(), "id", raftstore.IDText(id),
		"peer", r.GetPeerAddress())
	return &adminpb.AddMemberResponse{Id: raftstore.IDText(id)}, nil
}

// Promote implements clusterpb.ClusterServer.
func (s clusterLeader) Promote(ctx context.Context,
	r *adminpb.PromoteMemberRequest) (*adminpb.PromoteMemberResponse, error) {
	ctx, cancel := s.promotionTime(ctx, r)
	defer cancel()
	if !s.group.Leads() {
		return nil, errLeadsElsewhere
	}
	m, err := s.findMember(r.GetMember())
	if err != nil {
		return nil, err
	}
	for {
		err := s.store.Promote(ctx, m.ID)
		if err == nil {
			s.config.Logger.Info("a server has a vote now", "name", m.Name, "id", raftstore.IDText(m.ID))
			return &adminpb.PromoteMemberResponse{}, nil
		}
		refusal := s.changeRefused(ctx, "promote "+m.DisplayName(), err)
		if !r.GetWait() || !errors.Is(err, raftstore.ErrBehind) {
			return nil, refusal
		}
		select {
		case <-ctx.Done():
			return nil, refusal
		case <-time.After(promotePoll):
		}
	}
}

// Remove implements clusterpb.ClusterServer. It removes another member: if it is to remove itself it hands
// over the leadership, and the next leader is asked.
func (s clusterLeader) Remove(ctx context.Context,
	r *adminpb.RemoveMemberRequest) (*adminpb.RemoveMemberResponse, error) {
	ctx, cancel := s.calls.InTime(ctx)
	defer cancel()
	if !s.group.Leads() {
		return nil, errLeadsElsewhere
	}
	m, err := s.findMember(r.GetMember())
	if id, bad := strconv.ParseUint(r.GetMember(), 16, 64); err != nil && bad == nil {
		m, err = raftstore.Member{ID: id}, nil // an earlier leader may have removed it, and not have completed that
	}
	if err != nil {
		return nil, err
	}
	what := "remove " + m.DisplayName()
	if m.ID == s.store.Member() {
		now, err := s.store.Status(ctx)
		if err != nil {
			return nil, s.changeRefused(ctx, what, err)
		}
		if !now.QuorumWithout(m.ID) {
			return nil, s.changeRefused(ctx, what, raftstore.ErrQuorum)
		}
		if err := s.store.TransferLeader(ctx, 0); err != nil {
			return nil, s.changeRefused(ctx, what, err)
		}
		return nil, errLeadsElsewhere
	}
	if err := s.store.Remove(ctx, m.ID); err != nil {
		return nil, s.changeRefused(ctx, what, err)
	}
	s.config.Logger.Info("a server was removed", "name", m.Name, "id", raftstore.IDText(m.ID))
	return &adminpb.RemoveMemberResponse{}, nil
}

// TransferLeader implements clusterpb.ClusterServer.
func (s clusterLeader) TransferLeader(ctx context.Context,
	r *adminpb.TransferLeaderRequest) (*adminpb.TransferLeaderResponse, error) {
	ctx, cancel := s.calls.InTime(ctx)
	defer cancel()
	if !s.group.Leads() {
		return nil, errLeadsElsewhere
	}
	var to raftstore.Member
	if r.GetTo() != "" {
		var err error
		if to, err = s.findMember(r.GetTo()); err != nil {
			return nil, err
		}
		switch {
		case to.ID == s.store.Member():
			return &adminpb.TransferLeaderResponse{Leader: raftstore.IDText(to.ID)}, nil
		case to.Learner:
			return nil, status.Errorf(codes.FailedPrecondition,
				"%s has no vote and cannot lead: promote it first", to.DisplayName())
		}
	}
	if err := s.store.TransferLeader(ctx, to.ID); err != nil {
		return nil, s.changeRefused(ctx, "hand over the leadership", err)
	}
	for {
		if leader := s.store.Leader(); leader != 0 {
			return &adminpb.TransferLeaderResponse{Leader: raftstore.IDText(leader)}, nil
		}
		select {
		case <-ctx.Done():
			return nil, s.nobodyLeads(false)
		case <-time.After(transferPoll):
		}
	}
}

// changeRefused is an error of the store as the caller gets it: what was refused, and what to do.
func (s *Server) changeRefused(ctx context.Context, what string, err error) error {
	refusal := func(code codes.Code, advice string) error {
		return status.Error(code, fmt.Sprintf("Cannot %s: %s", what, advice))
	}
	switch {
	case errors.Is(err, raftstore.ErrNotLeader): // it did when the change began
		return status.Error(codes.Unavailable, "The leader changed")
	case errors.Is(err, raftstore.ErrQuorum):
		return refusal(codes.FailedPrecondition,
			"fewer servers can be reached than a majority would need afterwards; "+
				"bring the others back first, `coordd cluster status` shows who is missing")
	case errors.Is(err, raftstore.ErrBehind):
		return refusal(codes.FailedPrecondition,
			"it has not got all data yet; see that it runs, and wait (promote --wait)")
	case errors.Is(err, raftstore.ErrTaken):
		return refusal(codes.AlreadyExists,
			"another server of the cluster has this name or this peer address; remove that one first")
	case errors.Is(err, raftstore.ErrNotMember):
		return refusal(codes.NotFound, "the cluster has no such server")
	case errors.Is(err, raftstore.ErrStopped):
		return status.Error(codes.Unavailable, group.ErrStopped.Error())
	case ctx.Err() != nil:
		return refusal(codes.DeadlineExceeded,
			"not done in time; it may still happen, see `coordd cluster status`")
	}
	return refusal(codes.FailedPrecondition, err.Error())
}
