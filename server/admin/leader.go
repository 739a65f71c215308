package admin

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
	"github.com/coordd/coordd/server/group/streams"
)

// transferPoll is the pause between two looks for the new leader, which nobody announces.
const transferPoll = 20 * time.Millisecond

// Leader answers other servers of the cluster, which have checked the rights of their clients. It changes the cluster
// where this server leads; elsewhere it answers errLeadsElsewhere. Other refusals are those for the client.
type Leader struct{ *Cluster }

// errLeadsElsewhere is returned by Leader, which then has done nothing; it never reaches a client.
var errLeadsElsewhere = status.Error(codes.Aborted, "another server leads")

// promotePoll is how often a promotion that waits looks at the learner again.
const promotePoll = 100 * time.Millisecond

// Add adds a learner.
func (s Leader) Add(ctx context.Context, r *adminpb.AddMemberRequest) (*adminpb.AddMemberResponse, error) {
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	if !s.Group.Leads() {
		return nil, errLeadsElsewhere
	}
	if !s.ListensForPeers {
		return nil, status.Error(codes.FailedPrecondition,
			"This server does not listen for others: "+
				"start it with --name, --listen-peer and its peer certificate first")
	}
	id, err := s.Store.Changes.AddLearner(ctx, r.GetName(), r.GetPeerAddress())
	if err != nil {
		return nil, s.changeRefused(ctx, "add "+r.GetName(), err)
	}
	s.Logger.Info("a server was added as a learner", "name", r.GetName(), "id", raftstore.IDText(id),
		"peer", r.GetPeerAddress())
	return &adminpb.AddMemberResponse{Id: raftstore.IDText(id)}, nil
}

// Promote gives a learner a vote.
func (s Leader) Promote(ctx context.Context,
	r *adminpb.PromoteMemberRequest) (*adminpb.PromoteMemberResponse, error) {
	ctx, cancel := s.promotionTime(ctx, r)
	defer cancel()
	if !s.Group.Leads() {
		return nil, errLeadsElsewhere
	}
	m, err := s.findMember(r.GetMember())
	if err != nil {
		return nil, err
	}
	for {
		err := s.Store.Changes.Promote(ctx, m.ID)
		if err == nil {
			s.Logger.Info("a server has a vote now", "name", m.Name, "id", raftstore.IDText(m.ID))
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

// Remove removes another member: if it is to remove itself it hands
// over the leadership, and the next leader is asked.
func (s Leader) Remove(ctx context.Context, r *adminpb.RemoveMemberRequest) (*adminpb.RemoveMemberResponse, error) {
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	if !s.Group.Leads() {
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
	if m.ID == s.Store.Member() {
		now, err := s.Store.Status(ctx)
		if err != nil {
			return nil, s.changeRefused(ctx, what, err)
		}
		if !now.QuorumWithout(m.ID) {
			return nil, s.changeRefused(ctx, what, raftstore.ErrQuorum)
		}
		if err := s.Group.Transfer(ctx, 0); err != nil {
			return nil, s.changeRefused(ctx, what, err)
		}
		return nil, errLeadsElsewhere
	}
	if err := s.Store.Changes.Remove(ctx, m.ID); err != nil {
		return nil, s.changeRefused(ctx, what, err)
	}
	s.Logger.Info("a server was removed", "name", m.Name, "id", raftstore.IDText(m.ID))
	return &adminpb.RemoveMemberResponse{}, nil
}

// TransferLeader hands over the leadership, and waits for the next leader.
func (s Leader) TransferLeader(ctx context.Context,
	r *adminpb.TransferLeaderRequest) (*adminpb.TransferLeaderResponse, error) {
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	if !s.Group.Leads() {
		return nil, errLeadsElsewhere
	}
	if term := s.Store.Figures().Term; r.GetTerm() != 0 && r.GetTerm() != term {
		return nil, status.Errorf(codes.FailedPrecondition, "It has changed since: %s leads, in term %d",
			s.Store.Members().NameOf(s.Store.Member()), term)
	}
	var to raftstore.Member
	if r.GetTo() != "" {
		var err error
		if to, err = s.findMember(r.GetTo()); err != nil {
			return nil, err
		}
		switch {
		case to.ID == s.Store.Member():
			return &adminpb.TransferLeaderResponse{Leader: raftstore.IDText(to.ID)}, nil
		case to.Learner:
			return nil, status.Errorf(codes.FailedPrecondition,
				"%s has no vote and cannot lead: promote it first", to.DisplayName())
		}
	}
	if err := s.Group.Transfer(ctx, to.ID); err != nil {
		return nil, s.changeRefused(ctx, "hand over the leadership", err)
	}
	for {
		if leader := s.Store.Leader(); leader != 0 {
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
func (s *Cluster) changeRefused(ctx context.Context, what string, err error) error {
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
		return status.Error(codes.Unavailable, streams.ErrStopped.Error())
	case ctx.Err() != nil:
		return refusal(codes.DeadlineExceeded,
			"not done in time; it may still happen, see `coordd cluster status`")
	}
	return refusal(codes.FailedPrecondition, err.Error())
}
