package raftstore

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// workable tells why raft, which panics at such a membership, could not work with c; nil if it could. Changes
// here are of one member at a time, so a membership is never in between two others.
func (c confRecord) workable() error {
	ids := slices.Sorted(slices.Values(slices.Concat(c.Voters, c.Learners)))
	switch {
	case len(c.Voters) == 0:
		return fmt.Errorf("membership: nobody has a vote")
	case len(ids) > membersMax:
		return fmt.Errorf("membership: %d members", len(ids))
	case len(c.VotersOutgoing) > 0 || len(c.LearnersNext) > 0 || c.AutoLeave:
		return fmt.Errorf("membership: between two others")
	}
	for i, id := range ids {
		switch {
		case id == 0 || raft.IsLocalMsgTarget(id):
			return fmt.Errorf("membership: %s is no id of a member", IDText(id))
		case i > 0 && id == ids[i-1]:
			return fmt.Errorf("membership: %s is in it twice", IDText(id))
		}
	}
	return nil
}

// isThatOf reports whether the membership is the one that raft knows with a snapshot.
func (c confRecord) isThatOf(m *pb.SnapshotMetadata) bool {
	return proto.Equal(c.confState(), confRecordOf(m.GetConfState()).confState())
}
