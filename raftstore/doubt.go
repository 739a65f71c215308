package raftstore

import (
	"maps"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/roster"
)

// doubts are the reasons of the loop to have other members asked for the members of the cluster.
type doubts struct {
	heardAt int    // the last tick with a leader that was heard
	sender  uint64 // the sender that doubt is about; 0: no sender
	asked   uint64 // how often others had been asked by then
}

// watch makes a member without a leader that it hears ask for the members of the cluster: it may have missed a removal.
// From the moment at which it has been without one for long it hears nobody until it has been answered.
// Asking begins earlier, so that where members answer nothing is lost.
func (d *doubts) watch(led bool, now int, r *roster.Roster) {
	if led {
		d.heardAt = now
		return
	}
	switch silent := now - d.heardAt; {
	case silent%leaderlessTicks == leaderlessTicks/2:
		r.Ask()
	case silent == leaderlessTicks:
		r.Shut()
	}
}

// forgetOutsiders forgets what former members have sent.
func (l *loop) forgetOutsiders() {
	list := l.s.Peers.roster.List()
	maps.DeleteFunc(l.heard, func(id uint64, _ int) bool { return !list.Admits(id) })
	maps.DeleteFunc(l.headers, func(id uint64, _ *peerpb.Header) bool { return !list.Admits(id) })
}

// emptied deals with a leader that counts on more than this member has: either this member's directory was
// emptied, or the sender was removed and lies. So members are asked first; if the sender is one nevertheless,
// it reports true.
func (d *doubts) emptied(from uint64, r *roster.Roster) bool {
	asked := r.Concluded()
	if d.sender != from {
		d.sender, d.asked = from, asked
	}
	if asked > d.asked {
		return true
	}
	r.Ask()
	return false
}

// binds reports whether a member must not forget that it has sent a message of this type. Pre-votes promise nothing.
func binds(t pb.MessageType) bool { return t != pb.MsgPreVote && t != pb.MsgPreVoteResp }
