package server

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/listen"
	"github.com/coordd/coordd/server/wire"
)

// coordinationService is Ydb.Coordination.V1.CoordinationService.
type coordinationService struct {
	Ydb_Coordination_V1.UnimplementedCoordinationServiceServer
	*Server
}

// Session is coordination.md §2.
func (s coordinationService) Session(rpc Ydb_Coordination_V1.CoordinationService_SessionServer) error {
	session, err := s.newSession(rpc)
	if err != nil {
		return err
	}
	defer func() {
		call := listen.CallOf(rpc.Context())
		call.Answered(session.mayLieUnread())
		call.Gone(session.close)
	}()
	switch err := session.stream.Enter(); {
	case errors.Is(err, group.ErrStopped):
		return refuseAtItsFirstMessage(rpc)
	case err != nil:
		return status.Error(codes.Unavailable, err.Error())
	}
	defer session.stream.Leave()
	// revoked before the enforcer knew the stream
	if !s.auth.StillValid(session.identity, s.group.Accounts()) {
		return auth.ErrInvalidToken
	}
	return session.serve()
}

// refuseAtItsFirstMessage ends a stream that came to a server which is stopping: its client may have opened
// it again before it could know. The refusal awaits the client's SessionStart, because the Go SDK gives up a
// session for good whose SessionStart it could not send. The end of the connection bounds the wait.
func refuseAtItsFirstMessage(rpc Ydb_Coordination_V1.CoordinationService_SessionServer) error {
	if _, err := rpc.Recv(); err != nil {
		return err
	}
	return rpc.Send(wire.ToClient(&coordination.Reply{Kind: coordination.ReplyFailure,
		Refusal: coordination.LinkFailure}))
}

// CreateNode is coordination.md §1.1.
func (s coordinationService) CreateNode(ctx context.Context,
	r *Ydb_Coordination.CreateNodeRequest) (*Ydb_Coordination.CreateNodeResponse, error) {
	databaseName, sent := database(ctx)
	path, answer := scheme.SplitInDatabase(r.GetPath(), databaseName, sent)
	op, err := s.unlessRefused(answer, func() (*Ydb_Operations.Operation, error) {
		return s.command(ctx, r.GetOperationParams(), func(call coordination.CallID) coordination.Command {
			return &coordination.CreateNode{CallID: call, Caller: s.caller(ctx), Path: path,
				Config: wire.NodeConfig(r.GetConfig()), SetsPath: r.GetConfig().GetPath() != "",
				Owner: ownerFor(ctx), StampMillis: s.group.Clock().WallMillis()}
		})
	})
	return &Ydb_Coordination.CreateNodeResponse{Operation: op}, err
}

// AlterNode is coordination.md §1.2.
func (s coordinationService) AlterNode(ctx context.Context,
	r *Ydb_Coordination.AlterNodeRequest) (*Ydb_Coordination.AlterNodeResponse, error) {
	path, answer := scheme.SplitAtLastSlash(r.GetPath())
	op, err := s.unlessRefused(answer, func() (*Ydb_Operations.Operation, error) {
		return s.command(ctx, r.GetOperationParams(), func(call coordination.CallID) coordination.Command {
			return &coordination.AlterNode{CallID: call, Caller: s.caller(ctx), Path: path,
				Config: wire.NodeConfig(r.GetConfig()), SetsPath: r.GetConfig().GetPath() != ""}
		})
	})
	return &Ydb_Coordination.AlterNodeResponse{Operation: op}, err
}

// DropNode is coordination.md §1.3.
func (s coordinationService) DropNode(ctx context.Context,
	r *Ydb_Coordination.DropNodeRequest) (*Ydb_Coordination.DropNodeResponse, error) {
	path, answer := scheme.SplitAtLastSlash(r.GetPath())
	op, err := s.unlessRefused(answer, func() (*Ydb_Operations.Operation, error) {
		return s.command(ctx, r.GetOperationParams(), func(call coordination.CallID) coordination.Command {
			return &coordination.DropNode{CallID: call, Caller: s.caller(ctx), Path: path}
		})
	})
	return &Ydb_Coordination.DropNodeResponse{Operation: op}, err
}

// DescribeNode is coordination.md §1.4: the configuration exactly as stored.
func (s coordinationService) DescribeNode(ctx context.Context,
	r *Ydb_Coordination.DescribeNodeRequest) (*Ydb_Coordination.DescribeNodeResponse, error) {
	op, err := s.operate(ctx, r.GetOperationParams(),
		func(ctx context.Context) (proto.Message, outcome.Outcome, error) {
			path := scheme.SplitLoose(r.GetPath())
			d, answer, err := s.group.Describe(ctx, s.caller(ctx), path,
				func(m *coordination.Machine) (d group.Described) {
					if d.Lineage, d.Outcome = m.Tree().NodeToDescribe(path); d.Outcome.OK() {
						d.Config, _ = m.Config(d.Lineage[0].Node)
					}
					return d
				})
			if err != nil || !answer.OK() {
				return nil, answer, err
			}
			return s.packed(ctx, answer, func() proto.Message {
				return &Ydb_Coordination.DescribeNodeResult{Self: wire.Self(d.Lineage),
					Config: wire.Config(d.Config)}
			})
		})
	return &Ydb_Coordination.DescribeNodeResponse{Operation: op}, err
}

// unlessRefused answers with the outcome of reading a path, or goes on if that succeeded.
func (s *Server) unlessRefused(answer outcome.Outcome,
	next func() (*Ydb_Operations.Operation, error)) (*Ydb_Operations.Operation, error) {
	if !answer.OK() {
		return operation(answer, nil)
	}
	return next()
}
