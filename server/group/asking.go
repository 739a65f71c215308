package group

import (
	"context"
	"errors"
	"time"

	"github.com/coordd/coordd/server/group/streams"
)

// leaderRetry is how long whoever wants something of the leader waits before asking again without having
// heard of a change: the leader may still be there, or be one that this server's streams do not follow yet.
const leaderRetry = 100 * time.Millisecond

// Asked is how an attempt to ask the leader ended.
type Asked int

const (
	// Answered says that there is nothing more to ask, whatever the answer is.
	Answered Asked = iota
	// NotLed says that no leader was asked: nothing was done, and nothing will be because of this attempt.
	NotLed
	// LeaderGone says that the leader went away: nobody knows what becomes of what it was asked.
	LeaderGone
)

// The ends of asking for which ctx left no time. They are those of ctx, too.
var (
	// ErrNoLeader says that no leader was asked, and that none will be.
	ErrNoLeader = errors.New("there is no leader to ask")
	// ErrNotAsked says that the call was not put to the leader, and will not be.
	ErrNotAsked = errors.New("the server did not come to the call")
	// ErrUnknown says that a leader was asked and went, and that nobody knows what becomes of it.
	ErrUnknown = errors.New("the leader went away during the call")
)

// unasked is the error of ctx for what no leader had when it ended; why says more.
type unasked struct {
	error
	why error
}

// Unwrap gives both errors.
func (e *unasked) Unwrap() []error { return []error{e.error, e.why} }

// AskLeader makes attempts until one is Answered. After each of the others it waits until there may be
// another leader, or leaderRetry. An attempt is told whether an earlier one may have been carried out:
// LeaderGone was its end. ctx bounds the waiting; attempts see to their own ends. Errors: ErrStopped, that of
// ctx, which is ErrNoLeader or ErrUnknown as well.
func (g *Group) AskLeader(ctx context.Context, attempt func(repeated bool) Asked) error {
	repeated := false
	for {
		news := g.uplink.AwaitNews() // before the look at who leads, so that nothing is missed
		switch attempt(repeated) {
		case Answered:
			return nil
		case LeaderGone:
			repeated = true
		}
		if ctx.Err() != nil {
			return withoutLeader(ctx, repeated)
		}
		select {
		case <-news:
		case <-time.After(leaderRetry):
		case <-g.over:
			return streams.ErrStopped
		case <-ctx.Done():
			return withoutLeader(ctx, repeated)
		}
	}
}

// withoutLeader is the end of what no leader had when ctx ended.
func withoutLeader(ctx context.Context, repeated bool) error {
	if repeated {
		return &unasked{ctx.Err(), ErrUnknown}
	}
	return &unasked{ctx.Err(), ErrNoLeader}
}
