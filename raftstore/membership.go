package raftstore

import (
	"encoding/json"
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/raftstore/peerpb"
)

// memberFormat is the version of the member record in membership entries.
const memberFormat = 1

// memberRecord is what all members know about one of them. It travels in membership entries and is kept with
// the checkpoint.
type memberRecord struct {
	ID          uint64 `json:"id"`
	Name        string `json:"name"`
	Peer        string `json:"peer"`
	Client      string `json:"client,omitempty"`
	Incarnation uint64 `json:"incarnation,omitempty"` // of its data directory; 0 until it was first seen
	Version     uint64 `json:"version,omitempty"`
	// Included says that the entry that adds this member is still to come, see confRecord.including.
	Included bool `json:"included,omitempty"`
}

func (m memberRecord) encode() []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&peerpb.Member{
		Format: memberFormat, Id: m.ID, Name: m.Name, PeerAddress: m.Peer, ClientAddress: m.Client,
		Incarnation: m.Incarnation, Version: m.Version,
	})
	if err != nil {
		panic(err) // names and addresses are checked to be UTF-8
	}
	return b
}

// decodeMember returns nil for a membership entry without a record.
func decodeMember(b []byte) (*memberRecord, error) {
	if len(b) == 0 {
		return nil, nil
	}
	m := &peerpb.Member{}
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, err
	}
	if m.GetFormat() != memberFormat {
		return nil, fmt.Errorf("member record has format %d, this program reads %d", m.GetFormat(),
			memberFormat)
	}
	return &memberRecord{
		ID: m.GetId(), Name: m.GetName(), Peer: m.GetPeerAddress(), Client: m.GetClientAddress(),
		Incarnation: m.GetIncarnation(), Version: m.GetVersion(),
	}, nil
}

func (c confRecord) encode() []byte {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // numbers and texts
	}
	return b
}

func decodeConf(b []byte) (confRecord, error) {
	var c confRecord
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("membership: %w", err)
	}
	return c, nil
}

func (c confRecord) member(id uint64) *memberRecord {
	at := slices.IndexFunc(c.Members, func(m memberRecord) bool { return m.ID == id })
	if at < 0 {
		return nil
	}
	return &c.Members[at]
}

// has reports whether id is a voter or a learner.
func (c confRecord) has(id uint64) bool {
	return slices.Contains(c.Voters, id) || slices.Contains(c.Learners, id) ||
		slices.Contains(c.VotersOutgoing, id)
}

func (c confRecord) sort() {
	slices.SortFunc(c.Members, func(a, b memberRecord) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	slices.Sort(c.Voters)
}

// alone reports whether member is the whole cluster.
func (c confRecord) alone(member uint64) bool {
	return len(c.Voters) == 1 && c.Voters[0] == member && len(c.Learners) == 0 && len(c.VotersOutgoing) == 0
}

// allows reports whether a membership entry makes sense as things are now. Every member judges alike, because
// it judges by what was applied before. An entry that was proposed twice, or overtaken by another, is void.
func (c confRecord) allows(change *pb.ConfChange, m *memberRecord) bool {
	id := change.GetNodeId()
	switch change.GetType() {
	case pb.ConfChangeAddLearnerNode:
		return !c.added(id) && !slices.Contains(c.Removed, id) && (m == nil || m.ID == id && !c.taken(m))
	case pb.ConfChangeAddNode:
		return slices.Contains(c.Learners, id) && c.added(id)
	case pb.ConfChangeRemoveNode:
		return c.added(id) && !(len(c.Voters) == 1 && c.Voters[0] == id)
	case pb.ConfChangeUpdateNode:
		return m != nil && m.ID == id && c.member(id) != nil && c.added(id)
	}
	return false
}

// added reports whether id is a member by an entry that was applied.
func (c confRecord) added(id uint64) bool {
	m := c.member(id)
	return c.has(id) && (m == nil || !m.Included)
}

// taken reports whether another member has the name or the address.
func (c confRecord) taken(m *memberRecord) bool {
	return slices.ContainsFunc(c.Members, func(o memberRecord) bool {
		return o.ID != m.ID && !o.Included && (o.Name == m.Name || o.Peer == m.Peer)
	})
}

// after returns the membership that follows c: raft's part is state, and m is the record of a member that was
// added or changed.
func (c confRecord) after(state *pb.ConfState, m *memberRecord) confRecord {
	next := confRecordOf(state)
	next.Index, next.Removed = c.Index, slices.Clone(c.Removed)
	next.Members = slices.Clone(c.Members)
	if m != nil {
		if before := next.member(m.ID); before != nil {
			*before = *m
		} else {
			next.Members = append(next.Members, *m)
		}
	}
	next.Members = slices.DeleteFunc(next.Members, func(o memberRecord) bool { return !next.has(o.ID) })
	for _, id := range slices.Concat(c.Voters, c.Learners) {
		if !next.has(id) && !slices.Contains(next.Removed, id) {
			next.Removed = append(next.Removed, id)
		}
	}
	next.sort()
	return next
}

// including returns c with a member that was added later. Raft takes a checkpoint only if the receiver is a
// member as of it. The entry that adds the receiver follows; until then no entry is judged by this record,
// see allows, so that the receiver judges as all others do.
func (c confRecord) including(id uint64, now confRecord) confRecord {
	m := now.member(id)
	if c.has(id) || m == nil {
		return c
	}
	c.Learners = append(slices.Clone(c.Learners), id)
	c.Members = append(slices.Clone(c.Members),
		memberRecord{ID: id, Name: m.Name, Peer: m.Peer, Included: true})
	c.sort()
	return c
}

// version is the lowest version of commands that all members can read; 0 as long as a voter was not seen.
// Learners not seen yet do not count, because they join only if they can read it.
func (c confRecord) version() uint64 {
	var lowest uint64
	for _, m := range c.Members {
		if m.Version == 0 && slices.Contains(c.Voters, m.ID) {
			return 0
		}
		if m.Version != 0 && (lowest == 0 || m.Version < lowest) {
			lowest = m.Version
		}
	}
	return lowest
}
