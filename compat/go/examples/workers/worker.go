package main

import (
	"context"
	"fmt"

	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
)

// serve publishes the endpoint, waits to be elected and leads until ctx ends.
//
// What a session holds ends with it, after the session timeout, so a worker that crashes needs nobody to
// clean up. One that leaves on purpose releases what it holds (closing the session is not enough) and is gone
// at once.
func serve(ctx context.Context, session coordination.Session, endpoint string) error {
	// Others see the data of an owner.
	published := options.WithAcquireData([]byte(endpoint))

	membership, err := session.AcquireSemaphore(ctx, members, 1, published)
	if err != nil {
		return fmt.Errorf("publish %s: %w", endpoint, err)
	}
	defer func() { _ = membership.Release() }()
	fmt.Printf("%s works\n", endpoint)

	// This waits until all earlier candidates are gone. A worker would do its ordinary work meanwhile.
	leadership, err := session.AcquireSemaphore(ctx, leader, 1, published)
	if err != nil {
		return fmt.Errorf("stand for election as %s: %w", endpoint, err)
	}
	defer func() { _ = leadership.Release() }()
	fmt.Printf("%s leads\n", endpoint)

	<-ctx.Done()
	return ctx.Err()
}
