package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/clusterpb"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/listen"
)

// clusterService answers administrators, on any server (adminpb/cluster.proto). What only the leader can do
// goes to clusterLeader there.
type clusterService struct {
	adminpb.UnimplementedClusterServer
	*Server
}

var errNotClusterAdministrator = status.Error(codes.PermissionDenied,
	"Only administrators may manage the cluster: "+auth.AsAdministrator)

// administer refuses callers who may not manage the cluster, by what this server knows.
func (s clusterService) administer(ctx context.Context) error {
	id := auth.Of(ctx)
	if s.isOwner(ctx) || s.group.Accounts().IsAdministrator(id.Name) {
		return nil
	}
	return errNotClusterAdministrator
}

// isOwner reports whether a caller may do everything without being an administrator.
func (s clusterService) isOwner(ctx context.Context) bool {
	return auth.Of(ctx) == auth.LocalAdministrator || !s.auth.Required && s.auth.IsLocal(ctx)
}

// administerNow is administer for changes: this server may not know yet that an administrator was added, or
// removed, so it catches up first. ctx comes from inTime.
func (s clusterService) administerNow(ctx context.Context) error {
	if s.isOwner(ctx) {
		return nil
	}
	switch err := s.group.CatchUp(ctx); {
	case errors.Is(err, group.ErrNoLeader):
		return s.nobodyLeads(false)
	case err != nil:
		return calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	return s.administer(ctx)
}

// Add implements adminpb.ClusterServer.
func (s clusterService) Add(ctx context.Context, r *adminpb.AddMemberRequest) (*adminpb.AddMemberResponse,
	error) {
	ctx, cancel := s.calls.InTime(ctx)
	defer cancel()
	if err := s.administerNow(ctx); err != nil {
		return nil, err
	}
	if err := validMember(r.GetName(), r.GetPeerAddress()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	answer, unclear, err := onLeader(ctx, s.Server, r, clusterLeader.Add, clusterpb.ClusterClient.Add)
	if unclear && status.Code(err) == codes.AlreadyExists {
		// by an attempt whose answer was lost
		if m := s.memberWith(r.GetName(), r.GetPeerAddress()); m != nil {
			return &adminpb.AddMemberResponse{Id: raftstore.IDText(m.ID)}, nil
		}
	}
	return answer, err
}

// ValidMemberName says what a name of a server in its cluster has to be, if name is none: 1 to 64 printable
// ASCII characters that do not get lost in --initial-cluster.
func ValidMemberName(name string) error {
	if name == "" || len(name) > 64 || strings.ContainsFunc(name,
		func(r rune) bool { return r <= ' ' || r > '~' || r == ',' || r == '=' }) {
		return errors.New("want up to 64 printable ASCII characters without spaces, commas and equal signs")
	}
	return nil
}

func validMember(name, address string) error {
	if err := ValidMemberName(name); err != nil {
		return fmt.Errorf("name %q: %w", name, err)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || len(address) > 255 || listen.ValidPort(port, 1) != nil {
		return fmt.Errorf("peer address %q: want HOST:PORT with a port from 1 to 65535", address)
	}
	return nil
}

func (s *Server) memberWith(name, address string) *raftstore.Member {
	for _, m := range s.store.Members() {
		if m.Name == name && m.PeerAddress == address {
			return &m
		}
	}
	return nil
}

// Promote implements adminpb.ClusterServer.
func (s clusterService) Promote(ctx context.Context,
	r *adminpb.PromoteMemberRequest) (*adminpb.PromoteMemberResponse, error) {
	ctx, cancel := s.promotionTime(ctx, r)
	defer cancel()
	if err := s.administerNow(ctx); err != nil {
		return nil, err
	}
	answer, _, err := onLeader(ctx, s.Server, r, clusterLeader.Promote, clusterpb.ClusterClient.Promote)
	return answer, err
}

// promotionTime bounds a promotion; one that waits for the learner takes as long as its caller says.
func (s *Server) promotionTime(ctx context.Context, r *adminpb.PromoteMemberRequest) (context.Context,
	context.CancelFunc) {
	if r.GetWait() {
		return s.calls.AsLongAsAsked(ctx)
	}
	return s.calls.InTime(ctx)
}

// Remove implements adminpb.ClusterServer.
func (s clusterService) Remove(ctx context.Context,
	r *adminpb.RemoveMemberRequest) (*adminpb.RemoveMemberResponse, error) {
	ctx, cancel := s.calls.InTime(ctx)
	defer cancel()
	if err := s.administerNow(ctx); err != nil {
		return nil, err
	}
	// Another member may get the name while this goes on, but never the id.
	resolved := &adminpb.RemoveMemberRequest{Member: r.GetMember()}
	if m, err := s.findMember(r.GetMember()); err == nil {
		resolved.Member = raftstore.IDText(m.ID)
	}
	answer, unclear, err := onLeader(ctx, s.Server, resolved, clusterLeader.Remove,
		clusterpb.ClusterClient.Remove)
	switch {
	case unclear && status.Code(err) == codes.NotFound, err != nil && s.removed(resolved.Member):
		return &adminpb.RemoveMemberResponse{}, nil // by an attempt whose answer was lost
	case status.Code(err) == codes.NotFound:
		err = s.noSuchMember(r.GetMember())
	}
	return answer, err
}

// removed reports whether this server is the member with an id and has been removed.
func (s *Server) removed(id string) bool {
	return id == raftstore.IDText(s.store.Member()) && errors.Is(s.Err(), raftstore.ErrRemoved)
}

// TransferLeader implements adminpb.ClusterServer.
func (s clusterService) TransferLeader(ctx context.Context,
	r *adminpb.TransferLeaderRequest) (*adminpb.TransferLeaderResponse, error) {
	ctx, cancel := s.calls.InTime(ctx)
	defer cancel()
	if err := s.administerNow(ctx); err != nil {
		return nil, err
	}
	answer, _, err := onLeader(ctx, s.Server, r, clusterLeader.TransferLeader,
		clusterpb.ClusterClient.TransferLeader)
	return answer, err
}

// errLeadsElsewhere is how clusterLeader says that it did nothing because another server leads; it never
// reaches a client.
var errLeadsElsewhere = status.Error(codes.Aborted, "another server leads")

// onLeader makes a call on the leader, wherever it is. It waits for one until ctx ends, which comes from
// InTime or AsLongAsAsked, and for calls.Patience at most. unclear says that an attempt before the last one may
// have succeeded.
func onLeader[Request, Response any](ctx context.Context, s *Server, r *Request,
	here func(clusterLeader, context.Context, *Request) (*Response, error),
	there func(clusterpb.ClusterClient, context.Context, *Request, ...grpc.CallOption) (*Response, error),
) (answer *Response, unclear bool, err error) {
	patience, cancel := context.WithTimeout(ctx, s.calls.Longest())
	defer cancel()
	unasked := s.group.AskLeader(patience, func(bool) group.Asked {
		leader := s.group.LeaderAddress()
		if leader != "" {
			answer, err = askLeader(ctx, s, leader, r, there)
		} else {
			answer, err = here(clusterLeader{Server: s}, ctx, r)
		}
		switch code := status.Code(err); {
		case code == codes.Aborted:
			return group.NotLed
		case code == codes.Unavailable, code == codes.Canceled && ctx.Err() == nil: // the leader went away
			unclear = true
			return group.LeaderGone
		case code == codes.DeadlineExceeded && leader != "" && ctx.Err() != nil: // it did not answer in time
			unclear, err = true, s.nobodyLeads(true)
		}
		return group.Answered
	})
	switch {
	case errors.Is(unasked, group.ErrStopped):
		return nil, unclear, status.Error(codes.Unavailable, group.ErrStopped.Error())
	case unasked != nil:
		return nil, unclear, s.nobodyLeads(unclear)
	}
	return answer, unclear, err
}

// askLeader has a connection of its own: that of the relay is closed as soon as another server leads, and
// with it the answer to a change that makes another server lead.
func askLeader[Request, Response any](ctx context.Context, s *Server, address string, r *Request,
	ask func(clusterpb.ClusterClient, context.Context, *Request, ...grpc.CallOption) (*Response,
		error)) (*Response, error) {
	conn, err := s.store.DialPeer(address)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	defer conn.Close()
	return ask(clusterpb.NewClusterClient(conn), ctx, r)
}

// nobodyLeads is the answer to a change for which there was no leader in time.
func (s *Server) nobodyLeads(unclear bool) error {
	text := "No leader: fewer servers can be reached than a majority needs; `coordd cluster status` on each shows which are up"
	if unclear {
		text = "The leader went away during the change: it may or may not have been made, see `coordd cluster status`"
	}
	return status.Error(codes.Unavailable, text)
}

// findMember finds a member by name or by id.
func (s *Server) findMember(text string) (raftstore.Member, error) {
	members := s.store.Members()
	for _, m := range members {
		if m.Name != "" && m.Name == text {
			return m, nil
		}
	}
	if id, err := strconv.ParseUint(text, 16, 64); err == nil {
		if m, found := members.Find(id); found {
			return m, nil
		}
	}
	return raftstore.Member{}, s.noSuchMember(text)
}

func (s *Server) noSuchMember(text string) error {
	var known []string
	for _, m := range s.store.Members() {
		known = append(known, m.DisplayName())
	}
	slices.Sort(known)
	return status.Errorf(codes.NotFound, "The cluster has no server %q; it has %s", text,
		strings.Join(known, ", "))
}
