package memory

import (
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// TestEndOfAKeptLogIsReplaced: an entry in the place of another takes what lies behind with it.
func TestEndOfAKeptLogIsReplaced(t *testing.T) {
	entry := func(index, term uint64) *pb.Entry { return &pb.Entry{Index: new(index), Term: new(term)} }
	kept := new(Kept)
	l := kept.Log()
	_ = l.Append(nil, []*pb.Entry{entry(1, 1), entry(2, 1), entry(3, 1)})
	_ = l.Append(nil, []*pb.Entry{entry(2, 2)})
	if got := kept.entries; len(got) != 2 || got[1].GetTerm() != 2 {
		t.Errorf("entries %v", got)
	}
	_ = l.Cut(2)
	if got := kept.entries; len(got) != 1 || got[0].GetIndex() != 2 {
		t.Errorf("entries %v behind the cut", got)
	}
	_ = l.Cut(9)
	if len(kept.entries) != 0 {
		t.Errorf("entries %v behind all", kept.entries)
	}
}
