package server

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/wire"
)

// operation is the answer to a unary call: always ready, because SDKs do not poll (surface.md §1.3). result may be nil.
func operation(outcome scheme.Outcome, result proto.Message) (*Ydb_Operations.Operation, error) {
	op := &Ydb_Operations.Operation{Ready: true, Status: Ydb.StatusIds_StatusCode(outcome.Status), Issues: wire.Issues(outcome.Issues)}
	if result != nil && outcome.OK() {
		packed, err := anypb.New(result)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		op.Result = packed
	}
	return op, nil
}

func refuse(s scheme.Status, text string) scheme.Outcome {
	return scheme.Refuse(s, scheme.Issue{Severity: scheme.SeverityError, Message: text})
}

// command runs a command about the path tree on behalf of a unary call.
func (s *Server) command(ctx context.Context, params *Ydb_Operations.OperationParams,
	build func(coordination.Call) coordination.Command) (*Ydb_Operations.Operation, error) {
	return s.operate(ctx, params, func(ctx context.Context) (proto.Message, scheme.Outcome, error) {
		outcome, err := s.execute(ctx, build)
		return nil, outcome, err
	})
}

// operate does what a unary call asks for, in time. do returns the result to pack, if the outcome is success.
func (s *Server) operate(ctx context.Context, params *Ydb_Operations.OperationParams,
	do func(context.Context) (proto.Message, scheme.Outcome, error)) (*Ydb_Operations.Operation, error) {
	ctx, cancel := s.inTime(ctx)
	defer cancel()
	ctx, cancelParams := withOperationParams(ctx, params)
	defer cancelParams()
	result, outcome, err := do(ctx)
	if err != nil {
		if outcome, err = unfinished(ctx, err); err != nil {
			return nil, err
		}
	}
	return operation(outcome, result)
}

// database is the x-ydb-database header of a request.
func database(ctx context.Context) (value string, sent bool) {
	if values := metadata.ValueFromIncomingContext(ctx, "x-ydb-database"); len(values) > 0 {
		return unquote(values[0]), true
	}
	return "", false
}
