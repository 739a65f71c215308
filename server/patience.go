package server

import (
	"cmp"
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/status"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/group"
)

// Every unary call is answered within the least of callPatience, its operation_timeout, its cancel_after, and
// its caller's deadline. This file is these bounds, and what a call is answered that came to the end of one.

const (
	// callPatience bounds a call.
	callPatience = 10 * time.Second
	// answerMargin is how long before its caller's deadline a call is answered at the latest, so that the
	// caller learns the reason.
	answerMargin = 200 * time.Millisecond
)

var (
	errPatience         = errors.New("not answered within the time that a call may take")
	errOperationTimeout = errors.New("operation timeout")
	errCancelAfter      = errors.New("cancelled after the time asked for")
)

// The answers to calls whose time ran out.
var (
	unavailable = outcome.Because(outcome.Unavailable, "No leader: try again")
	late        = outcome.Because(outcome.Unavailable,
		"The server did not come to the call in time: it was not executed, try again")
	unanswered = outcome.Because(outcome.Unavailable,
		"The call did not end in time: it may have been executed")
)

func (s *Server) patience() time.Duration { return cmp.Or(s.config.hooks.Patience, callPatience) }

// inTime bounds a call by callPatience and by its caller's deadline.
func (s *Server) inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	patience := s.patience()
	if deadline, bounded := ctx.Deadline(); bounded {
		patience = min(patience, beforeDeadline(deadline))
	}
	return context.WithTimeoutCause(ctx, patience, errPatience)
}

// asLongAsAsked is inTime for a call that asks to be kept waiting: only a caller without a deadline is not
// waited for longer than callPatience.
func (s *Server) asLongAsAsked(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return s.inTime(ctx)
	}
	return context.WithTimeoutCause(ctx, beforeDeadline(deadline), errPatience)
}

// beforeDeadline is how long from now a call with this deadline may go on.
func beforeDeadline(deadline time.Time) time.Duration {
	left := time.Until(deadline)
	return left - min(answerMargin, left/4)
}

// withOperationParams bounds ctx by operation_timeout and cancel_after.
func withOperationParams(ctx context.Context, params *Ydb_Operations.OperationParams) (context.Context,
	context.CancelFunc) {
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

// unfinished is the answer to a call that nobody answered in time: an outcome, or a gRPC error where its
// caller ended it.
func unfinished(ctx context.Context, err error) (outcome.Outcome, error) {
	switch cause := context.Cause(ctx); {
	case errors.Is(err, group.ErrStopped):
		return outcome.Because(outcome.Unavailable, group.ErrStopped.Error()), nil
	case errors.Is(err, group.ErrNoLeader) && (errors.Is(cause, errPatience) ||
		errors.Is(cause, errOperationTimeout)):
		return unavailable, nil
	case errors.Is(cause, errPatience):
		return outcome.Because(outcome.Unavailable, "Not answered in time: try again"), nil
	case errors.Is(cause, errOperationTimeout):
		return outcome.Because(outcome.Timeout, "Operation timeout"), nil
	case errors.Is(cause, errCancelAfter):
		return outcome.Because(outcome.Cancelled, "Operation cancelled"), nil
	default:
		return outcome.Outcome{}, status.FromContextError(err).Err()
	}
}

// execute runs a command on the leader, wherever it is. ctx comes from inTime. Errors: group.ErrStopped, that
// of ctx if its end means something else than UNAVAILABLE.
func (s *Server) execute(ctx context.Context,
	build func(coordination.CallID) coordination.Command) (outcome.Outcome, error) {
	answer, err := s.group.Execute(ctx, build)
	if err != nil {
		return unexecuted(ctx, err)
	}
	return answer, nil
}

// unexecuted is the answer to a command whose outcome nobody told: an outcome, or err where that says more.
func unexecuted(ctx context.Context, err error) (outcome.Outcome, error) {
	cause := context.Cause(ctx)
	waited := errors.Is(cause, errPatience) || errors.Is(cause, errOperationTimeout)
	switch {
	case errors.Is(err, group.ErrNoLeader) && waited:
		return unavailable, nil
	case errors.Is(err, group.ErrUnknown) && waited:
		return coordination.CallUnknown, nil
	case errors.Is(err, group.ErrNotAsked) && errors.Is(cause, errPatience):
		return late, nil
	case errors.Is(err, ctx.Err()) && errors.Is(cause, errPatience): // a leader has it
		return unanswered, nil
	}
	return outcome.Outcome{}, err
}
