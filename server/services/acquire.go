package services

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/group/limiter"
)

// AcquireResource is ratelimiter.md §6.
func (s Limiter) AcquireResource(ctx context.Context,
	r *Ydb_RateLimiter.AcquireResourceRequest) (*Ydb_RateLimiter.AcquireResourceResponse, error) {
	answer, err := s.acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	op, err := calls.Operation(answer, nil)
	return &Ydb_RateLimiter.AcquireResourceResponse{Operation: op}, err
}

var (
	noUnitsAskedFor = outcome.Because(outcome.BadRequest, "Neither required nor used units are given.")
	tooManyWait     = outcome.Because(outcome.Overloaded, "Too many requests wait for units.")
)

func (s Limiter) acquire(ctx context.Context,
	r *Ydb_RateLimiter.AcquireResourceRequest) (outcome.Outcome, error) {
	path := r.GetCoordinationNodePath()
	answer := checkPaths(ctx, r, r.GetResourcePath())
	switch {
	case !answer.OK():
		return answer, nil
	case r.GetUnits() == nil:
		return noUnitsAskedFor, nil
	case !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.Contains(path, "//"):
		return outcome.Refuse(outcome.InternalError), nil
	case r.GetResourcePath() == "":
		return outcome.Refuse(outcome.BadRequest), nil
	}
	limit := limitOf(r.GetOperationParams())
	a := limiter.Acquisition{Caller: s.Caller(ctx), Path: scheme.SplitLoose(path), Node: path,
		Resource: r.GetResourcePath(), Amount: r.GetRequired(), Limit: limit.after}
	if used, is := r.GetUnits().(*Ydb_RateLimiter.AcquireResourceRequest_Used); is {
		a.Amount, a.Used = used.Used, true
	}
	look := ctx
	refused, err := s.Group.Limiter().Acquire(ctx, func() (context.Context, context.CancelFunc) {
		patient, cancel := s.InTime(ctx)
		if look = patient; limit.after == 0 {
			return look, cancel
		}
		limited, cancelLimit := context.WithTimeoutCause(patient, limit.after, limit.cause)
		look = limited
		return look, func() { cancelLimit(); cancel() }
	}, a)
	switch {
	case err == nil:
		return refused, nil
	case errors.Is(err, limiter.ErrNoResource):
		return outcome.Refuse(outcome.BadRequest), nil
	case errors.Is(err, limiter.ErrNoUnits):
		return outcome.Refuse(limit.status), nil
	case errors.Is(err, limiter.ErrTooManyWait):
		return tooManyWait, nil
	case ctx.Err() != nil:
		return outcome.Outcome{}, status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, context.DeadlineExceeded) && !s.Group.Led():
		// its time was over before it came to asking the leader
		err = group.ErrNoLeader
	}
	return calls.Unfinished(look, err)
}

// limit is the longest wait of an acquire, and its result at the end of that.
type limit struct {
	after  time.Duration
	status outcome.Status
	cause  error
}

// limitOf is operation_timeout, or cancel_after if that is shorter. Without operation_timeout nothing is
// waited for.
func limitOf(params *Ydb_Operations.OperationParams) limit {
	millis := func(d time.Duration) time.Duration {
		const up = time.Millisecond - 1
		return max(0, min(d, maxAcquireLimit)+up).Truncate(time.Millisecond)
	}
	timeout, cancelAfter := millis(params.GetOperationTimeout().AsDuration()),
		millis(params.GetCancelAfter().AsDuration())
	if cancelAfter > 0 && cancelAfter < timeout {
		return limit{cancelAfter, outcome.Cancelled, calls.ErrCancelAfter}
	}
	return limit{timeout, outcome.Timeout, calls.ErrOperationTimeout}
}

// maxAcquireLimit bounds the wait of an acquire, whatever its parameters are.
const maxAcquireLimit = 24 * time.Hour
