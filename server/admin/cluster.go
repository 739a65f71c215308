package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/listen"
	"github.com/coordd/coordd/server/readiness"
	"github.com/coordd/coordd/server/statelimit"
)

// Cluster answers administrators on any server (adminpb/cluster.proto). Changes that only the leader can make go to
// Leader there. All its fields are set before the first call.
type Cluster struct {
	adminpb.UnimplementedClusterServer
	*calls.Runner
	Auth       *auth.Authenticator
	Store      *raftstore.Store
	Readiness  *readiness.Watch
	StateLimit *statelimit.Limit
	Logger     *slog.Logger
	// Name is the server's name in its cluster, empty for a server alone.
	Name string
	// ListensForPeers lets other servers join the cluster.
	ListensForPeers bool
	// InMemory is set where there is nothing on disk to back up.
	InMemory bool
	// Err is the reason why the server cannot go on, nil as long as it can.
	Err func() error
	// Stall bounds how long the client of a backup may take to read one buffer; 0: BackupStall.
	Stall time.Duration
}

var errNotClusterAdministrator = status.Error(codes.PermissionDenied,
	"Only administrators may manage the cluster: "+auth.AsAdministrator)

// administer refuses callers who may not manage the cluster, by what this server knows.
func (s *Cluster) administer(ctx context.Context) error {
	id := auth.Of(ctx)
	if s.isOwner(ctx) || s.Group.Accounts().IsAdministrator(id.Name) {
		return nil
	}
	return errNotClusterAdministrator
}

// isOwner reports whether a caller may do everything without being an administrator.
func (s *Cluster) isOwner(ctx context.Context) bool {
	return auth.Of(ctx).Owns() || !s.Auth.Required && s.Auth.IsLocal(ctx)
}

// administerNow is administer for changes: this server may not know yet that an administrator was added, or
// removed, so it catches up first. ctx comes from InTime.
func (s *Cluster) administerNow(ctx context.Context) error {
	if s.isOwner(ctx) {
		return nil
	}
	switch err := s.Group.CatchUp(ctx); {
	case errors.Is(err, group.ErrNoLeader):
		return s.nobodyLeads(false)
	case err != nil:
		return calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	return s.administer(ctx)
}

// promotionTime bounds a promotion; one that waits for the learner takes as long as its caller says.
func (s *Cluster) promotionTime(ctx context.Context, r *adminpb.PromoteMemberRequest) (context.Context,
	context.CancelFunc) {
	if r.GetWait() {
		return s.AsLongAsAsked(ctx)
	}
	return s.InTime(ctx)
}

// nobodyLeads is the answer to a change for which there was no leader in time.
func (s *Cluster) nobodyLeads(unclear bool) error {
	text := "No leader: fewer servers can be reached than a majority needs; " +
		"`coordd cluster status` on each shows which are up"
	if unclear {
		text = "The leader went away during the change: it may or may not have been made, see `coordd cluster status`"
	}
	return status.Error(codes.Unavailable, text)
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

// findMember finds a member by name or by id.
func (s *Cluster) findMember(text string) (raftstore.Member, error) {
	members := s.Store.Members()
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

func (s *Cluster) noSuchMember(text string) error {
	var known []string
	for _, m := range s.Store.Members() {
		known = append(known, m.DisplayName())
	}
	slices.Sort(known)
	return status.Errorf(codes.NotFound, "The cluster has no server %q; it has %s", text,
		strings.Join(known, ", "))
}

func (s *Cluster) memberWith(name, address string) *raftstore.Member {
	for _, m := range s.Store.Members() {
		if m.Name == name && m.PeerAddress == address {
			return &m
		}
	}
	return nil
}

// removed reports whether this server is the member with an id and has been removed.
func (s *Cluster) removed(id string) bool {
	return id == raftstore.IDText(s.Store.Member()) && errors.Is(s.Err(), raftstore.ErrRemoved)
}
