package calls

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/budget"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/group/streams"
)

// This file bounds unary calls, and maps the end of each bound to an answer.

const (
	// Patience bounds a call.
	Patience = 10 * time.Second
	// answerMargin is the latest time before its caller's deadline at which a call is answered, so that the caller
	// learns the reason.
	answerMargin = 200 * time.Millisecond
)

var (
	ErrPatience         = errors.New("not answered within the time that a call may take")
	ErrOperationTimeout = errors.New("operation timeout")
	ErrCancelAfter      = errors.New("cancelled after the time asked for")
)

// The answers to calls whose time ran out.
var (
	unavailable = outcome.Because(outcome.Unavailable, "No leader: try again")
	late        = outcome.Because(outcome.Unavailable,
		"The server did not come to the call in time: it was not executed, try again")
	unanswered = outcome.Because(outcome.Unavailable,
		"The call did not end in time: it may have been executed")
)

// Runner executes unary calls on the group, within their bounds. All its fields are set before the first call.
type Runner struct {
	Group *group.Group
	// Patience bounds a call, in place of the constant; 0: the constant.
	Patience time.Duration
	// Enforced reports whether rights count for callers without a token too.
	Enforced bool
	// Packing bounds the results that are made at a time, see Packed.
	Packing *budget.Budget
}

// Longest returns the bound of a call.
func (r *Runner) Longest() time.Duration { return cmp.Or(r.Patience, Patience) }

// InTime bounds a call by Patience and by its caller's deadline.
func (r *Runner) InTime(ctx context.Context) (context.Context, context.CancelFunc) {
	patience := r.Longest()
	if deadline, bounded := ctx.Deadline(); bounded {
		patience = min(patience, beforeDeadline(deadline))
	}
	return context.WithTimeoutCause(ctx, patience, ErrPatience)
}

// AsLongAsAsked is InTime for a call that asks to be kept waiting: only a caller without a deadline is not
// waited for longer than Patience.
func (r *Runner) AsLongAsAsked(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return r.InTime(ctx)
	}
	return context.WithTimeoutCause(ctx, beforeDeadline(deadline), ErrPatience)
}

// beforeDeadline returns how long from now a call with this deadline may go on.
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
	ctx, cancelTimeout := bounded(ctx, params.GetOperationTimeout().AsDuration(), ErrOperationTimeout)
	ctx, cancelAfter := bounded(ctx, params.GetCancelAfter().AsDuration(), ErrCancelAfter)
	return ctx, func() { cancelAfter(); cancelTimeout() }
}

// Unfinished is the answer to a call that nobody answered in time: an outcome, or a gRPC error where its
// caller ended it.
func Unfinished(ctx context.Context, err error) (outcome.Outcome, error) {
	switch cause := context.Cause(ctx); {
	case errors.Is(err, streams.ErrStopped):
		return outcome.Because(outcome.Unavailable, streams.ErrStopped.Error()), nil
	case errors.Is(err, group.ErrNoLeader) && (errors.Is(cause, ErrPatience) ||
		errors.Is(cause, ErrOperationTimeout)):
		return unavailable, nil
	case errors.Is(cause, ErrPatience):
		return outcome.Because(outcome.Unavailable, "Not answered in time: try again"), nil
	case errors.Is(cause, ErrOperationTimeout):
		return outcome.Because(outcome.Timeout, "Operation timeout"), nil
	case errors.Is(cause, ErrCancelAfter):
		return outcome.Because(outcome.Cancelled, "Operation cancelled"), nil
	default:
		return outcome.Outcome{}, status.FromContextError(err).Err()
	}
}

// Execute runs a command on the leader, wherever it is. ctx comes from InTime. Errors: group.ErrStopped, that
// of ctx if its end means something else than UNAVAILABLE.
func (r *Runner) Execute(ctx context.Context,
	build func(coordination.CallID) coordination.Command) (outcome.Outcome, error) {
	answer, err := r.Group.Execute(ctx, build)
	if err != nil {
		return unexecuted(ctx, err)
	}
	return answer, nil
}

// unexecuted is the answer to a command whose outcome is unknown: an outcome, or err where that has more to say.
func unexecuted(ctx context.Context, err error) (outcome.Outcome, error) {
	cause := context.Cause(ctx)
	waited := errors.Is(cause, ErrPatience) || errors.Is(cause, ErrOperationTimeout)
	switch {
	case errors.Is(err, group.ErrNoLeader) && waited:
		return unavailable, nil
	case errors.Is(err, group.ErrUnknown) && waited:
		return coordination.CallUnknown, nil
	case errors.Is(err, group.ErrNotAsked) && errors.Is(cause, ErrPatience):
		return late, nil
	case errors.Is(err, ctx.Err()) && errors.Is(cause, ErrPatience): // a leader has it
		return unanswered, nil
	}
	return outcome.Outcome{}, err
}
