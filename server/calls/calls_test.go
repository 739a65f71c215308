package calls

import (
	"context"
	"errors"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/group"
)

// TestEndOfACall has calls run out of time, with all that they may know then.
func TestEndOfACall(t *testing.T) {
	for _, test := range []struct {
		cause error
		ended error // besides the context: nil if a leader had it at the end
		want  string
	}{
		{ErrPatience, group.ErrNoLeader, unavailable.String()},
		{ErrPatience, group.ErrUnknown, coordination.CallUnknown.String()},
		{ErrPatience, group.ErrNotAsked, late.String()},
		{ErrPatience, nil, unanswered.String()},
		{ErrOperationTimeout, group.ErrNoLeader, unavailable.String()},
		{ErrOperationTimeout, group.ErrUnknown, coordination.CallUnknown.String()},
		{ErrOperationTimeout, group.ErrNotAsked, "context canceled"},
		{ErrOperationTimeout, nil, "context canceled"},
		{ErrCancelAfter, group.ErrNoLeader, "context canceled"},
		{nil, group.ErrUnknown, "context canceled"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(test.cause)
		answer, err := unexecuted(ctx, errors.Join(test.ended, ctx.Err()))
		got := answer.String()
		if errors.Is(err, context.Canceled) {
			got = context.Canceled.Error()
		}
		if got != test.want {
			t.Errorf("%v, %v: got %s, want %s", test.cause, test.ended, got, test.want)
		}
	}
	if unavailable.Status != outcome.Unavailable || coordination.CallUnknown.Status != outcome.Unavailable {
		t.Error("not UNAVAILABLE")
	}
}
