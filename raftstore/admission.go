package raftstore

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/peers"
)

// certifies reports whether a certificate is that of the host of a member.
func certifies(list *membership.List, certificate *x509.Certificate) bool {
	return certificate != nil && slices.ContainsFunc(list.Conf.Members, func(m membership.Record) bool {
		return list.Admits(m.ID) && peers.MadeFor(certificate, m.Peer)
	})
}

// admission decides which senders are admitted: by what this member's own log has, and by what it has learnt from other
// members by asking.
type admission struct {
	s    *Store
	list atomic.Pointer[membership.List]
	open atomic.Bool // it has asked: what members say reaches raft
	bell turn.Bell   // it is to ask
	// concluded counts how often it has asked to an end.
	concluded atomic.Uint64

	mu     sync.Mutex
	own    membership.Conf
	learnt datadir.Learnt
	asking bool
	why    string // it is not open

	// patience ends the time in which a first start waits for every server's answer; nil: it is over. The goroutine
	// that asks has it.
	patience <-chan time.Time

	saving  chan struct{}     // capacity 1: held while admissionFile is written
	vouched map[uint64]uint64 // see vouch; the holder of saving changes it
	heard   map[uint64]uint64 // see hear; mu guards it

	// Of the holder of the turn:
	ledAt     int    // the last tick with a leader that was heard
	doubted   uint64 // the sender that doubt is about; 0: no sender
	doubtedAt uint64 // concluded at that time
}

func newAdmission(s *Store, own membership.Conf, learnt datadir.Learnt) *admission {
	a := &admission{s: s, bell: turn.NewBell(), own: own, learnt: learnt, saving: make(chan struct{}, 1),
		vouched: map[uint64]uint64{}, heard: map[uint64]uint64{}}
	a.choose()
	return a
}

// choose makes the list that counts. The caller holds the lock, or nobody else knows a yet.
func (a *admission) choose() {
	a.list.Store(membership.NewList(a.own, a.learnt.Conf, a.learnt.Incarnations))
}

// follow takes over the membership of this member's own log.
func (a *admission) follow(conf membership.Conf) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.own = conf
	a.choose()
}

// learn takes over a list of other members. If it changes the senders that are admitted it is made durable first: a
// member that has learnt of a removal must not forget it before its log has it.
func (a *admission) learn(conf membership.Conf, lineage uint64) error {
	a.saving <- struct{}{}
	defer func() { <-a.saving }()
	return a.change(func(t *datadir.Learnt) { t.Conf, t.Lineage = conf, lineage },
		conf.AdmitsOthersThan(a.list.Load().Conf))
}

// change changes what this member has learnt, on disk first if that is wanted. The caller holds saving.
func (a *admission) change(do func(t *datadir.Learnt), durably bool) error {
	a.mu.Lock()
	t := a.learnt
	a.mu.Unlock()
	do(&t)
	if durably {
		if err := a.s.dir.SaveLearnt(t); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.learnt = t
	a.choose()
	return nil
}

// begin has it ask, if it is not about to.
func (a *admission) begin() {
	a.mu.Lock()
	a.asking = true
	a.mu.Unlock()
	a.bell.Ring()
}

// shutUnlessAnswered keeps raft from hearing anybody until the asking under way has come to an end.
func (a *admission) shutUnlessAnswered() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asking {
		a.open.Store(false)
	}
}

// conclude lets raft hear members.
func (a *admission) conclude() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asking, a.why = false, ""
	a.open.Store(true)
	a.concluded.Add(1)
}

func (a *admission) explain(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why = why
}

// KeptOut reports whether this member takes part in nothing for now: it has to ask other members first for the
// members of the cluster. why is known once too few of those that it knows turn out to answer, for people. If
// all of them have been replaced, Cluster.Join with the address of a present member mends it.
func (s *Store) KeptOut() (out bool, why string) {
	a := s.admission
	if a == nil || a.open.Load() {
		return false, ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return true, a.why
}

// watchAdmission makes a member without a leader ask for the members of the cluster: it may have missed a removal.
// From the moment at which it has been without one for long it hears nobody until it has been answered.
// Asking begins earlier, so that where members answer nothing is lost.
func (l *loop) watchAdmission() {
	a := l.s.admission
	if a == nil {
		return
	}
	heard, ok := l.heard[l.leader]
	if l.leading || l.leader != raft.None && ok && l.ticks-heard <= electionTicks {
		a.ledAt = l.ticks
		return
	}
	switch silent := l.ticks - a.ledAt; {
	case silent%leaderlessTicks == leaderlessTicks/2:
		a.begin()
	case silent == leaderlessTicks:
		a.shutUnlessAnswered()
	}
}

// forgetOutsiders forgets what former members have sent.
func (l *loop) forgetOutsiders() {
	gone := func(id uint64) bool { return !l.s.admission.list.Load().Admits(id) }
	maps.DeleteFunc(l.heard, func(id uint64, _ int) bool { return gone(id) })
	maps.DeleteFunc(l.headers, func(id uint64, _ *peerpb.Header) bool { return gone(id) })
}

// doubt deals with a leader that counts on more than this member has: either this member's directory was
// emptied, or the sender was removed and lies. So members are asked first; if the sender is one nevertheless,
// this member ends.
func (l *loop) doubt(from uint64) {
	a := l.s.admission
	if a.doubted != from {
		a.doubted, a.doubtedAt = from, a.concluded.Load()
	}
	if a.concluded.Load() > a.doubtedAt {
		l.s.inbox.fail(ErrEmptied)
		return
	}
	a.begin()
}

var errUnknownHere = status.Error(codes.Unavailable,
	"the server that was called does not know the caller as a member yet, and asks others")

var errNotAsked = status.Error(codes.Unavailable, "the server that was called has yet to ask who is a member")

// identify finds the member that a header names: it has to be one by the list, and by its certificate.
func (a *admission) identify(id uint64, certificate *x509.Certificate) (*membership.Record, error) {
	list := a.list.Load()
	if !list.Admits(id) {
		a.begin()
		if list.IsRemoved(id) {
			return nil, ErrRemoved
		}
		return nil, errUnknownHere
	}
	m := list.Conf.Member(id)
	if a.s.cfg.Cluster.TLS == nil {
		return m, nil
	}
	if m == nil { // nothing is known but the id: the record follows with another entry
		a.begin()
		return nil, errUnknownHere
	}
	if certificate == nil || !peers.MadeFor(certificate, m.Peer) {
		return nil, fmt.Errorf("%w: it is not made for the host of %s, where %s is", errCertificate, m.Peer,
			list.Conf.NameOf(id))
	}
	return m, nil
}

// stillWelcome refuses a sender that has ceased to be a member after its stream was accepted.
func (a *admission) stillWelcome(id uint64) error {
	switch list := a.list.Load(); {
	case list.Admits(id):
		return nil
	case list.IsRemoved(id):
		return ErrRemoved
	}
	return errUnknownHere
}
