package raftstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
)

// Errors of membership changes.
var (
	// ErrNotLeader is returned if only the leader can do this; Members has the leader.
	ErrNotLeader = errors.New("this member does not lead")
	// ErrQuorum refuses a change that would leave fewer reachable members than a majority needs.
	ErrQuorum = errors.New("the change would lose the quorum")
	// ErrNotMember is returned for an id that no member has.
	ErrNotMember = errors.New("no such member")
	// ErrTaken is returned if another member has the name or the address.
	ErrTaken = errors.New("another member has this name or address")
	// ErrBehind is returned if the learner is not caught up.
	ErrBehind = errors.New("the member is not caught up")
	// ErrStopped is returned after the store was stopped or has failed.
	ErrStopped = errors.New("the store is stopped")
)

// Member describes one member of the cluster.
type Member = membership.Member

// Members lists the cluster as one of its members knows it.
type Members = membership.Members

// IDText is the id of a cluster or of a member as people read and type it, and as files and hashes have it:
// 16 hexadecimal digits.
func IDText(id uint64) string { return membership.IDText(id) }

// memberView is the state that the turn publishes to other goroutines.
type memberView struct {
	conf    membership.Conf
	leader  uint64
	leading bool
	term    uint64
	fresh   bool // nothing was ever committed here
	match   map[uint64]uint64
	active  map[uint64]bool
	full    map[uint64]bool
	clients map[uint64]string // by member heard since the start: the client address it has announced last
	open    map[uint64]bool   // members whose urgent stream is open
	waits   map[uint64]bool   // members that may still be awaited, see Member.Awaited
}

// Members lists the cluster as this member knows it, ascending by id. It is cheap.
func (s *Store) Members() Members {
	v := s.view.Load()
	ids := slices.Concat(v.conf.Voters, v.conf.Learners, v.conf.VotersOutgoing)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	out := make(Members, len(ids))
	for i, id := range ids {
		m := Member{
			ID: id, Learner: slices.Contains(v.conf.Learners, id), Leader: id == v.leader,
			Match: v.match[id], Active: v.active[id], Full: v.full[id],
		}
		if logged := v.conf.Member(id); logged != nil {
			m.Name, m.PeerAddress, m.ClientAddress, m.Version = logged.Name, logged.Peer, logged.Client, logged.Version
		}
		if address, heard := v.clients[id]; heard {
			m.ClientAddress = address
		}
		switch {
		case id == s.identity.Member: // its record may not be in the log yet
			m.Name, m.PeerAddress = cmp.Or(m.Name, s.cfg.Cluster.Name), cmp.Or(m.PeerAddress, s.cfg.Cluster.address())
			m.Connected, m.ClientAddress = true, cmp.Or(*s.Peers.client.Load(), m.ClientAddress)
		case s.Peers.out != nil:
			up, tried := s.Peers.out.Connected(id)
			m.Connected = up
			m.Awaited = v.waits[id] && (!tried || up != v.open[id] || up && m.ClientAddress == "")
		}
		out[i] = m
	}
	return out
}

// Leader returns the leader as far as this member knows, or 0.
func (s *Store) Leader() uint64 { return s.view.Load().leader }

// ClusterVersion returns the version of commands that every member can read, as each has published with its
// Cluster.Version; 0 if a voter has not. It never shrinks while members come and go: one that cannot read it
// may not join.
func (s *Store) ClusterVersion() uint64 { return s.view.Load().conf.Version() }

// Changes alters who is a member and who leads. Only the leader can do that. Its methods may be called from any
// goroutine.
type Changes struct {
	inbox   *inbox
	stopped <-chan struct{}
}

// AddLearner adds a member that gets the log and has no vote, and returns its id, which is new. The server
// itself is started with Cluster.Join, before or after. Only the leader can do this. Errors: ErrNotLeader,
// ErrTaken, ErrStopped, that of ctx; after the last one the member may have been added nevertheless, see
// Members.
func (c Changes) AddLearner(ctx context.Context, name, address string) (uint64, error) {
	for _, text := range []string{name, address} {
		if len(text) == 0 || len(text) > memberTextMax || !utf8.ValidString(text) {
			return 0, fmt.Errorf("a member's name and address have 1 to %d bytes of UTF-8", memberTextMax)
		}
	}
	m := membership.Record{ID: datadir.RandomID(), Name: name, Peer: address}
	return m.ID, c.inbox.pursue(ctx, c.stopped, addition(m))
}

func addition(m membership.Record) *pursuit {
	return change(func(l *loop) error {
		switch {
		case l.conf.Taken(&m):
			return fmt.Errorf("add %q at %s: %w", m.Name, m.Peer, ErrTaken)
		case len(l.conf.Voters)+len(l.conf.Learners) >= membership.MaxMembers:
			return fmt.Errorf("add %q: the cluster has %d members already", m.Name, membership.MaxMembers)
		}
		return l.proposeChange(pb.ConfChangeAddLearnerNode, m.ID, &m)
	}, func(l *loop) bool { return l.conf.Has(m.ID) })
}

