package raftstore

import (
	"maps"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/peerpb"
)

// doubts are the reasons of the loop to have other members asked for the members of the cluster.
type doubts struct {
	heardAt int    // the last tick with a leader that was heard
	sender  uint64 // the sender that doubt is about; 0: no sender
	asked   uint64 // how often others had been asked by then
}

// watchRoster makes a member without a leader ask for the members of the cluster: it may have missed a removal.
// From the moment at which it has been without one for long it hears nobody until it has been answered.
// Asking begins earlier, so that where members answer nothing is lost.
func (l *loop) watchRoster() {
	if l.s.roster == nil {
		return
	}
	heard, ok := l.heard[l.leader]
	if l.leading || l.leader != raft.None && ok && l.ticks-heard <= electionTicks {
		l.doubts.heardAt = l.ticks
		return
	}
	switch silent := l.ticks - l.doubts.heardAt; {
	case silent%leaderlessTicks == leaderlessTicks/2:
		l.s.roster.Ask()
	case silent == leaderlessTicks:
		l.s.roster.Shut()
	}
}

// forgetOutsiders forgets what former members have sent.
func (l *loop) forgetOutsiders() {
	list := l.s.roster.List()
	maps.DeleteFunc(l.heard, func(id uint64, _ int) bool { return !list.Admits(id) })
	maps.DeleteFunc(l.headers, func(id uint64, _ *peerpb.Header) bool { return !list.Admits(id) })
}

// doubt deals with a leader that counts on more than this member has: either this member's directory was
// emptied, or the sender was removed and lies. So members are asked first; if the sender is one nevertheless,
// this member ends.
func (l *loop) doubt(from uint64) {
	asked := l.s.roster.Concluded()
	if l.doubts.sender != from {
		l.doubts.sender, l.doubts.asked = from, asked
	}
	if asked > l.doubts.asked {
		l.s.inbox.fail(ErrEmptied)
		return
	}
	l.s.roster.Ask()
}

// binds reports whether a member must not forget that it has sent a message of this type. Pre-votes promise nothing.
func binds(t pb.MessageType) bool { return t != pb.MsgPreVote && t != pb.MsgPreVoteResp }
