package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/protocol"
)

// SessionConfig configures a session.
type SessionConfig struct {
	// Timeout is the time after which the session ends without its client, up to 30 min; 0: 10 s. After it a lease of a
	// dead client is granted to the next one. A partition that is shorter loses nothing.
	Timeout time.Duration
	// Description is shown to operators, up to 1,024 bytes.
	Description string
}

const timeoutDefault = 10 * time.Second

// Open starts a session of the node with an absolute path. It repeats what servers refuse for the moment until ctx
// ends, and then returns the refusal.
func (c *Client) Open(ctx context.Context, node string, config SessionConfig) (*Session, error) {
	s, err := c.protocol.Open(ctx, config.of(node))
	if err != nil {
		return nil, exported(err)
	}
	return newSession(c, node, s), nil
}

func (c SessionConfig) of(node string) protocol.SessionConfig {
	if c.Timeout == 0 {
		c.Timeout = timeoutDefault
	}
	return protocol.SessionConfig{Node: node, Timeout: c.Timeout, Description: c.Description}
}

// Session is a session of a coordination node. All methods may be called by several goroutines at a time.
type Session struct {
	client   *Client
	node     string
	protocol *protocol.Session
	done     chan struct{}
	life     context.Context // of what goes on without a caller
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu     sync.Mutex
	err    error             // why done is closed
	claims map[string]*claim // by the name of the semaphore
}

// claim is a semaphore that the session waits for, holds, or gives back.
type claim struct {
	lease *Lease        // nil: it waits, or gives back
	free  chan struct{} // nil until it is given back, and closed then
}

func newSession(c *Client, node string, p *protocol.Session) *Session {
	s := &Session{client: c, node: node, protocol: p, done: make(chan struct{}), claims: make(map[string]*claim)}
	s.life, s.stop = context.WithCancel(context.Background())
	s.running.Go(s.guard)
	return s
}

// lookPause bounds the pause between two looks at the time that is left: timers stand still while a machine sleeps.
const lookPause = 50 * time.Millisecond

// guard ends the session when it must no longer be believed.
func (s *Session) guard() {
	for left := s.protocol.Left(); left > 0; left = s.protocol.Left() {
		look := time.NewTimer(min(left, lookPause))
		select {
		case <-look.C:
		case <-s.protocol.Lost():
		case <-s.life.Done():
			return
		}
	}
	s.end(cmp.Or(s.protocol.Err(), fmt.Errorf("%w: %w", ErrLost, ErrUnanswered)))
	s.protocol.Abandon() // else it would be kept alive for nobody once servers answer again
}

// end ends the session for its callers, and all leases. It reports whether it had not ended before.
func (s *Session) end(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false
	}
	s.err = exported(err)
	close(s.done)
	for _, c := range s.claims {
		if c.lease != nil {
			c.lease.end(s.err)
		}
	}
	return true
}

// ID returns the session's number within its node, as operators see it.
func (s *Session) ID() uint64 { return s.protocol.ID() }

// Done is closed when the session has ended, or must no longer be believed. All its leases end with it.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why Done is closed, nil before that: ErrClosed, or an error that wraps ErrLost.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the session and all its leases, which go to the next waiters. If no server confirms it before ctx ends,
// they do so after the session's timeout, and the result is an error.
func (s *Session) Close(ctx context.Context) error {
	if !s.end(ErrClosed) && !errors.Is(s.Err(), ErrClosed) {
		s.stop()
		s.running.Wait()
		return s.Err()
	}
	err := s.protocol.Close(ctx)
	s.stop()
	s.running.Wait()
	return exported(err)
}

// Option is a setting of one wait for a lease.
type Option struct{ set func(*protocol.Acquisition) }

// Wait bounds the time in the queue, up to 24 h; without it only the context does. ErrTaken is returned after it.
// With 0 the call does not wait.
func Wait(d time.Duration) Option {
	return Option{func(a *protocol.Acquisition) { a.Wait = max(d, 0) }}
}

// Data is shown to other clients with the lease, up to 1 MiB.
func Data(data []byte) Option { return Option{func(a *protocol.Acquisition) { a.Data = data }} }

// Lock waits for an exclusive lock and returns its lease. The lock is an ephemeral semaphore, which exists while a
// session holds it or waits. `coordd lock NODE NAME` takes the same one.
func (s *Session) Lock(ctx context.Context, name string, options ...Option) (*Lease, error) {
	return s.acquire(ctx, protocol.Acquisition{Name: name, Count: math.MaxUint64, Ephemeral: true}, options)
}