// Promote gives a learner a vote. Only the leader can do this, and only once the learner has nearly all of
// the log: ErrBehind otherwise. Further errors: ErrNotLeader, ErrNotMember, ErrQuorum, ErrStopped, that of
// ctx.
func (c Changes) Promote(ctx context.Context, id uint64) error {
	return c.inbox.pursue(ctx, c.stopped, promotion(id), sealing())
}

func promotion(id uint64) *pursuit {
	return change(func(l *loop) error {
		if !l.conf.Has(id) {
			return fmt.Errorf("promote %s: %w", IDText(id), ErrNotMember)
		}
		p, committed := l.node.Status().Progress[id], l.node.BasicStatus().GetCommit()
		if p.Match+promoteLagMax < committed || p.Match == 0 {
			return fmt.Errorf("promote %s, which has entry %d of %d: %w", IDText(id), p.Match, committed,
				ErrBehind)
		}
		if !majority(append(slices.Clone(l.conf.Voters), id), l.active) {
			return fmt.Errorf("promote %s: %w", IDText(id), ErrQuorum)
		}
		return l.proposeChange(pb.ConfChangeAddNode, id, nil)
	}, func(l *loop) bool { return slices.Contains(l.conf.Voters, id) })
}

// Remove takes a member out of the cluster for ever: its id never comes back. A running server is notified and stops.
// Only the leader can do this, and not to itself: transfer the leadership first. Errors: ErrNotLeader, ErrNotMember,
// ErrQuorum, ErrStopped, that of ctx.
func (c Changes) Remove(ctx context.Context, id uint64) error {
	return c.inbox.pursue(ctx, c.stopped, removal(id), sealing())
}

func removal(id uint64) *pursuit {
	tried := false
	return change(func(l *loop) error {
		switch {
		case !l.conf.Has(id) && !tried:
			return fmt.Errorf("remove %s: %w", IDText(id), ErrNotMember)
		case id == l.s.identity.Member:
			return fmt.Errorf("remove %s: it leads, transfer the leadership first", IDText(id))
		}
		left := slices.DeleteFunc(slices.Clone(l.conf.Voters), func(v uint64) bool { return v == id })
		if slices.Contains(l.conf.Voters, id) && !majority(left, l.active) {
			return fmt.Errorf("remove %s: %w", IDText(id), ErrQuorum)
		}
		tried = true
		return l.proposeChange(pb.ConfChangeRemoveNode, id, nil)
	}, func(l *loop) bool { return tried && !l.conf.Has(id) })
}

// sealing waits until a majority of the voters can prove their last change, see sealed. Before that this
// leader may be the only member that knows of the change, and without it the others count votes as before. If
// it loses the leadership meanwhile, the next leader goes on, and has to be asked.
func sealing() *pursuit {
	return change(func(*loop) error { return nil },
		func(l *loop) bool { return l.leading && l.caughtUp && l.unsealed == 0 })
}

// TransferLeader hands the leadership to another voter, once that is heard of; id 0 means the one that has most of the
// log, of those that can be reached and have space on their disks. It returns once this member does not lead any more.
// Once it begins, this member has no lease. Errors: ErrNotLeader, ErrNotMember, ErrStopped, that of ctx.
func (c Changes) TransferLeader(ctx context.Context, id uint64) error {
	tried := false
	return c.inbox.pursue(ctx, c.stopped, &pursuit{attempt: func(l *loop) error {
		if !l.leading {
			return ErrNotLeader
		}
		tried = true
		return l.transfer(id)
	}, done: func(l *loop) bool { return tried && !l.leading }})
}

// change is the pursuit of something that only a leader with a known commit index can do, one after the other. That the
// quorum would be lost counts once it has been so for a second: a new leader has yet to hear the others.
func change(attempt func(l *loop) error, done func(l *loop) bool) *pursuit {
	begun := 0
	return &pursuit{attempt: func(l *loop) error {
		own := l.unpublished()
		switch {
		case !l.leading:
			return ErrNotLeader
		case !l.caughtUp, l.unsealed > 0:
			return nil // soon
		case own != nil && own.ID == l.s.identity.Member: // first: voters find the leader by its record
			return l.proposeChange(pb.ConfChangeUpdateNode, own.ID, own)
		}
		begun = cmp.Or(begun, l.ticks)
		if err := attempt(l); !errors.Is(err, ErrQuorum) || l.ticks >= begun+electionTicks {
			return err
		}
		return nil
	}, done: done}
}

// pursue makes the attempts of each pursuit in turns, now and from time to time again, until it is done. It
// ends with the first error, and with ErrStopped once there are no more turns.
func (b *inbox) pursue(ctx context.Context, stopped <-chan struct{}, all ...*pursuit) error {
	for _, w := range all {
		if err := b.pursueOne(ctx, stopped, w); err != nil {
			return err
		}
	}
	return nil
}

