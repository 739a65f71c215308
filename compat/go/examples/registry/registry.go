// Package registry has services say where they can be reached, and others hear of it. A service that dies
// needs nobody to clean up: it is gone with its session.
package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"

	"github.com/coordd/coordd/compat/go/examples/sessions"
)

// Registry is a coordination node with a semaphore for each service, whose owners are where it can be
// reached.
type Registry struct {
	Sessions sessions.Keeper // with Create
}

// Announce publishes that a service can be reached at an endpoint, until ctx ends.
func (r *Registry) Announce(ctx context.Context, service, endpoint string) error {
	return r.keep(ctx, service, func(ctx context.Context, session coordination.Session) error {
		lease, err := session.AcquireSemaphore(ctx, service, 1, options.WithAcquireData([]byte(endpoint)))
		if err != nil {
			sessions.Settle(ctx, session, service)
			return fmt.Errorf("announce %s: %w", service, err)
		}
		// Closing the session is not enough to be gone at once.
		defer func() { _ = lease.Release() }()
		for {
			owners, changed, err := look(ctx, session, service)
			if err != nil {
				return err
			}
			// A node that was dropped and made anew numbers its sessions from the start, so the number may be
			// somebody else's.
			ours := func(o *coordination.SemaphoreSession) bool {
				return o.SessionID == session.SessionID() && string(o.Data) == endpoint
			}
			if !slices.ContainsFunc(owners, ours) {
				return errStruckOff
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

var errStruckOff = errors.New("the service is not in the registry any more")

// Watch calls seen with the endpoints of a service, sorted and each once: first as they are, then whenever
// they have changed, until ctx ends. While the network is down seen is not called, and what it saw last may
// be out of date.
func (r *Registry) Watch(ctx context.Context, service string, seen func(endpoints []string)) error {
	var last []string
	first := true
	return r.keep(ctx, service, func(ctx context.Context, session coordination.Session) error {
		for {
			owners, changed, err := look(ctx, session, service)
			if err != nil {
				return err
			}
			endpoints := make([]string, 0, len(owners))
			for _, owner := range owners {
				endpoints = append(endpoints, string(owner.Data))
			}
			// One that has lost its session and has another is there twice until the first one has timed out.
			slices.Sort(endpoints)
			endpoints = slices.Compact(endpoints)
			if first || !slices.Equal(endpoints, last) {
				first, last = false, endpoints
				seen(slices.Clone(endpoints))
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// keep is sessions.Keeper.Keep, with a semaphore for the service.
func (r *Registry) keep(ctx context.Context, service string,
	use func(context.Context, coordination.Session) error) error {
	return r.Sessions.Keep(ctx, func(ctx context.Context, session coordination.Session) error {
		// No error if it exists, and none where the server refused: look finds out.
		if err := session.CreateSemaphore(ctx, service, coordination.MaxSemaphoreLimit); err != nil {
			return fmt.Errorf("create %s: %w", service, err)
		}
		return use(ctx, session)
	})
}

// look returns the owners of a service's semaphore, and a channel that is closed when they may have changed.
// That may be a false alarm, as when the stream broke: look again.
func look(
	ctx context.Context, session coordination.Session, service string,
) (owners []*coordination.SemaphoreSession, changed <-chan struct{}, err error) {
	alarm := make(chan struct{})
	description, err := session.DescribeSemaphore(ctx, service, options.WithDescribeOwners(true),
		options.WithSemaphoreWatch(options.WatchOwners, func(options.SemaphoreWatchEvent) { close(alarm) }))
	if err != nil {
		return nil, nil, fmt.Errorf("look at %s: %w", service, err)
	}
	if description.Name != service { // refused: the SDK reports no error, and there is no watch
		return nil, nil, fmt.Errorf("look at %s: refused", service)
	}
	return description.Owners, alarm, nil
}