// acquire returns the lease of a semaphore, after everything that an earlier one of the same name has left to do.
func (s *Session) acquire(ctx context.Context, what protocol.Acquisition, options []Option) (*Lease, error) {
	what.Wait = protocol.Forever
	for _, option := range options {
		option.set(&what)
	}
	c, err := s.claim(ctx, what.Name)
	if err != nil {
		return nil, err
	}
	acquired, err := s.protocol.Acquire(ctx, what)
	l := &Lease{session: s, name: what.Name, claim: c, done: make(chan struct{})}
	if acquired {
		l.grant, err = s.protocol.Confirm(ctx, what.Name, func(err error) { l.end(exported(err)); s.drop(l) })
	}
	var refused *protocol.Refused
	switch {
	case err == nil && acquired:
		if err := s.grant(l); err != nil {
			return nil, err
		}
		return l, nil
	case err == nil:
		err = ErrTaken
		fallthrough
	case !acquired && (errors.As(err, &refused) || errors.Is(err, ErrBusy)): // it is not in the queue
		s.unclaim(what.Name, c)
	default: // it may be there, or come to be
		s.giveBack(what.Name, c)
	}
	return nil, cmp.Or(s.Err(), exported(err))
}

// grant makes a lease one of the session's, unless either has ended: then it returns why.
func (s *Session) grant(l *Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.claim.lease = l
	if s.err != nil {
		l.end(s.err)
	}
	err := l.Err()
	if err != nil {
		s.free(l)
	}
	return err
}

// drop frees the name of a lease that was taken away.
func (s *Session) drop(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.claim.lease == l {
		s.free(l)
	}
}

func (s *Session) free(l *Lease) {
	l.claim.lease = nil
	delete(s.claims, l.name)
}

// claim makes the session the user of a name. It waits for the end of a release.
func (s *Session) claim(ctx context.Context, name string) (*claim, error) {
	for {
		s.mu.Lock()
		before, err := s.claims[name], s.err
		if before == nil && err == nil {
			c := &claim{}
			s.claims[name] = c
			s.mu.Unlock()
			return c, nil
		}
		var free chan struct{}
		if before != nil {
			free = before.free
		}
		s.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case free == nil:
			return nil, fmt.Errorf("%q: %w", name, ErrHeld)
		}
		select {
		case <-free:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *Session) unclaim(name string, c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.claims, name)
	if c.free != nil {
		close(c.free)
	}
}

// giveBack releases a semaphore, or the place in its queue, however long that takes. The result is sent once.
func (s *Session) giveBack(name string, c *claim) <-chan error {
	result := make(chan error, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.lease, c.free = nil, make(chan struct{})
	if s.err != nil { // which ends what it holds
		result <- s.err
		return result
	}
	s.running.Go(func() {
		var err error
		for {
			if _, err = s.protocol.Release(s.life, name); !errors.Is(err, ErrBusy) {
				break
			}
			time.Sleep(lookPause) // until a request was answered, or the session has ended
		}
		if err = exported(err); errors.Is(err, ErrNotFound) { // it has ended with its semaphore
			err = nil
		}
		s.unclaim(name, c)
		result <- err
	})
	return result
}

// Lease is a lock, a share of a pool or an office that a session holds. All methods may be called by several goroutines
// at a time.
type Lease struct {
	session *Session
	name    string
	claim   *claim
	grant   *protocol.Grant
	done    chan struct{}

	mu  sync.Mutex
	err error // why done is closed
}

// Token returns the fencing token, the order id of the grant. Send it with every write, and let the resource refuse
// those with a smaller one than it has seen: a later holder of an exclusive lock has a larger one, until the node is
// dropped and created anew.
func (l *Lease) Token() uint64 { return l.grant.Order }

// Done is closed when the lease has ended, or must no longer be believed: stop what it guards then.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err returns why Done is closed, nil before that: ErrReleased, ErrClosed, ErrTakenAway, or an error that wraps
// ErrLost.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Left returns for how long the lease is certain to last if no server answers any more, 0 or less when it may have
// ended. Something that takes longer may end after another holder has begun.
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

// Release gives the lease back, also for the second time. If ctx ends before a server confirms it, the release goes
// on in the background until the session ends, and the result is the context's error. A lease that was lost before
// returns why: others may have had it.
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
