package admin

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/readiness"
)

const (
	// statusPatience bounds the wait for the leader's part of a status.
	statusPatience = time.Second
	// caughtUpLag is how many entries a server may be behind the leader to count as caught up.
	caughtUpLag = 1000
)

// Status implements adminpb.ClusterServer. It answers for this server, with what only the leader knows if
// that can be reached.
func (s *Cluster) Status(ctx context.Context, r *adminpb.ClusterStatusRequest) (*adminpb.ClusterStatus, error) {
	if err := s.administer(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	var ofLeader *adminpb.ClusterStatus
	if conn := s.Group.RelayConn(); conn != nil && !s.Group.Leads() {
		bounded, cancel := context.WithTimeout(ctx, statusPatience)
		answer := &adminpb.ClusterStatus{}
		if peers.Ask(bounded, conn, r, answer) == nil {
			ofLeader = answer
		}
		cancel()
	}
	own, err := s.ownStatus(ctx)
	if err != nil || ofLeader == nil {
		return own, err
	}
	own.Commit, own.LeaderAnswered = max(own.Commit, ofLeader.Commit), true
	own.CaughtUp = own.Applied+caughtUpLag >= ofLeader.Commit
	own.Members = ofLeader.Members
	return own, nil
}

// Status answers other servers.
func (s Leader) Status(ctx context.Context, _ *adminpb.ClusterStatusRequest) (*adminpb.ClusterStatus, error) {
	own, err := s.ownStatus(ctx)
	if err == nil && !own.LeaderAnswered {
		return nil, errLeadsElsewhere
	}
	return own, err
}

// Register registers the answers.
func (s Leader) Register(services *peers.Services) {
	peers.Answer(services, s.Status)
	peers.Answer(services, s.Add)
	peers.Answer(services, s.Promote)
	peers.Answer(services, s.Remove)
	peers.Answer(services, s.TransferLeader)
}

// ownStatus is what this server knows by itself.
func (s *Cluster) ownStatus(ctx context.Context) (*adminpb.ClusterStatus, error) {
	now, err := s.Store.Status(ctx)
	if err != nil {
		return nil, status.Error(codes.Unavailable, "This server did not tell its status: "+err.Error())
	}
	leads := now.Leader == s.Store.Member()
	answer := &adminpb.ClusterStatus{
		Cluster: raftstore.IDText(s.Store.Cluster()), ServerId: raftstore.IDText(s.Store.Member()),
		ServerName: s.Name,
		Term:       now.Term, Commit: now.Commit, Applied: now.Applied, CaughtUp: leads,
		LeaderAnswered: leads, FreeBytes: now.FreeBytes, ReserveBytes: now.ReserveBytes, DiskFull: now.Full,
		FormatVersion: s.Group.FormatVersion(), Diverged: s.Readiness.Divergence(),
	}
	if now.Leader != 0 {
		answer.Leader = raftstore.IDText(now.Leader)
	}
	for _, i := range s.Readiness.Issues() {
		if i.Kind != readiness.IssueDisk && i.Kind != readiness.IssueDiverged {
			answer.Issues = append(answer.Issues, i.Text)
		}
	}
	for _, m := range now.Members {
		answer.Members = append(answer.Members, memberStatus(m, now.Commit, leads))
	}
	return answer, nil
}

func memberStatus(m raftstore.Member, commit uint64, byLeader bool) *adminpb.ClusterMember {
	role := adminpb.ClusterMember_ROLE_VOTER
	switch {
	case m.Leader:
		role = adminpb.ClusterMember_ROLE_LEADER
	case m.Learner:
		role = adminpb.ClusterMember_ROLE_LEARNER
	}
	answer := &adminpb.ClusterMember{
		Id: raftstore.IDText(m.ID), Name: m.Name, PeerAddress: m.PeerAddress, ClientAddress: m.ClientAddress,
		Role:  role,
		Match: m.Match, Active: m.Active, Connected: m.Connected, Version: m.Version,
	}
	if byLeader && commit > m.Match {
		answer.Lag = commit - m.Match
	}
	return answer
}
