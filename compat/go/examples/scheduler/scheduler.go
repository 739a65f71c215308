// Package scheduler has one of several processes run jobs. They elect a leader, which runs the jobs until it
// loses its lead, and then another one does.
//
//	s := scheduler.Scheduler{Name: hostname, Jobs: jobs, Tick: time.Tick(time.Minute), Sessions: sessions.Keeper{...}}
//	err := s.Run(ctx)
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"

	"github.com/coordd/coordd/compat/go/examples/sessions"
)

// leader is the lock that the leader holds.
const leader = "leader"

// Job is something to be done at each tick.
type Job struct {
	Name string
	// Run does it. Its context ends with the lead, which a process that stood still for a while learns too
	// late: so whatever Run changes should remember the largest token that it has seen, and refuse smaller
	// ones. Each leader has a larger one.
	Run func(ctx context.Context, token uint64) error
}

// Scheduler is one of the processes.
type Scheduler struct {
	Name     string // others see the leader's as the data of the lock
	Jobs     []Job
	Tick     <-chan time.Time
	Sessions sessions.Keeper // all of them on one node
}

// Run stands for election, leads and stands again, until ctx ends. It also ends with sessions.ErrNoNode:
// tokens begin anew with a node, so the program that replaces a node has to deal with the traces of the old tokens.
func (s *Scheduler) Run(ctx context.Context) error { return s.Sessions.Keep(ctx, s.stand) }

// stand waits to be elected and leads.
func (s *Scheduler) stand(ctx context.Context, session coordination.Session) error {
	lease, err := session.AcquireSemaphore(ctx, leader, coordination.Exclusive,
		options.WithEphemeral(true), options.WithAcquireData([]byte(s.Name)))
	if err != nil {
		sessions.Settle(ctx, session, leader) // or a scheduler that has left is elected
		return fmt.Errorf("stand for election: %w", err)
	}
	defer func() { _ = lease.Release() }() // where this fails, the session is gone and the lock with it

	held, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	token, err := tokenOf(held, session)
	if err != nil {
		return err
	}
	go guard(held, session, token, stop)
	return s.lead(held, session, token)
}

// lead runs the jobs at each tick.
func (s *Scheduler) lead(ctx context.Context, session coordination.Session, token uint64) error {
	for {
		select {
		case <-s.Tick:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for _, job := range s.Jobs {
			// The context ends up to a session timeout after the lead is lost. The server knows at once.
			if err := confirm(ctx, session, token); err != nil {
				return err
			}
			if err := job.Run(ctx, token); err != nil {
				slog.Warn("job failed", "job", job.Name, "token", token, "error", err)
			}
		}
	}
}

// guard ends the context of a job that runs when its scheduler does not lead any more. It also hears what the
// session does not: that somebody has deleted the lock by force.
func guard(ctx context.Context, session coordination.Session, token uint64, stop context.CancelCauseFunc) {
	for {
		changed := make(chan struct{})
		err := confirm(ctx, session, token,
			options.WithSemaphoreWatch(options.WatchOwners,
				func(options.SemaphoreWatchEvent) { close(changed) }))
		if err != nil {
			stop(err)
			return
		}
		select {
		case <-changed: // or not, as when the stream broke: ask again
		case <-ctx.Done():
			return
		}
	}
}

var errDeposed = errors.New("somebody else leads, or nobody")

// confirm asks the server whether the session still leads as it did when it got the token.
func confirm(
	ctx context.Context, session coordination.Session, token uint64, watch ...options.DescribeSemaphoreOption,
) error {
	now, err := tokenOf(ctx, session, watch...)
	if err == nil && now != token {
		err = errDeposed
	}
	return err
}

// tokenOf is the order id under which the session has the lock.
func tokenOf(
	ctx context.Context, session coordination.Session, watch ...options.DescribeSemaphoreOption,
) (uint64, error) {
	description, err := session.DescribeSemaphore(ctx, leader,
		append(watch, options.WithDescribeOwners(true))...)
	if err != nil {
		return 0, fmt.Errorf("who leads: %w", err)
	}
	for _, owner := range description.Owners { // none where the server refused: the SDK reports no error
		if owner.SessionID == session.SessionID() {
			return owner.OrderID, nil
		}
	}
	return 0, errDeposed
}
