package protocol

import (
	"cmp"
	"context"
	"errors"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
)

// Grant is a semaphore that a session has acquired.
type Grant struct {
	Order uint64 // the order id, which is larger for each later holder of an exclusive lock: the fencing token
	end   context.CancelFunc
	over  chan struct{}
}

// ErrTakenAway is the error of a session that has a semaphore no longer although it did not release it.
var ErrTakenAway = errors.New("it was taken away: the semaphore was deleted, or its session lives no longer")

// Confirm reads the order id of a semaphore that the session has acquired, and watches it from then on: servers do not
// notify the owners of a semaphore that is deleted by force. lost is called at most once, when the session has the
// semaphore no longer or is itself lost. No other watch of the semaphore may be in use in this session.
func (s *Session) Confirm(ctx context.Context, name string, lost func(error)) (*Grant, error) {
	order, changed, err := s.holds(ctx, name)
	if err != nil {
		return nil, err
	}
	watching, end := context.WithCancel(context.Background())
	g := &Grant{Order: order, end: end, over: make(chan struct{})}
	go func() {
		defer close(g.over)
		for {
			if err := s.changes(watching, changed); err != nil {
				return
			}
			var again uint64
			switch again, changed, err = s.holds(watching, name); {
			case watching.Err() != nil:
				return
			case errors.Is(err, ErrBusy): // it looks again after a pause
			case err != nil || again != order:
				lost(cmp.Or(err, ErrTakenAway))
				return
			}
		}
	}()
	return g, nil
}

// Forget ends the watch, and returns when no call of lost is under way.
func (g *Grant) Forget() {
	g.end()
	<-g.over
}

// holds returns the order id with which the session has a semaphore, and what its next change closes. Watches of data
// notice a deletion too, and do not fire whenever another owner comes or goes.
func (s *Session) holds(ctx context.Context, name string) (order uint64, changed <-chan struct{}, err error) {
	d, changed, err := s.Describe(ctx, name, Wanted{Owners: true, WatchData: true})
	if StatusOf(err) == Ydb.StatusIds_NOT_FOUND {
		return 0, nil, ErrTakenAway
	}
	for _, owner := range d.GetOwners() {
		if owner.GetSessionId() == s.ID() {
			return owner.GetOrderId(), changed, err
		}
	}
	if err == nil {
		err = ErrTakenAway
	}
	return 0, nil, err
}
