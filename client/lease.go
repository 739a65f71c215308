package client

import (
	"context"
	"errors"
	"sync"
	"time"

	protocol "github.com/coordd/coordd/internal/client"
)

// Lease is what a session holds: a lock, a share of a pool, an office. All methods may be called by several goroutines at a
// time.
type Lease struct {
	session *Session
	name    string
	claim   *claim
	grant   *protocol.Grant
	done    chan struct{}

	mu  sync.Mutex
	err error // why done is closed
}

// Token returns the fencing token, the order id of the grant. Send it with every write, and let the resource refuse those
// with a smaller one than it has seen: a later holder of an exclusive lock has a larger one, until the node is dropped and
// created anew.
func (l *Lease) Token() uint64 { return l.grant.Order }

// Done is closed when the lease has ended, or must no longer be believed: stop what it guards then.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err returns why Done is closed, nil before that: ErrReleased, ErrClosed, ErrTakenAway, or an error that wraps ErrLost.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Left returns for how long the lease is certain to last if no server answers any more, 0 or less when it may have ended.
// Something that takes longer may end after another holder has begun.
func (l *Lease) Left() time.Duration {
	if l.Err() != nil {
		return 0
	}
	return l.session.protocol.Left()
}

func (l *Lease) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.done)
	}
}

// Release gives the lease back, also for the second time. If ctx ends before a server confirms it, the release goes on in the
// background until the session ends, and the result is the context's error. A lease that was lost before returns why: others
// may have had it.
func (l *Lease) Release(ctx context.Context) error {
	l.end(ErrReleased)
	l.session.mu.Lock()
	held := l.claim.lease == l
	l.claim.lease = nil
	l.session.mu.Unlock()
	if !held {
		return l.unlessReleased(nil)
	}
	l.grant.Forget()
	select {
	case err := <-l.session.giveBack(l.name, l.claim):
		return l.unlessReleased(err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unlessReleased returns why the lease was lost, or else err.
func (l *Lease) unlessReleased(err error) error {
	if ended := l.Err(); !errors.Is(ended, ErrReleased) {
		return ended
	}
	return err
}
