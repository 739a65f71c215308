package services

import (
	"context"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/wire"
)

// Coordination serves Ydb.Coordination.V1.CoordinationService.
type Coordination struct {
	Ydb_Coordination_V1.UnimplementedCoordinationServiceServer
	*calls.Runner
	// Sessions serves a Session stream until it has ended.
	Sessions func(Ydb_Coordination_V1.CoordinationService_SessionServer) error
}

// Session is coordination.md §2.
func (s Coordination) Session(rpc Ydb_Coordination_V1.CoordinationService_SessionServer) error {
	return s.Sessions(rpc)
}

// CreateNode is coordination.md §1.1.
func (s Coordination) CreateNode(ctx context.Context,
	r *Ydb_Coordination.CreateNodeRequest) (*Ydb_Coordination.CreateNodeResponse, error) {
	databaseName, sent := calls.Database(ctx)
	path, answer := scheme.SplitInDatabase(r.GetPath(), databaseName, sent)
	op, err := s.Command(ctx, r.GetOperationParams(), answer, func(call coordination.CallID) coordination.Command {
		return &coordination.CreateNode{CallID: call, Caller: s.Caller(ctx), Path: path,
			Config: wire.NodeConfig(r.GetConfig()), SetsPath: r.GetConfig().GetPath() != "",
			Owner: calls.OwnerFor(ctx), StampMillis: s.Group.Shell().WallMillis()}
	})
	return &Ydb_Coordination.CreateNodeResponse{Operation: op}, err
}

// AlterNode is coordination.md §1.2.
func (s Coordination) AlterNode(ctx context.Context,
	r *Ydb_Coordination.AlterNodeRequest) (*Ydb_Coordination.AlterNodeResponse, error) {
	path, answer := scheme.SplitAtLastSlash(r.GetPath())
	op, err := s.Command(ctx, r.GetOperationParams(), answer, func(call coordination.CallID) coordination.Command {
		return &coordination.AlterNode{CallID: call, Caller: s.Caller(ctx), Path: path,
			Config: wire.NodeConfig(r.GetConfig()), SetsPath: r.GetConfig().GetPath() != ""}
	})
	return &Ydb_Coordination.AlterNodeResponse{Operation: op}, err
}

// DropNode is coordination.md §1.3.
func (s Coordination) DropNode(ctx context.Context,
	r *Ydb_Coordination.DropNodeRequest) (*Ydb_Coordination.DropNodeResponse, error) {
	path, answer := scheme.SplitAtLastSlash(r.GetPath())
	op, err := s.Command(ctx, r.GetOperationParams(), answer, func(call coordination.CallID) coordination.Command {
		return &coordination.DropNode{CallID: call, Caller: s.Caller(ctx), Path: path}
	})
	return &Ydb_Coordination.DropNodeResponse{Operation: op}, err
}

// DescribeNode is coordination.md §1.4: the configuration exactly as stored.
func (s Coordination) DescribeNode(ctx context.Context,
	r *Ydb_Coordination.DescribeNodeRequest) (*Ydb_Coordination.DescribeNodeResponse, error) {
	op, err := s.Operate(ctx, r.GetOperationParams(),
		func(ctx context.Context) (proto.Message, outcome.Outcome, error) {
			path := scheme.SplitLoose(r.GetPath())
			d, answer, err := s.Group.Describe(ctx, s.Caller(ctx), path,
				func(m *coordination.Machine) (d group.Described) {
					if d.Lineage, d.Outcome = m.Tree().NodeToDescribe(path); d.Outcome.OK() {
						d.Config, _ = m.Config(d.Lineage[0].Node)
					}
					return d
				})
			if err != nil || !answer.OK() {
				return nil, answer, err
			}
			return s.Packed(ctx, answer, func() proto.Message {
				return &Ydb_Coordination.DescribeNodeResult{Self: wire.Self(d.Lineage),
					Config: wire.Config(d.Config)}
			})
		})
	return &Ydb_Coordination.DescribeNodeResponse{Operation: op}, err
}
