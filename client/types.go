package client

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/coordd/coordd/internal/protocol"
)

// RWLock is a lock that many readers or one writer hold. The queue is in order: readers that come later do not
// overtake a waiting writer.
type RWLock struct {
	session *Session
	name    string
}

// RWLock returns the read/write lock of a name. Session.Lock of the same name is its writer.
func (s *Session) RWLock(name string) RWLock { return RWLock{s, name} }

// Lock waits until no other session holds it.
func (l RWLock) Lock(ctx context.Context, options ...Option) (*Lease, error) {
	return l.session.Lock(ctx, l.name, options...)
}

// RLock waits until no writer holds it or has come before.
func (l RWLock) RLock(ctx context.Context, options ...Option) (*Lease, error) {
	return l.session.acquire(ctx, protocol.Acquisition{Name: l.name, Count: 1, Ephemeral: true}, options)
}

// Pool is a number of places that sessions share.
type Pool struct {
	session *Session
	name    string
	size    uint64
}

// Pool returns the pool of a name, and creates it if it does not exist. One of another size is an error.
func (s *Session) Pool(ctx context.Context, name string, size uint64) (*Pool, error) {
	err := s.protocol.Create(ctx, name, size, nil)
	if errors.Is(err, ErrInterrupted) { // it may have been created
		err = s.protocol.Create(ctx, name, size, nil)
	}
	if errors.Is(exported(err), ErrAlreadyExists) {
		d, _, looked := s.protocol.Describe(ctx, name, protocol.Wanted{})
		if err = looked; err == nil && d.GetLimit() != size {
			return nil, fmt.Errorf("pool %q has %d places, not %d", name, d.GetLimit(), size)
		}
	}
	if err != nil {
		return nil, exported(err)
	}
	return &Pool{s, name, size}, nil
}

// Take waits for places. A session has one lease of a pool at a time: programs that need several take as many places
// with one, or open more sessions.
func (p *Pool) Take(ctx context.Context, places uint64, options ...Option) (*Lease, error) {
	if places == 0 || places > p.size {
		return nil, fmt.Errorf("pool %q: %d places are not allowed: want a number from 1 to %d", p.name, places, p.size)
	}
	return p.session.acquire(ctx, protocol.Acquisition{Name: p.name, Count: places}, options)
}

// Election is an office that one session has at a time, with data that the others see.
type Election struct {
	session *Session
	name    string
}

// Election returns the election of a name.
func (s *Session) Election(name string) Election { return Election{s, name} }

// Campaign waits until the session is elected. data, such as its address, is shown to the others; it has up to 1 MiB.
func (e Election) Campaign(ctx context.Context, data []byte, options ...Option) (*Lease, error) {
	return e.session.Lock(ctx, e.name, append([]Option{Data(data)}, options...)...)
}

// Leader is an elected session.
type Leader struct {
	Session uint64
	Token   uint64 // the fencing token of its lease
	Data    []byte
}

// Leader returns the present leader, nil while no session leads.
func (e Election) Leader(ctx context.Context) (*Leader, error) {
	d, _, err := e.session.protocol.Describe(ctx, e.name, protocol.Wanted{Owners: true})
	if err = exported(err); errors.Is(err, ErrNotFound) {
		err = nil
	}
	return leaderOf(d), err
}

// Observe calls seen with the present leader, and again whenever that is another one, with nil while no session leads.
// It returns the first error of seen, or when ctx ends. It has a session of its own, which is replaced when it is lost.
// A leader that is elected and gone within one look is not seen.
func (e Election) Observe(ctx context.Context, seen func(*Leader) error) error {
	wanted := protocol.Wanted{Owners: true, WatchOwners: true}
	return exported(e.session.client.protocol.Watch(ctx, SessionConfig{}.of(e.session.node), e.name, wanted,
		func(d *protocol.Description) error { return seen(leaderOf(d)) }))
}

func leaderOf(d *protocol.Description) *Leader {
	for _, owner := range d.GetOwners() {
		if owner.GetCount() == math.MaxUint64 { // not a reader of a lock of the same name
			return &Leader{owner.GetSessionId(), owner.GetOrderId(), owner.GetData()}
		}
	}
	return nil
}
