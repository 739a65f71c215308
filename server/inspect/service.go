package inspect

import (
	"context"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/history"
)

// Service answers clients.
type Service struct {
	adminpb.UnimplementedInspectServer
	*calls.Runner
	// Serves returns the refusal for a caller that the service does not serve at all.
	Serves func(ctx context.Context) error
	Logger *slog.Logger
	Boards *Boards
	// History is that of this server.
	History *history.History
	Usage   Usage
	// Database is its path.
	Database string

	repeats repeats
}

// begin admits a call and bounds it.
func (s *Service) begin(ctx context.Context) (context.Context, context.CancelFunc, coordination.Caller, error) {
	if err := s.Serves(ctx); err != nil {
		return nil, nil, coordination.Caller{}, err
	}
	caller := s.Caller(ctx)
	ctx, cancel := s.InTime(ctx)
	return ctx, cancel, caller, nil
}

// administers reports whether a caller may see everything.
func (s *Service) administers(caller coordination.Caller) bool {
	return !caller.Enforced || s.Group.Accounts().IsAdministrator(caller.Subject)
}

// List implements adminpb.InspectServer.
func (s *Service) List(ctx context.Context, r *adminpb.PageRequest) (*adminpb.Page, error) {
	ctx, cancel, caller, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if r.GetOrder() != adminpb.PageRequest_KEY {
		page, owners, err := s.Boards.page(ctx, r, caller, s.administers(caller))
		if err != nil {
			return nil, err
		}
		s.fillHolders(ctx, page, owners, caller)
		return page, nil
	}
	l, err := newListing(r, caller)
	switch {
	case err != nil:
		return nil, err
	case l.q.Kind == coordination.InspectSessions:
		page, err := s.sessions(ctx, r, caller)
		if err != nil {
			return nil, err
		}
		s.fillClients(ctx, page, caller)
		return page.GetResponse(), nil
	}
	if err := s.page(ctx, l); err != nil {
		return nil, err
	}
	s.fillBuckets(ctx, l.page.Response, l.resources, r.GetSamples())
	return l.page.Response, nil
}

// EndSession implements adminpb.InspectServer.
func (s *Service) EndSession(ctx context.Context, r *adminpb.EndSessionRequest) (*adminpb.EndSessionResponse, error) {
	ctx, cancel, caller, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	node, _, err := s.find(ctx, caller, r.GetPath(), "")
	if err == nil {
		err = s.asSeen(ctx, caller, r)
	}
	if err != nil {
		return nil, err
	}
	answer, err := s.Execute(ctx, func(call coordination.CallID) coordination.Command {
		return &coordination.EndSession{CallID: call, Caller: caller, Node: node,
			Session: coordination.SessionID(r.GetSession()), Reason: Shown(r.GetReason()),
			Semaphore: coordination.SemaphoreID(r.GetSemaphore()), Order: coordination.OrderID(r.GetOrderId())}
	})
	return &adminpb.EndSessionResponse{}, calls.GRPCStatus(ctx, answer, err)
}

// DeleteSemaphore implements adminpb.InspectServer.
func (s *Service) DeleteSemaphore(ctx context.Context,
	r *adminpb.DeleteSemaphoreRequest) (*adminpb.DeleteSemaphoreResponse, error) {
	if (len(r.GetName()) == 0) == (r.GetId() == 0) {
		return nil, status.Error(codes.InvalidArgument, "Give the semaphore's name or its id, and not both")
	}
	ctx, cancel, caller, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	node, semaphore, err := s.find(ctx, caller, r.GetPath(), string(r.GetName()))
	if err != nil {
		return nil, err
	}
	if r.GetId() != 0 {
		semaphore = coordination.SemaphoreID(r.GetId())
	}
	answer, err := s.Execute(ctx, func(call coordination.CallID) coordination.Command {
		return &coordination.RemoveSemaphore{CallID: call, Caller: caller, Node: node, Semaphore: semaphore,
			Force: r.GetForce(), Seen: r.OwnerOrderId != nil, Owner: coordination.OrderID(r.GetOwnerOrderId())}
	})
	if err == nil && answer.Status == coordination.CannotDeleteEphemeral.Status && answer.String() != "" {
		answer = withAdvice(answer)
	}
	return &adminpb.DeleteSemaphoreResponse{}, calls.GRPCStatus(ctx, answer, err)
}

// asSeen refuses to end a session that has another client than the caller has seen. A client that comes between this
// and the end is too late: it learns that the session has ended. Whether the session still has the semaphore is judged
// with the end itself.
func (s *Service) asSeen(ctx context.Context, caller coordination.Caller, r *adminpb.EndSessionRequest) error {
	if r.GetAttachment() == "" {
		return nil
	}
	page, err := s.sessions(ctx, &adminpb.PageRequest{Kind: adminpb.PageRequest_SESSIONS, Path: r.GetPath(),
		Session: r.GetSession()}, caller)
	switch {
	case err != nil:
		return err
	case len(page.GetServers()) == 0:
		return changed("the session has ended")
	case attachment(page, 0) != r.GetAttachment():
		return changed("a client has attached to the session, or has gone")
	}
	return nil
}

// changed is the refusal of an act on something that is no longer as the caller has seen it.
func changed(how string) error {
	return status.Error(codes.FailedPrecondition, "It has changed since: "+how)
}

// withAdvice adds to a refusal of the protocol what to do instead.
func withAdvice(answer outcome.Outcome) outcome.Outcome {
	if len(answer.Issues) != 1 || answer.Issues[0].Message != coordination.CannotDeleteEphemeral.Text {
		return answer
	}
	return outcome.Because(answer.Status, answer.Issues[0].Message+
		": they go with their last owner; end its session")
}

// UpdateData implements adminpb.InspectServer.
func (s *Service) UpdateData(ctx context.Context, r *adminpb.UpdateDataRequest) (*adminpb.UpdateDataResponse, error) {
	ctx, cancel, caller, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	node, _, err := s.find(ctx, caller, r.GetPath(), "")
	if err != nil {
		return nil, err
	}
	answer, err := s.Execute(ctx, func(call coordination.CallID) coordination.Command {
		return &coordination.UpdateData{CallID: call, Caller: caller, Node: node, Name: string(r.GetName()),
			Data: r.GetData(), Expected: r.GetExpected()}
	})
	return &adminpb.UpdateDataResponse{}, calls.GRPCStatus(ctx, answer, err)
}

// find returns the node at a path, and the semaphore there with the name. It tells of nothing that the caller
// may neither read nor change.
func (s *Service) find(ctx context.Context, caller coordination.Caller, path,
	name string) (node coordination.NodeID, semaphore coordination.SemaphoreID, err error) {
	if err := s.Group.CatchUp(ctx); err != nil {
		return 0, 0, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	_, err = s.Group.Read(ctx, func(m *coordination.Machine) outcome.Outcome {
		entry, found := m.Tree().Lookup(scheme.SplitLoose(path))
		if found && m.Tree().Rights(entry, m.Subject(caller))&(scheme.SelectRow|scheme.UpdateRow|scheme.EraseRow) != 0 {
			node, semaphore = entry.Node, m.FindSemaphore(entry.Node, name).ID
		}
		return outcome.Done()
	})
	switch {
	case err != nil:
		return 0, 0, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	case node == 0:
		return 0, 0, errMissing
	}
	return node, semaphore, nil
}
