package server

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/wire"
)

// operation is the answer to a unary call: always ready, because SDKs do not poll (surface.md §1.3). result
// may be nil.
func operation(answer outcome.Outcome, result proto.Message) (*Ydb_Operations.Operation, error) {
	op := &Ydb_Operations.Operation{Ready: true, Status: Ydb.StatusIds_StatusCode(answer.Status),
		Issues: wire.Issues(answer.Issues)}
	if result != nil && answer.OK() {
		packed, is := result.(*anypb.Any)
		if !is {
			var err error
			if packed, err = anypb.New(result); err != nil {
				return nil, status.Error(codes.Internal, err.Error())
			}
		}
		op.Result = packed
	}
	return op, nil
}

// packed is a result that may be long in the making and take much memory meanwhile, ready for operation. Few
// are made at a time: who asks for many at once takes neither the processor nor the memory from others.
// Errors: that of ctx.
func (s *Server) packed(ctx context.Context, answer outcome.Outcome,
	result func() proto.Message) (proto.Message, outcome.Outcome, error) {
	select {
	case s.packing <- struct{}{}:
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), errPatience) {
			return nil, outcome.Because(outcome.Overloaded, "Too many requests at once, try again"), nil
		}
		return nil, answer, ctx.Err()
	}
	defer func() { <-s.packing }()
	ready, err := anypb.New(result())
	if err != nil {
		return nil, answer, status.Error(codes.Internal, err.Error())
	}
	return ready, answer, nil
}

// command runs a command about the path tree on behalf of a unary call.
func (s *Server) command(ctx context.Context, params *Ydb_Operations.OperationParams,
	build func(coordination.CallID) coordination.Command) (*Ydb_Operations.Operation, error) {
	return s.operate(ctx, params, func(ctx context.Context) (proto.Message, outcome.Outcome, error) {
		answer, err := s.execute(ctx, build)
		return nil, answer, err
	})
}

// operate does what a unary call asks for, in time. do returns the result to pack, if the outcome is success.
func (s *Server) operate(ctx context.Context, params *Ydb_Operations.OperationParams,
	do func(context.Context) (proto.Message, outcome.Outcome, error)) (*Ydb_Operations.Operation, error) {
	ctx, cancel := s.inTime(ctx)
	defer cancel()
	ctx, cancelParams := withOperationParams(ctx, params)
	defer cancelParams()
	result, answer, err := do(ctx)
	if err != nil {
		if answer, err = unfinished(ctx, err); err != nil {
			return nil, err
		}
	}
	return operation(answer, result)
}

// database is the x-ydb-database header of a request, as text: paths that are resolved by it are stored and sent.
func database(ctx context.Context) (value string, sent bool) {
	if values := metadata.ValueFromIncomingContext(ctx, "x-ydb-database"); len(values) > 0 {
		return strings.ToValidUTF8(unquote(values[0]), "\uFFFD"), true
	}
	return "", false
}

// operationIn is the operation in an answer of YDB's services, if it is of the kind that has one.
func operationIn(answer any) (operation *Ydb_Operations.Operation, is bool) {
	with, is := answer.(interface {
		GetOperation() *Ydb_Operations.Operation
	})
	if !is {
		return nil, false
	}
	return with.GetOperation(), true
}