func (b *inbox) pursueOne(ctx context.Context, stopped <-chan struct{}, w *pursuit) error {
	w.result = make(chan error, 1)
	b.task(func(l *loop) { l.pursuits = append(l.pursuits, w) })
	defer b.task(func(l *loop) {
		l.pursuits = slices.DeleteFunc(l.pursuits, func(o *pursuit) bool { return o == w })
	})
	select {
	case err := <-w.result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-stopped:
		return ErrStopped
	}
}

// pursuit is a caller that waits for the cluster to reach a state, and the attempt that should bring it there.
type pursuit struct {
	attempt func(l *loop) error
	done    func(l *loop) bool
	result  chan error // capacity 1
	tried   int        // the tick of the last attempt
	begun   bool
}

// servePursuits makes attempts that are due, and answers pursuits that have ended.
func (l *loop) servePursuits() {
	l.pursuits = slices.DeleteFunc(l.pursuits, func(w *pursuit) bool {
		if w.done(l) {
			l.show() // who is answered finds it so
			w.result <- nil
			return true
		}
		if w.begun && l.ticks < w.tried+retryTicks {
			return false
		}
		w.begun, w.tried = true, l.ticks
		if err := w.attempt(l); err != nil {
			w.result <- err
			return true
		}
		return false
	})
}

// proposeChange proposes a membership entry, if raft takes one now. Pursuits propose again, and an entry that
// came too late is void, see membership.Conf.Allows.
func (l *loop) proposeChange(typ pb.ConfChangeType, id uint64, m *membership.Record) error {
	if !l.takesChange() {
		l.waitForApplied()
		return nil
	}
	change := &pb.ConfChange{Type: typ.Enum(), NodeId: new(id)}
	if m != nil {
		change.Context = m.Encode()
	}
	err := l.node.ProposeConfChange(change)
	if errors.Is(err, raft.ErrProposalDropped) {
		return nil
	}
	l.proposed = err == nil
	return err
}

// majority reports whether most of the voters are so.
func majority(voters []uint64, is func(id uint64) bool) bool {
	return 2*len(slices.DeleteFunc(slices.Clone(voters), is)) < len(voters)
}

func (l *loop) active(id uint64) bool {
	at, ok := l.heard[id]
	return id == l.s.identity.Member || ok && l.ticks-at <= electionTicks
}

// transfer begins to hand over the leadership.
func (l *loop) transfer(id uint64) error {
	progress := l.node.Status().Progress
	if id == 0 {
		var best uint64
		for _, voter := range l.conf.Voters {
			if p := progress[voter]; voter != l.s.identity.Member && l.active(voter) && !l.headers[voter].GetFull() &&
				p.Match >= best {
				id, best = voter, p.Match
			}
		}
		if id == 0 {
			return fmt.Errorf("hand over the leadership: %w", ErrQuorum)
		}
	}
	switch {
	case id != l.s.identity.Member && !slices.Contains(l.conf.Voters, id):
		return fmt.Errorf("hand the leadership to %s: %w", IDText(id), ErrNotMember)
	case id == l.s.identity.Member, !l.active(id): // to begin without it would only stop this leader
		return nil
	}
	l.s.lease.Revoke()
	l.s.moving.Store(true)
	l.heir = id
	l.node.TransferLeader(id)
	return nil
}

// announce sends this member's changed record to the other members.
func (p *Peers) announce() {
	if p.out == nil {
		return
	}
	p.out.Announce()
	p.inbox.task((*loop).publish)
}

// publish writes into the log, at the leader, a member's announcement that differs from its record there. Raft takes
// one such entry at a time and drops others; this is tried again every few ticks.
func (l *loop) publish() {
	if !l.leading || !l.caughtUp {
		return
	}
	if m := l.unpublished(); m != nil {
		if err := l.proposeChange(pb.ConfChangeUpdateNode, m.ID, m); err != nil {
			l.s.cfg.Logger.Debug("publish a member's record", "err", err)
		}
	}
}

// unpublished returns the record, as it should be, of the first member, this one before all, whose record in the log
// differs from its announcement, or nil. The leader then writes it into the log (publish).
func (l *loop) unpublished() *membership.Record {
	if l.s.Peers.out == nil {
		return nil
	}
	self := l.s.identity.Member
	for _, id := range slices.Concat([]uint64{self}, l.conf.Voters, l.conf.Learners) {
		h := l.headers[id]
		if id == self {
			h = endpoint{l.s}.Header(0, false)
		}
		if h == nil {
			continue
		}
		old := membership.Record{ID: id}
		if m := l.conf.Member(id); m != nil {
			old = *m
		}
		want := old
		if id == self && want.Name == "" {
			want.Name = l.s.cfg.Cluster.Name
		}
		want.Incarnation = cmp.Or(want.Incarnation, l.s.Peers.roster.List().Conf.Incarnation(id), h.GetIncarnation())
		if h.GetAddress() != "" && len(h.GetAddress()) <= memberTextMax {
			want.Peer = h.GetAddress()
		}
		if client := clientAddressIn(h); client != "" && client != NoClients {
			want.Client = client
		}
		want.Version = h.GetVersion()
		if want != old {
			return &want
		}
	}
	return nil
}
