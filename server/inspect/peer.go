package inspect

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/server/clusterpb"
)

// Peer answers the other servers of the cluster.
type Peer struct {
	// Service is that of the server. It is asked for when there is a call: the log is opened before there is
	// one.
	Service func() *Service
}

// Register registers the answers.
func (p Peer) Register(services *peers.Services) {
	peers.Answer(services, p.Sessions)
	peers.Answer(services, p.Holders)
	peers.Answer(services, p.Clients)
	peers.Answer(services, p.Buckets)
	peers.Answer(services, p.Former)
	peers.Answer(services, p.Events)
	peers.Answer(services, p.Slow)
}

var errNotStarted = status.Error(codes.Unavailable, "This server has not started yet")

// Sessions lists sessions as the leader knows them.
func (p Peer) Sessions(ctx context.Context, r *clusterpb.SessionsRequest) (*clusterpb.SessionsResponse, error) {
	s := p.Service()
	if s == nil {
		return nil, errLeadsElsewhere
	}
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	return s.sessionsHere(ctx, r.GetRequest(),
		coordination.Caller{Subject: string(r.GetSubject()), Enforced: r.GetEnforced()})
}

// Clients lists the clients of streams that this server holds.
func (p Peer) Clients(_ context.Context, r *clusterpb.ClientsRequest) (*clusterpb.ClientsResponse, error) {
	s := p.Service()
	switch {
	case s == nil:
		return nil, errNotStarted
	case len(r.GetStreams()) > maxPageRows:
		return nil, status.Errorf(codes.InvalidArgument, "%d streams are asked about, %d at most may be",
			len(r.GetStreams()), maxPageRows)
	}
	return s.clientsHere(r.GetStreams()), nil
}

// checkPairs refuses a question about things of nodes unless each has a node, and they are not too many.
func checkPairs(what string, things, nodes int) error {
	if nodes > maxPageRows || nodes != things {
		return status.Errorf(codes.InvalidArgument, "%d %s of %d nodes are asked about, %d of as many at most may be",
			things, what, nodes, maxPageRows)
	}
	return nil
}

// Buckets lists what this server has of resources.
func (p Peer) Buckets(_ context.Context, r *clusterpb.BucketsRequest) (*clusterpb.BucketsResponse, error) {
	s := p.Service()
	if s == nil {
		return nil, errNotStarted
	}
	if err := checkPairs("resources", len(r.GetResources()), len(r.GetNodes())); err != nil {
		return nil, err
	}
	return s.bucketsHere(r), nil
}

// Events answers with the events that this server keeps.
func (p Peer) Events(ctx context.Context, r *clusterpb.EventsQuestion) (*clusterpb.EventsAnswer, error) {
	s := p.Service()
	if s == nil {
		return nil, errNotStarted
	}
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	found, err := s.eventsHere(ctx, r.GetRequest(),
		coordination.Caller{Subject: string(r.GetSubject()), Enforced: r.GetEnforced()})
	return &clusterpb.EventsAnswer{Response: found}, err
}

// Holders returns sessions as the leader knows them.
func (p Peer) Holders(ctx context.Context, r *clusterpb.HoldersRequest) (*clusterpb.SessionsResponse, error) {
	s := p.Service()
	if s == nil {
		return nil, errLeadsElsewhere
	}
	if err := checkPairs("sessions", len(r.GetSessions()), len(r.GetNodes())); err != nil {
		return nil, err
	}
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	return s.holdersHere(ctx, r)
}

// Former lists the former versions of data that this server remembers.
func (p Peer) Former(ctx context.Context, r *clusterpb.FormerRequest) (*clusterpb.FormerResponse, error) {
	s := p.Service()
	if s == nil {
		return nil, errNotStarted
	}
	return s.formerHere(ctx, r)
}

// Slow answers with the slow requests that this server keeps.
func (p Peer) Slow(_ context.Context, r *clusterpb.SlowQuestion) (*clusterpb.SlowAnswer, error) {
	s := p.Service()
	if s == nil {
		return nil, errNotStarted
	}
	return &clusterpb.SlowAnswer{Response: s.slowHere(r.GetRequest())}, nil
}
