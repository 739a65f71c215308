package calls

import (
	"context"
	"errors"
	"net/url"
	"runtime"
	"strings"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/wire"
)

// Operation is the answer to a unary call: always ready, because SDKs do not poll (surface.md §1.3). result
// may be nil.
func Operation(answer outcome.Outcome, result proto.Message) (*Ydb_Operations.Operation, error) {
	op := &Ydb_Operations.Operation{Ready: true, Status: Ydb.StatusIds_StatusCode(answer.Status),
		Issues: wire.Issues(answer.Issues)}
	if result != nil && answer.OK() {
		Packed, is := result.(*anypb.Any)
		if !is {
			var err error
			if Packed, err = anypb.New(result); err != nil {
				return nil, status.Error(codes.Internal, err.Error())
			}
		}
		op.Result = Packed
	}
	return op, nil
}

// FewAtOnce bounds goroutines whose work is long in computing, so that other work goes on beside it.
func FewAtOnce() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// Packed is a result that may be long in the making and take much memory meanwhile, ready for Operation. Few
// are made at a time: who asks for many at once takes neither the processor nor the memory from others.
// Errors: that of ctx.
func (r *Runner) Packed(ctx context.Context, answer outcome.Outcome,
	result func() proto.Message) (proto.Message, outcome.Outcome, error) {
	if !r.Packing.Acquire(ctx, 1) {
		if errors.Is(context.Cause(ctx), ErrPatience) {
			return nil, outcome.Because(outcome.Overloaded, "Too many requests at once, try again"), nil
		}
		return nil, answer, ctx.Err()
	}
	defer r.Packing.Release(1)
	ready, err := anypb.New(result())
	if err != nil {
		return nil, answer, status.Error(codes.Internal, err.Error())
	}
	return ready, answer, nil
}

// Command runs a command about the path tree on behalf of a unary call, unless the check of its request has failed:
// then checked is the answer.
func (r *Runner) Command(ctx context.Context, params *Ydb_Operations.OperationParams, checked outcome.Outcome,
	build func(coordination.CallID) coordination.Command) (*Ydb_Operations.Operation, error) {
	if !checked.OK() {
		return Operation(checked, nil)
	}
	return r.Operate(ctx, params, func(ctx context.Context) (proto.Message, outcome.Outcome, error) {
		answer, err := r.Execute(ctx, build)
		return nil, answer, err
	})
}

// Operate does what a unary call asks for, in time. do returns the result to pack, if the outcome is success.
func (r *Runner) Operate(ctx context.Context, params *Ydb_Operations.OperationParams,
	do func(context.Context) (proto.Message, outcome.Outcome, error)) (*Ydb_Operations.Operation, error) {
	ctx, cancel := r.InTime(ctx)
	defer cancel()
	ctx, cancelParams := withOperationParams(ctx, params)
	defer cancelParams()
	result, answer, err := do(ctx)
	if err != nil {
		if answer, err = Unfinished(ctx, err); err != nil {
			return nil, err
		}
	}
	return Operation(answer, result)
}

// Database is the x-ydb-Database header of a request, as text: paths that are resolved by it are stored and sent.
func Database(ctx context.Context) (value string, sent bool) {
	if values := metadata.ValueFromIncomingContext(ctx, "x-ydb-Database"); len(values) > 0 {
		return strings.ToValidUTF8(unquote(values[0]), "\uFFFD"), true
	}
	return "", false
}

// OperationIn is the operation in an answer of YDB's services, if it is of the kind that has one.
func OperationIn(answer any) (operation *Ydb_Operations.Operation, is bool) {
	with, is := answer.(interface {
		GetOperation() *Ydb_Operations.Operation
	})
	if !is {
		return nil, false
	}
	return with.GetOperation(), true
}

// unquote undoes the percent-encoding that the C++ SDK gives to a database name; other SDKs send names as
// they are.
func unquote(value string) string {
	if plain, err := url.PathUnescape(value); err == nil {
		return plain
	}
	return value
}
