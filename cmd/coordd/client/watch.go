package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
)

// absentPause is the pause between two looks for a semaphore that does not exist, which nobody can watch.
const absentPause = time.Second

// Watch calls tell with a semaphore as it is now, and again whenever it differs in what is wanted; nil where it does not
// exist. It returns with tell's first error, when ctx ends, or when the session is lost.
//
// Notices say only that it is time to look: they come once, may come without a change, and are gone with a stream.
// Whoever is told of a change has described the semaphore anew, with the next notice asked for in the same request, so that
// nothing is missed but what was there for a shorter time than a look takes.
func (s *Session) Watch(ctx context.Context, name string, wanted Wanted, tell func(*Description) error) error {
	var last *Description
	for first := true; ; first = false {
		d, changed, err := s.Describe(ctx, name, wanted)
		if StatusOf(err) == Ydb.StatusIds_NOT_FOUND {
			d, changed, err = nil, nil, nil
		}
		if err != nil {
			return err
		}
		if seen := within(d, wanted); first || !proto.Equal(seen, last) {
			if err := tell(d); err != nil {
				return err
			}
			last = seen
		}
		var absent <-chan time.Time
		if d == nil {
			absent = time.After(absentPause)
		}
		select {
		case <-changed:
		case <-absent:
		case <-s.lost:
			return s.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// within is what of a semaphore is watched: nothing else may make a difference.
func within(d *Description, wanted Wanted) *Description {
	if d == nil {
		return nil
	}
	seen := &Description{Name: d.GetName(), Limit: d.GetLimit(), Ephemeral: d.GetEphemeral()}
	if wanted.WatchData {
		seen.Data = d.GetData()
	}
	if wanted.WatchOwners {
		seen.Owners, seen.Count = d.GetOwners(), d.GetCount()
	}
	return seen
}
