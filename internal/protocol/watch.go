package protocol

import (
	"context"
	"errors"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"google.golang.org/protobuf/proto"
)

// absentPause is the pause between two looks without a watch: a semaphore that does not exist cannot be watched.
const absentPause = time.Second

// watcher remembers the last report.
type watcher struct {
	name   string
	wanted Wanted
	tell   func(*Description) error
	told   bool
	last   *Description // the last report, nil: no such semaphore
}

// Watch calls its last argument with a semaphore as it is now, and again whenever a wanted part differs; with nil where
// it does not exist. It has one session after the other. It returns with that function's first error, when ctx ends,
// and if no session can be opened for reasons that do not pass.
//
// Notices say only that it is time to look: they come once, may come without a change, and are gone with a
// stream. After a notice the watcher describes the semaphore anew and arms the next notice in the same request, so it
// misses only states that last for less than a look.
func (c *Client) Watch(ctx context.Context, config SessionConfig, name string, wanted Wanted,
	tell func(*Description) error) error {
	w := &watcher{name: name, wanted: wanted, tell: tell}
	for first := true; ; first = false {
		s, err := c.Open(ctx, config)
		if err == nil {
			err = w.watch(ctx, s)
			parting, cancel := context.WithTimeout(context.Background(), partMost)
			_ = s.Close(parting) // it ends by itself otherwise
			cancel()
			if !errors.Is(err, ErrLost) {
				return err
			}
		} else if refused := StatusOf(err); ctx.Err() != nil || first || refused == Ydb.StatusIds_NOT_FOUND ||
			refused == Ydb.StatusIds_UNAUTHORIZED {
			return err
		}
		select {
		case <-time.After(absentPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// partMost bounds how long the end of a session may keep a watcher.
const partMost = 2 * time.Second

func (w *watcher) watch(ctx context.Context, s *Session) error {
	for {
		d, changed, err := s.Describe(ctx, w.name, w.wanted)
		if StatusOf(err) == Ydb.StatusIds_NOT_FOUND {
			d, changed, err = nil, nil, nil
		}
		if err != nil {
			return err
		}
		if seen := within(d, w.wanted); !w.told || !proto.Equal(seen, w.last) {
			if err := w.tell(d); err != nil {
				return err
			}
			w.told, w.last = true, seen
		}
		if err := s.changes(ctx, changed); err != nil {
			return err
		}
	}
}

// changes waits until a watch has fired, nil: until it is time to look without one. It returns an error when ctx ends.
// A session that is lost has no watches, and the next look fails.
func (s *Session) changes(ctx context.Context, changed <-chan struct{}) error {
	var absent <-chan time.Time
	if changed == nil { // there is nothing to watch, or no server that watches
		absent = time.After(absentPause)
	}
	select {
	case <-changed:
	case <-absent:
	case <-s.lost:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// within returns the watched part of a semaphore: nothing else may make a difference.
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
