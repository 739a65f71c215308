package raftstore

import (
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/peerpb"
)

// SetClientAddress changes what the other members are told in the place of Cluster.ClientAddress. The leader
// puts it into the log soon; until then, and while there is no leader, Members gives the former one. "" has
// nothing to say: what is in the log stays. Longer texts than 600 bytes are not passed on. Call it after
// Start.
func (s *Store) SetClientAddress(address string) {
	s.client.Store(&address)
	s.announce()
}

func (s *Store) clientAddress() string { return *s.client.Load() }

// announce tells the other members what has changed about this one.
func (s *Store) announce() {
	if s.peers == nil {
		return
	}
	s.peers.announce()
	s.inbox.put(func(m *mail) { m.tasks = append(m.tasks, (*loop).publish) })
}

// announce has each urgent lane say again who this member is.
func (p *peers) announce() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, to := range p.peers {
		to.urgent.announce()
	}
}

// announce has the lane say again who this member is.
func (l *lane) announce() {
	l.mu.Lock()
	l.announcing = true
	l.mu.Unlock()
	l.bell.Ring()
}

// acceptAgain takes what the sender of an accepted stream now says of itself. Who it is cannot change.
func (s *Store) acceptAgain(before, now *peerpb.Header) error {
	if now.GetFormat() != before.GetFormat() || now.GetCluster() != before.GetCluster() ||
		now.GetFrom() != before.GetFrom() ||
		now.GetTo() != before.GetTo() || now.GetIncarnation() != before.GetIncarnation() {
		return refuse(ErrOtherCluster, "member %s says on its stream that it is somebody else",
			IDText(before.GetFrom()))
	}
	s.inbox.put(func(m *mail) { m.announced = append(m.announced, now) })
	return nil
}

// publish has the leader put into the log what a member says of itself and the log does not. Raft takes one
// such entry at a time and drops others; this is tried again on every few ticks.
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
