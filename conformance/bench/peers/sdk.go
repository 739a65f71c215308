package main

import (
	"context"
	"errors"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"

	"github.com/coordd/coordd/conformance/load"
)

// sdkClient is coordd through its Go SDK.
var sdkClient = &client{locks: sdkLocks, watch: sdkWatch, group: sdkGroup}

// sdkSessions opens sessions on drivers that they share.
func sdkSessions(ctx context.Context, address string, n int) ([]coordination.Session, func(), error) {
	drivers := make([]*ydb.Driver, min(n, connections))
	sessions := make([]coordination.Session, n)
	end := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = load.Together(sessions, func(_ int, s coordination.Session) error {
			if s == nil {
				return nil
			}
			return s.Close(ctx)
		})
		for _, d := range drivers {
			if d != nil {
				_ = d.Close(ctx)
			}
		}
	}
	err := load.Together(drivers, func(first int, _ *ydb.Driver) error {
		d, err := ydb.Open(ctx, "grpc://"+address+"/local")
		if err != nil {
			return err
		}
		drivers[first] = d
		for i := first; i < n; i += len(drivers) {
			if sessions[i], err = d.Coordination().Session(ctx, nodePath,
				options.WithSessionTimeout(busySession)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		end()
		return nil, nil, err
	}
	return sessions, end, nil
}

// sdkSession holds one lock at a time.
type sdkSession struct {
	ctx     context.Context
	session coordination.Session
	lease   coordination.Lease
}

// Acquire implements load.Session.
func (s *sdkSession) Acquire(name string, count uint64) error {
	lease, err := s.session.AcquireSemaphore(s.ctx, name, count)
	s.lease = lease
	return err
}

// Release implements load.Session.
func (s *sdkSession) Release(string) error { return s.lease.Release() }

func sdkLocks(ctx context.Context, address string, kind load.Kind, n int) ([]load.Session, func(), error) {
	sessions, end, err := sdkSessions(ctx, address, n)
	if err != nil {
		return nil, nil, err
	}
	for i, name := range kind.Semaphores("", n) {
		if err := sessions[i].CreateSemaphore(ctx, name, 1); err != nil {
			end()
			return nil, nil, err
		}
	}
	all := make([]load.Session, n)
	for i, s := range sessions {
		all[i] = &sdkSession{ctx: ctx, session: s}
	}
	return all, end, nil
}

func sdkWatch(ctx context.Context, address string, n int) (*watching, error) {
	sessions, end, err := sdkSessions(ctx, address, n+1)
	if err != nil {
		return nil, err
	}
	const name = "watched"
	writer := sessions[n]
	if err := writer.CreateSemaphore(ctx, name, 1); err != nil {
		end()
		return nil, err
	}
	heard := make([]chan options.SemaphoreWatchEvent, n)
	for i := range heard {
		heard[i] = make(chan options.SemaphoreWatchEvent, 1)
	}
	return &watching{
		arm: func(i int) error {
			_, err := sessions[i].DescribeSemaphore(ctx, name,
				options.WithSemaphoreWatch(options.WatchData,
					func(e options.SemaphoreWatchEvent) { heard[i] <- e }))
			return err
		},
		heard: func(i int) error {
			select {
			case e := <-heard[i]:
				if e.Lost {
					return errors.New("the watch was lost")
				}
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		write: func(int) error {
			return writer.UpdateSemaphore(ctx, name, options.WithUpdateData([]byte(time.Now().String())))
		},
		close: end,
	}, nil
}

// sdkGroup lists through the SDK; the members are sessions on bare streams, since only the lists are
// measured.
func sdkGroup(ctx context.Context, address string, members, listers int) (*listing, error) {
	endMembers, err := rawMembers(ctx, address, groupName, members)
	if err != nil {
		return nil, err
	}
	sessions, end, err := sdkSessions(ctx, address, listers)
	if err != nil {
		endMembers()
		return nil, err
	}
	return &listing{
		list: func(i int) (int, error) {
			d, err := sessions[i].DescribeSemaphore(ctx, groupName, options.WithDescribeOwners(true))
			if err != nil {
				return 0, err
			}
			return len(d.Owners), nil
		},
		close: func() { end(); endMembers() },
	}, nil
}
