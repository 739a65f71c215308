package raftstore

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/raftlog"
)

// A member must not forget a membership that it has acted on. Raft switches to a membership when its entry is
// applied, and relies on it that two members are at most one membership apart, because only then do their
// majorities overlap. This file keeps that true across restarts:
//
//   - A leader proposes a membership entry only once it has applied the one before. So a log proves that all
//     of its membership entries but the last are committed, and a start begins with that commit index
//     (knownCommitted). Raft lets no member campaign before it has applied them.
//   - The last one is applied only when a hard state whose commit index covers it is durable
//     (queueCommitted), and until then no other member learns that it is committed (holdBack). So a leader
//     that dies has published no change that it forgets.
//   - The entry that follows a change of the voters is one more membership entry, which changes nothing
//     (sealed). So a log that goes on after the change proves that it is committed, and its owner counts votes
//     as the leader does. Otherwise a leader that had applied the change could need the vote of a member whose
//     log is longer and that takes itself for a learner: nobody could be elected any more. Once that entry is
//     committed, a majority of the new voters can prove the change (sealing).

// confEntry returns the index of the last membership entry among entries, 0 if all are others.
func confEntry(entries []*pb.Entry) (last uint64) {
	for _, e := range entries {
		if e.GetType() != pb.EntryNormal {
			last = e.GetIndex()
		}
	}
	return last
}

// confGate is the part of the loop that makes the commit index durable before a membership entry is applied.
type confGate struct {
	saved    uint64        // the durable commit index: of the hard state, or of the checkpoint
	changes  []uint64      // membership entries of the log, ascending, from the last applied one on
	proposed bool          // one is on its way into the log
	waiting  []*pb.Message // committed entries that wait for saved to cover a membership entry, oldest first
	unsealed uint64        // the last change of the voters that was applied, while no membership entry follows it
}

func (g *confGate) init(log *raftlog.Log) {
	g.saved = log.Hard().Commit
	g.noteAppended(log.InMemory())
}

// noteAppended updates changes for entries that are appended to the log, or replace its end.
func (g *confGate) noteAppended(entries []*pb.Entry) {
	if len(entries) == 0 {
		return
	}
	g.proposed = false
	for len(g.changes) > 0 && g.lastConf() >= entries[0].GetIndex() {
		g.changes = g.changes[:len(g.changes)-1]
	}
	for _, e := range entries {
		if e.GetType() != pb.EntryNormal {
			g.changes = append(g.changes, e.GetIndex())
		}
	}
}

// lastConf returns the last membership entry of the log; 0: none after the checkpoint.
func (g *confGate) lastConf() uint64 {
	if len(g.changes) == 0 {
		return 0
	}
	return g.changes[len(g.changes)-1]
}

// holdBack lowers the commit index in a message to another member below a membership entry that this member
// could still forget. A later heartbeat carries the commit index again.
func (g *confGate) holdBack(m *pb.Message) {
	if last := g.lastConf(); last > g.saved && m.GetCommit() >= last {
		m.Commit = new(last - 1)
	}
}

// queueCommitted hands committed entries over, after a write of the commit index if they change the members.
func (l *loop) queueCommitted(m *pb.Message) error {
	if at := confEntry(m.GetEntries()); at > l.hard.Commit {
		l.hard.Commit = at
		h := l.hard
		l.s.appender.add(&writeJob{hard: &h})
	}
	l.waiting = append(l.waiting, m)
	return l.handOverSaved()
}

// handOverSaved hands over the committed entries whose membership entries are covered by saved.
func (l *loop) handOverSaved() error {
	for len(l.waiting) > 0 && confEntry(l.waiting[0].GetEntries()) <= l.saved {
		m := l.waiting[0]
		l.waiting = l.waiting[1:]
		if err := l.handOver(m); err != nil {
			return err
		}
	}
	return nil
}

// noteConf updates changes and unsealed for a membership that is applied.
func (g *confGate) noteConf(before, conf membership.Conf, index uint64) {
	for len(g.changes) > 0 && g.changes[0] < index {
		g.changes = g.changes[1:]
	}
	if !slices.Equal(before.Voters, conf.Voters) {
		g.unsealed = index
	} else if index > g.unsealed {
		g.unsealed = 0
	}
}

// sealed reports whether a leader may append commands. They do not follow a membership entry that is not
// applied, and after a change of the voters another membership entry comes first.
func (l *loop) sealed() bool {
	if !l.leading || !l.proposed && l.unsealed == 0 && l.conf.Index >= l.lastConf() {
		return true
	}
	if l.unsealed > 0 {
		if err := l.proposeChange(pb.ConfChangeUpdateNode, raft.None, nil); err != nil {
			l.s.cfg.Logger.Debug("seal a change of the members", "err", err)
		}
	} else {
		l.waitForApplied()
	}
	return false
}

// takesChange reports whether raft takes a membership entry: it does once the one before and an entry of this
// term are applied. In the place of others it would append empty entries, which seal nothing.
func (l *loop) takesChange() bool {
	applied := l.node.BasicStatus().Applied
	term, _ := l.s.log.Term(applied)
	return !l.proposed && l.lastConf() <= applied && term == l.term
}
