package membership

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/confchange"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// AdmitsOthersThan reports whether c lets in others than before, from elsewhere, or with another data directory.
func (c Conf) AdmitsOthersThan(before Conf) bool {
	who := func(c Conf) (who []string) {
		for _, id := range slices.Concat(c.Voters, c.Learners) {
			text := IDText(id)
			if m := c.Member(id); m != nil {
				text += " " + m.Peer + " " + IDText(m.Incarnation)
			}
			who = append(who, text)
		}
		for _, id := range c.Removed {
			who = append(who, "-"+IDText(id))
		}
		slices.Sort(who)
		return who
	}
	return !slices.Equal(who(c), who(before))
}

// Judge decodes a committed membership entry. One that is void after the entries before it becomes a change
// of nobody. The entries up to forced are void.
func (c Conf) Judge(e *pb.Entry, forced uint64) (pb.ConfChangeI, *Record, error) {
	if e.GetType() != pb.EntryConfChange {
		change := &pb.ConfChangeV2{}
		return change, nil, proto.Unmarshal(e.GetData(), change)
	}
	change := &pb.ConfChange{}
	if err := proto.Unmarshal(e.GetData(), change); err != nil {
		return nil, nil, err
	}
	record, err := DecodeRecord(change.GetContext())
	if err != nil {
		return nil, nil, err
	}
	if e.GetIndex() <= forced || !c.Allows(change, record) {
		return &pb.ConfChange{Type: pb.ConfChangeUpdateNode.Enum(), NodeId: new(raft.None)}, nil, nil
	}
	return change, record, nil
}

// Replay returns the membership after entries, as a store that applies them has it.
func (c Conf) Replay(entries []*pb.Entry, forced uint64) (Conf, error) {
	for _, e := range entries {
		if e.GetType() == pb.EntryNormal {
			continue
		}
		change, record, err := c.Judge(e, forced)
		if err != nil {
			return c, err
		}
		state, err := changedConfState(c.ConfState(), change.AsV2())
		if err != nil {
			return c, err
		}
		next := c.After(state, record)
		next.Index = max(c.Index, e.GetIndex())
		c = next
	}
	return c, nil
}

// changedConfState computes raft's part of a change without a running raft. Changes are of one member each.
func changedConfState(state *pb.ConfState, change *pb.ConfChangeV2) (*pb.ConfState, error) {
	members := tracker.MakeProgressTracker(1, 0)
	var err error
	members.Config, members.Progress, err = confchange.Restore(confchange.Changer{Tracker: members}, state)
	if err != nil {
		return nil, err
	}
	members.Config, members.Progress, err = confchange.Changer{Tracker: members}.Simple(change.Changes...)
	return members.ConfState(), err
}

// Allows reports whether a membership entry makes sense as things are now. Every member judges alike, because
// it judges by what was applied before. An entry that was proposed twice, or overtaken by another, is void.
func (c Conf) Allows(change *pb.ConfChange, m *Record) bool {
	id := change.GetNodeId()
	switch change.GetType() {
	case pb.ConfChangeAddLearnerNode:
		return !c.added(id) && !slices.Contains(c.Removed, id) && (m == nil || m.ID == id && !c.Taken(m))
	case pb.ConfChangeAddNode:
		return slices.Contains(c.Learners, id) && c.added(id)
	case pb.ConfChangeRemoveNode:
		return c.added(id) && !(len(c.Voters) == 1 && c.Voters[0] == id)
	case pb.ConfChangeUpdateNode:
		return m != nil && m.ID == id && c.added(id) // the first of a server that was started alone is an update
	}
	return false
}

// added reports whether id is a member by an entry that was applied.
func (c Conf) added(id uint64) bool {
	m := c.Member(id)
	return c.Has(id) && (m == nil || !m.Included)
}

// Taken reports whether another member has the name or the address.
func (c Conf) Taken(m *Record) bool {
	return slices.ContainsFunc(c.Members, func(o Record) bool {
		return o.ID != m.ID && !o.Included && (o.Name == m.Name || o.Peer == m.Peer)
	})
}

// After returns the membership that follows c: raft's part is state, and m is the record of a member that was
// added or changed.
func (c Conf) After(state *pb.ConfState, m *Record) Conf {
	next := Of(state)
	next.Index, next.Removed = c.Index, slices.Clone(c.Removed)
	next.Members = slices.Clone(c.Members)
	if m != nil {
		if before := next.Member(m.ID); before != nil {
			*before = *m
		} else {
			next.Members = append(next.Members, *m)
		}
	}
	next.Members = slices.DeleteFunc(next.Members, func(o Record) bool { return !next.Has(o.ID) })
	for _, id := range slices.Concat(c.Voters, c.Learners) {
		if !next.Has(id) && !slices.Contains(next.Removed, id) {
			next.Removed = append(next.Removed, id)
		}
	}
	next.Sort()
	return next
}

// Changed describes the member in which the next membership differs from c, "" if the same ones have votes.
func (c Conf) Changed(next Conf) (act, member string) {
	for _, m := range next.Members {
		switch {
		case !c.Has(m.ID):
			return "add member", m.Name + " at " + m.Peer
		case slices.Contains(c.Learners, m.ID) && slices.Contains(next.Voters, m.ID):
			return "promote member", next.NameOf(m.ID)
		}
	}
	for _, m := range c.Members {
		if !next.Has(m.ID) {
			return "remove member", c.NameOf(m.ID)
		}
	}
	return "", ""
}

// Including returns c with a member that was added later. Raft takes a checkpoint only if the receiver is a
// member as of it. The entry that adds the receiver follows; until then no entry is judged by this record,
// see Allows, so that the receiver judges as all others do.
func (c Conf) Including(id uint64, now Conf) Conf {
	m := now.Member(id)
	if c.Has(id) || m == nil {
		return c
	}
	c.Learners = append(slices.Clone(c.Learners), id)
	c.Members = append(slices.Clone(c.Members),
		Record{ID: id, Name: m.Name, Peer: m.Peer, Included: true})
	c.Sort()
	return c
}
