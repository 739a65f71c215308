package roster

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peers"
)

// Config has what a roster needs to know of its member. Its functions are called from any goroutine, with the roster's
// lock held at most by Fresh.
type Config struct {
	Self    datadir.Identity
	Address string     // where other members reach this one
	Join    []string   // addresses of servers that the operator has named
	TLS     *peers.TLS // unless it is nil, a sender has to have the certificate of a member
	Network peers.Network
	Logger  *slog.Logger

	Fresh   func() bool // there never was an entry
	Lineage func() uint64
	// Save makes what was learnt durable.
	Save func(datadir.Learnt) error
	// Fail ends the member.
	Fail func(error)
}

// Roster decides which senders are admitted: by what this member's own log has, and by what it has learnt from other
// members by asking. Any goroutine may call its methods.
type Roster struct {
	cfg  Config
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

	asker sync.WaitGroup
	end   context.CancelFunc // of what asks

	saving  chan struct{}     // capacity 1: held while the file is written
	vouched map[uint64]uint64 // see Vouch; the holder of saving changes it
}

// New returns the roster of a member with the membership of its log, and with what it had learnt in an earlier run.
func New(cfg Config, own membership.Conf, learnt datadir.Learnt) *Roster {
	r := &Roster{cfg: cfg, bell: turn.NewBell(), own: own, learnt: learnt, saving: make(chan struct{}, 1),
		vouched: map[uint64]uint64{}}
	r.choose()
	return r
}

// choose makes the list that counts. The caller holds the lock, or nobody else knows r yet.
func (r *Roster) choose() {
	r.list.Store(membership.NewList(r.own, r.learnt.Conf, r.learnt.Incarnations))
}

// List returns the list that counts.
func (r *Roster) List() *membership.List { return r.list.Load() }

// Follow takes over the membership of this member's own log.
func (r *Roster) Follow(conf membership.Conf) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own = conf
	r.choose()
}

// Learn takes over a list of other members. If it changes the senders that are admitted it is made durable first: a
// member that has learnt of a removal must not forget it before its log has it.
func (r *Roster) Learn(conf membership.Conf, lineage uint64) error {
	r.saving <- struct{}{}
	defer func() { <-r.saving }()
	return r.change(func(t *datadir.Learnt) { t.Conf, t.Lineage = conf, lineage },
		conf.AdmitsOthersThan(r.List().Conf))
}

// change changes what this member has learnt, on disk first if that is wanted. The caller holds saving.
func (r *Roster) change(do func(t *datadir.Learnt), durably bool) error {
	r.mu.Lock()
	t := r.learnt
	r.mu.Unlock()
	do(&t)
	if durably {
		if err := r.cfg.Save(t); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learnt = t
	r.choose()
	return nil
}

// Ask has other members asked, unless that is about to happen.
func (r *Roster) Ask() {
	r.mu.Lock()
	r.asking = true
	r.mu.Unlock()
	r.bell.Ring()
}

// Shut keeps raft from hearing anybody until the asking under way has come to an end, if there is one.
func (r *Roster) Shut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asking {
		r.open.Store(false)
	}
}

// Conclude lets raft hear members.
func (r *Roster) Conclude() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asking, r.why = false, ""
	r.open.Store(true)
	r.concluded.Add(1)
}

// Concluded returns how often other members were asked to an end.
func (r *Roster) Concluded() uint64 { return r.concluded.Load() }

// Open reports whether raft hears members.
func (r *Roster) Open() bool { return r.open.Load() }

// Why returns the reason why the roster is not open, once too few of the known members turn out to answer.
func (r *Roster) Why() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

// Refusals of callers. The first two are over once others were asked.
var (
	ErrUnknownHere = status.Error(codes.Unavailable,
		"the server that was called does not know the caller as a member yet, and asks others")
	ErrNotAsked    = status.Error(codes.Unavailable, "the server that was called has yet to ask who is a member")
	ErrCertificate = status.Error(codes.Unauthenticated,
		"the certificate is not that of a member of this cluster")
)

// Certifies reports whether a certificate is that of the host of a member.
func (r *Roster) Certifies(certificate *x509.Certificate) bool {
	list := r.List()
	return certificate != nil && slices.ContainsFunc(list.Conf.Members, func(m membership.Record) bool {
		return list.Admits(m.ID) && peers.MadeFor(certificate, m.Peer)
	})
}

// Identify finds the member that a header names: it has to be one by the list, and by its certificate.
func (r *Roster) Identify(id uint64, certificate *x509.Certificate) (*membership.Record, error) {
	list := r.List()
	m := list.Conf.Member(id)
	switch {
	case list.IsRemoved(id):
		r.Ask()
		return nil, peers.ErrRemoved
	case !list.Admits(id), m == nil && r.cfg.TLS != nil: // of a member without a record nothing is known but the id
		r.Ask()
		return nil, ErrUnknownHere
	case r.cfg.TLS != nil && (certificate == nil || !peers.MadeFor(certificate, m.Peer)):
		return nil, fmt.Errorf("%w: it is not made for the host of %s, where %s is", ErrCertificate, m.Peer,
			list.Conf.NameOf(id))
	}
	return m, nil
}

// StillWelcome refuses a sender that has ceased to be a member after its stream was accepted.
func (r *Roster) StillWelcome(id uint64) error {
	switch list := r.List(); {
	case list.Admits(id):
		return nil
	case list.IsRemoved(id):
		return peers.ErrRemoved
	}
	return ErrUnknownHere
}

// warnOfCertificates warns of members for whose host this one's certificate is good as well: this one could speak for
// them, and they, where they are on its host, for it.
func (r *Roster) warnOfCertificates() {
	if r.cfg.TLS == nil {
		return
	}
	own := r.cfg.TLS.ClientSide().Certificates
	if len(own) == 0 || len(own[0].Certificate) == 0 {
		return
	}
	certificate, err := x509.ParseCertificate(own[0].Certificate[0])
	if err != nil {
		return // the handshake reports it
	}
	for _, m := range r.List().Conf.Members {
		if m.ID != r.cfg.Self.Member && peers.MadeFor(certificate, m.Peer) {
			r.cfg.Logger.Warn("the certificate of this server is good for another one too: give each a host name of "+
				"its own", "server", m.Name, "address", m.Peer)
		}
	}
}
