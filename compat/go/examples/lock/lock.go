package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
)

// sessionOptions are the times a holder lives by. When its process dies or its network is cut, the server
// gives the lock to the next one after the session timeout. The SDK notices a silent connection only after
// the keep-alive timeout; its default (10 s) is longer than the default session timeout (5 s), so set both
// and keep it the shorter of the two, but longer than a third of the session timeout, the server's ping
// period.
var sessionOptions = []options.SessionOption{
	options.WithSessionTimeout(6 * time.Second),
	options.WithSessionKeepAliveTimeout(4 * time.Second),
}

// withLock waits for the lock called name, runs work while it is held, and gives it back.
//
// The context handed to work ends when ctx does and also when the lock is lost, so work must stop then. Its
// token is larger than that of every earlier holder: hand it to whatever work changes, see account.
//
// A lock belongs to a session, not to a goroutine: goroutines that must exclude each other need a session
// each.
func withLock(
	ctx context.Context, session coordination.Session, name string,
	work func(ctx context.Context, token uint64) error,
) error {
	lease, err := session.AcquireSemaphore(ctx, name, coordination.Exclusive, options.WithEphemeral(true))
	if err != nil {
		return fmt.Errorf("acquire %s: %w", name, err)
	}
	// Release fails only when the session is gone, and then the lock is gone with it.
	defer func() { _ = lease.Release() }()

	held, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(lease.Context(), stop)()

	token, err := fencingToken(held, session, name)
	if err != nil {
		return fmt.Errorf("fencing token of %s: %w", name, err)
	}
	return work(held, token)
}

// fencingToken returns the order id under which session holds the lock called name. The server numbers all
// requests for locks of one coordination node upwards and grants an exclusive lock in that order. Numbering
// starts again if the node is dropped and created anew.
func fencingToken(ctx context.Context, session coordination.Session, name string) (uint64, error) {
	description, err := session.DescribeSemaphore(ctx, name, options.WithDescribeOwners(true))
	if err != nil {
		return 0, err
	}
	for _, owner := range description.Owners {
		if owner.SessionID == session.SessionID() {
			return owner.OrderID, nil
		}
	}
	return 0, fmt.Errorf("session %d does not hold the lock any more", session.SessionID())
}
