package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
)

// Console answers for the console (adminpb/console.proto). All its fields are set before the first call.
type Console struct {
	adminpb.UnimplementedConsoleServer
	*Cluster
	// Link returns the address of the console with a new key, "" if there is no console.
	Link    func() string
	Version string // of the program
	Started time.Time
	Charts  Charts
}

// Key implements adminpb.ConsoleServer.
func (s *Console) Key(ctx context.Context, _ *adminpb.KeyRequest) (*adminpb.KeyResponse, error) {
	if !auth.FromSocket(ctx) || auth.Of(ctx) != auth.LocalAdministrator {
		return nil, status.Error(codes.PermissionDenied,
			"A key is for the owner of the server's data directory, by the socket in it (--data-dir)")
	}
	url := s.Link()
	if url == "" {
		return nil, status.Error(codes.FailedPrecondition,
			"This server has no console: start it with --listen-http and --console=read or write")
	}
	return &adminpb.KeyResponse{Url: url}, nil
}

// Servers implements adminpb.ConsoleServer. It waits for other servers statusPatience.
func (s *Console) Servers(ctx context.Context, r *adminpb.ServersRequest) (*adminpb.ServersResponse, error) {
	if err := s.administer(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	members := s.Store.Members()
	slices.SortFunc(members, func(a, b raftstore.Member) int { return cmp.Compare(a.DisplayName(), b.DisplayName()) })
	response := &adminpb.ServersResponse{Servers: make([]*adminpb.Server, len(members))}
	var asked sync.WaitGroup
	for i, m := range members {
		asked.Go(func() { response.Servers[i] = s.ask(ctx, m, r) })
	}
	asked.Wait()
	return response, nil
}

// ask asks a server. The clock of its answer becomes the offset to this server's in the middle of the question.
func (s *Console) ask(ctx context.Context, m raftstore.Member, r *adminpb.ServersRequest) *adminpb.Server {
	begun, answer, err := time.Now(), &adminpb.Server{}, error(nil)
	if m.ID == s.Store.Member() {
		answer, err = s.Own(ctx, r)
	} else {
		err = peers.Ask(ctx, s.Store.Peers.Conn(m.ID, false), r, answer)
	}
	if err != nil {
		answer = &adminpb.Server{Unknown: fmt.Sprintf("server %s does not answer", m.DisplayName())}
	}
	answer.Id, answer.Name = raftstore.IDText(m.ID), m.DisplayName()
	if answer.ClockMillis != 0 {
		between := begun.Add(time.Since(begun) / 2)
		answer.ClockMillis = (answer.ClockMillis - between.UnixMilli()) / 10 * 10
	}
	return answer
}

// Own answers other servers. Its clock is the time since 1970.
func (s *Console) Own(ctx context.Context, r *adminpb.ServersRequest) (*adminpb.Server, error) {
	now, err := s.ownStatus(ctx)
	if err != nil {
		return nil, err
	}
	now.Members = nil
	answer := &adminpb.Server{Status: now, Version: s.Version, StartedMillis: uint64(s.Started.UnixMilli()),
		Samples: s.Charts.Since(r.GetSinceMillis()), ClockMillis: time.Now().UnixMilli()}
	if at := s.Store.Figures().CheckpointStored; !at.IsZero() {
		answer.CheckpointMillis = uint64(at.UnixMilli())
	}
	return answer, nil
}
