package main

import (
	"context"
	"errors"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"

	"github.com/coordd/coordd/internal/load"
)

// sdkClient is coordd through its Go SDK.
var sdkClient = &client{locks: sdkLocks, watch: sdkWatch, list: sdkList}

// sdkSessions opens sessions on drivers that they share.
func sdkSessions(t *turn, address string, n int) ([]coordination.Session, error) {
	drivers := make([]*ydb.Driver, min(n, connections))
	sessions := make([]coordination.Session, n)
	t.later(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t), 5*time.Second)
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
	})
	for i := range drivers {
		var err error
		if drivers[i], err = ydb.Open(t, "grpc://"+address+"/local"); err != nil {
			return nil, err
		}
	}
	return sessions, spread(drivers, n, func(d *ydb.Driver, i int) (err error) {
		sessions[i], err = d.Coordination().Session(t, nodePath, options.WithSessionTimeout(busySession))
		return err
	})
}

// sdkSession holds one lock at a time.
type sdkSession struct {
	ctx     context.Context
	session coordination.Session
	lease   coordination.Lease
}

// Acquire implements locker.
func (s *sdkSession) Acquire(name string, count uint64) error {
	lease, err := s.session.AcquireSemaphore(s.ctx, name, count)
	s.lease = lease
	return err
}

// Release implements locker.
func (s *sdkSession) Release(string) error { return s.lease.Release() }

func sdkLocks(t *turn, address string, handOver bool, n int) ([]locker, error) {
	sessions, err := sdkSessions(t, address, n)
	if err != nil {
		return nil, err
	}
	for i := range n {
		if err := sessions[i].CreateSemaphore(t, lockName(handOver, i), 1); err != nil {
			return nil, err
		}
	}
	all := make([]locker, n)
	for i, s := range sessions {
		all[i] = &sdkSession{ctx: t, session: s}
	}
	return all, nil
}

func sdkWatch(t *turn, address string, n int) (*watching, error) {
	sessions, err := sdkSessions(t, address, n+1)
	if err != nil {
		return nil, err
	}
	const name = "watched"
	writer := sessions[n]
	heard := make([]chan options.SemaphoreWatchEvent, n)
	for i := range heard {
		heard[i] = make(chan options.SemaphoreWatchEvent, 1)
	}
	return &watching{
		arm: func(i int) error {
			_, err := sessions[i].DescribeSemaphore(t, name, options.WithSemaphoreWatch(options.WatchData,
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
			case <-t.Done():
				return t.Err()
			}
		},
		write: func() error {
			return writer.UpdateSemaphore(t, name, options.WithUpdateData([]byte(time.Now().String())))
		},
	}, writer.CreateSemaphore(t, name, 1)
}

// sdkList lists through the SDK; the members are sessions on bare streams, since only the lists are measured.
func sdkList(t *turn, address string, members, listers int) (func(int) (int, error), error) {
	if err := rawMembers(t, address, members); err != nil {
		return nil, err
	}
	sessions, err := sdkSessions(t, address, listers)
	return func(i int) (int, error) {
		d, err := sessions[i].DescribeSemaphore(t, groupName, options.WithDescribeOwners(true))
		if err != nil {
			return 0, err
		}
		return len(d.Owners), nil
	}, err
}
