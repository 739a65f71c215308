package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
)

// watchWorkers prints the leader and the workers now and after every change, until ctx ends.
func watchWorkers(ctx context.Context, session coordination.Session) error {
	membersChanged, leaderChanged := closedChannel(), closedChannel()
	var workers, leaders []string
	for {
		var err error
		select {
		case <-membersChanged:
			workers, membersChanged, err = lookAt(ctx, session, members)
		case <-leaderChanged:
			leaders, leaderChanged, err = lookAt(ctx, session, leader)
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		fmt.Printf("leader [%s] workers [%s]\n", strings.Join(leaders, " "), strings.Join(workers, " "))
	}
}

// lookAt returns the data of all owners of a semaphore and a channel that is closed as soon as the owners may
// have changed. The change may have been a false alarm, for instance when the connection broke: look again.
func lookAt(
	ctx context.Context, session coordination.Session, name string,
) (owners []string, changed <-chan struct{}, err error) {
	alarm := make(chan struct{})
	description, err := session.DescribeSemaphore(ctx, name,
		options.WithDescribeOwners(true),
		options.WithSemaphoreWatch(options.WatchOwners, func(options.SemaphoreWatchEvent) { close(alarm) }),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", name, err)
	}
	for _, owner := range description.Owners {
		owners = append(owners, string(owner.Data))
	}
	slices.Sort(owners)
	return owners, alarm, nil
}

// closedChannel makes the first look happen at once.
func closedChannel() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
