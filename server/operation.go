package server

import (
	"context"
	"errors"
	"time"

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

// withOperationParams bounds ctx by operation_timeout and cancel_after. It returns the status that stands for the
// bound that ran out, should one do so.
func withOperationParams(ctx context.Context, params *Ydb_Operations.OperationParams) (context.Context, context.CancelFunc) {
	bounded := func(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
		if d <= 0 {
			return ctx, func() {}
		}
		return context.WithTimeoutCause(ctx, d, cause)
	}
	ctx, cancelTimeout := bounded(ctx, params.GetOperationTimeout().AsDuration(), errOperationTimeout)
	ctx, cancelAfter := bounded(ctx, params.GetCancelAfter().AsDuration(), errCancelAfter)
	return ctx, func() { cancelAfter(); cancelTimeout() }
}

var (
	errOperationTimeout = errors.New("operation timeout")
	errCancelAfter      = errors.New("cancelled after the time asked for")
)

// unfinished is the answer to a call that the group did not answer: an outcome, or a gRPC error where the client's own
// deadline ended it.
func unfinished(ctx context.Context, err error) (scheme.Outcome, error) {
	switch cause := context.Cause(ctx); {
	case errors.Is(err, errStopped):
		return refuse(scheme.Unavailable, errStopped.Error()), nil
	case errors.Is(cause, errOperationTimeout):
		return refuse(scheme.Timeout, "Operation timeout"), nil
	case errors.Is(cause, errCancelAfter):
		return refuse(scheme.Cancelled, "Operation cancelled"), nil
	default:
		return scheme.Outcome{}, status.FromContextError(err).Err()
	}
}

func refuse(s scheme.Status, text string) scheme.Outcome {
	return scheme.Refuse(s, scheme.Issue{Severity: scheme.SeverityError, Message: text})
}

// command runs a command about the path tree on behalf of a unary call.
func (s *Server) command(ctx context.Context, params *Ydb_Operations.OperationParams,
	build func(coordination.Call) coordination.Command) (*Ydb_Operations.Operation, error) {
	ctx, cancel := withOperationParams(ctx, params)
	defer cancel()
	patience := leaderPatience
	if params.GetOperationTimeout().AsDuration() > 0 {
		patience = 0 // the client says how long
	}
	outcome, err := s.executeWithin(ctx, patience, build)
	if err != nil {
		if outcome, err = unfinished(ctx, err); err != nil {
			return nil, err
		}
	}
	return operation(outcome, nil)
}

// query reads the machine on behalf of a unary call. read returns the result to pack, if the outcome is success.
func (s *Server) query(ctx context.Context, params *Ydb_Operations.OperationParams,
	read func(*coordination.Machine) (proto.Message, scheme.Outcome)) (*Ydb_Operations.Operation, error) {
	return s.queryWith(s.read, ctx, params, read)
}

// machineReader runs a function on the machine: group.read at once, Server.read once it is up to date.
type machineReader func(context.Context, func(*coordination.Machine) scheme.Outcome) (scheme.Outcome, error)

func (s *Server) queryWith(reader machineReader, ctx context.Context, params *Ydb_Operations.OperationParams,
	read func(*coordination.Machine) (proto.Message, scheme.Outcome)) (*Ydb_Operations.Operation, error) {
	ctx, cancel := withOperationParams(ctx, params)
	defer cancel()
	results := make(chan proto.Message, 1)
	outcome, err := reader(ctx, func(m *coordination.Machine) scheme.Outcome {
		result, outcome := read(m)
		results <- result
		return outcome
	})
	if err != nil {
		if outcome, err = unfinished(ctx, err); err != nil {
			return nil, err
		}
		return operation(outcome, nil)
	}
	return operation(outcome, <-results)
}

// database is the x-ydb-database header of a request.
func database(ctx context.Context) (value string, sent bool) {
	if values := metadata.ValueFromIncomingContext(ctx, "x-ydb-database"); len(values) > 0 {
		return unquote(values[0]), true
	}
	return "", false
}
