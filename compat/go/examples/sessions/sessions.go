// Package sessions keeps a program attached to a coordination node, with one session after another. The
// scheduler and the registry beside it are built on it.
package sessions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
)

// Keeper opens sessions.
type Keeper struct {
	DB *ydb.Driver
	// Node is the path of the coordination node; with Create it is made if it is missing.
	Node   string
	Create bool
	// Timeout is the time for which a session's semaphores stay its own after the program has died or lost its network.
	Timeout time.Duration
}

var (
	// ErrNoNode is the end of Keep: there is no such coordination node, and Create does not say that it be
	// made.
	ErrNoNode = errors.New("no such coordination node")

	errLost = errors.New("session lost")
)

const (
	// openPatience is for one try: the SDK would try without end, also on a session that it has given up
	// already, and wait for a server that waits for others.
	openPatience = 2 * time.Second
	// pause is between two sessions.
	pause = 50 * time.Millisecond
	// settlePatience is for a server that does not answer.
	settlePatience = time.Second
)

// Keep calls use with a session, and with a new one whenever use returns. The context of use ends with the
// session: with everything that it held. Keep returns when ctx ends, or with ErrNoNode.
func (k *Keeper) Keep(ctx context.Context, use func(context.Context, coordination.Session) error) error {
	for {
		err := k.with(ctx, use)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, ErrNoNode) {
			return err
		}
		slog.Warn("session given up", "node", k.Node, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (k *Keeper) with(ctx context.Context, use func(context.Context, coordination.Session) error) error {
	opening, opened := context.WithTimeout(ctx, openPatience)
	defer opened()
	if err := k.want(opening); err != nil {
		return err
	}
	session, err := k.DB.Coordination().Session(opening, k.Node,
		options.WithSessionTimeout(k.Timeout),
		// The shorter one, or a program with a silent connection believes in its session after the server has
		// ended it.
		options.WithSessionKeepAliveTimeout(k.Timeout*2/3),
	)
	if err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	defer session.Close(context.WithoutCancel(ctx))
	// Who leaves gives back what he holds, and waits for that without end where there is no network.
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(settlePatience, func() { _ = session.Close(context.WithoutCancel(ctx)) })
	})()

	alive, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(session.Context(), func() { stop(errLost) })()
	err = use(alive, session)
	if errors.Is(context.Cause(alive), errLost) {
		return errLost
	}
	return err
}

// want wants the node to be there: a session on one that is not would be tried again and again.
func (k *Keeper) want(ctx context.Context) error {
	if k.Create {
		return k.DB.Coordination().CreateNode(ctx, k.Node, coordination.NodeConfig{}) // no error where it is
	}
	_, _, err := k.DB.Coordination().DescribeNode(ctx, k.Node)
	if ydb.IsOperationErrorSchemeError(err) {
		return fmt.Errorf("%w: %s", ErrNoNode, k.Node)
	}
	return err
}

// Settle is for an AcquireSemaphore that was cancelled. The SDK takes such a wait back behind its caller's
// back, and would not have the time if the session were closed: which may get what it waited for, as long as
// it has not timed out. The server answers in order, so an answer to a later question shows that it is done. Settle
// waits for that, but not for long.
func Settle(ctx context.Context, session coordination.Session, semaphore string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settlePatience)
	defer cancel()
	defer context.AfterFunc(session.Context(), cancel)()
	_, _ = session.DescribeSemaphore(ctx, semaphore)
}
