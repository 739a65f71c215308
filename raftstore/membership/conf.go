package membership

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// MaxMembers bounds the members of a cluster.
const MaxMembers = 15

// Conf is raft's membership as stored, with the records of the members.
type Conf struct {
	Voters         []uint64 `json:"voters"`
	Learners       []uint64 `json:"learners,omitempty"`
	VotersOutgoing []uint64 `json:"voters_outgoing,omitempty"`
	LearnersNext   []uint64 `json:"learners_next,omitempty"`
	AutoLeave      bool     `json:"auto_leave,omitempty"`

	// the entry as of which this holds: the last that changed it, or a later one
	Index   uint64   `json:"index,omitempty"`
	Members []Record `json:"members,omitempty"` // ascending by id
	Removed []uint64 `json:"removed,omitempty"` // ids that may never come back
}

// Of returns raft's part of a membership.
func Of(c *pb.ConfState) Conf {
	return Conf{
		Voters:         slices.Clone(c.GetVoters()),
		Learners:       slices.Clone(c.GetLearners()),
		VotersOutgoing: slices.Clone(c.GetVotersOutgoing()),
		LearnersNext:   slices.Clone(c.GetLearnersNext()),
		AutoLeave:      c.GetAutoLeave(),
	}
}

// Decode reads what Encode has written.
func Decode(b []byte) (Conf, error) {
	var c Conf
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("membership: %w", err)
	}
	return c, nil
}

// NameOf returns a member's name, or its id where the name is not known.
func (c Conf) NameOf(id uint64) string {
	if m := c.Member(id); m != nil && m.Name != "" {
		return m.Name
	}
	return IDText(id)
}

// Workable returns an error if raft would panic at the membership. Changes here are of one member at a time, so a
// membership is never in between two others.
func (c Conf) Workable() error {
	ids := slices.Sorted(slices.Values(slices.Concat(c.Voters, c.Learners)))
	switch {
	case len(c.Voters) == 0:
		return fmt.Errorf("membership: nobody has a vote")
	case len(ids) > MaxMembers:
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

// IsThatOf reports whether the membership is the one that raft knows with a snapshot.
func (c Conf) IsThatOf(m *pb.SnapshotMetadata) bool {
	return proto.Equal(c.ConfState(), Of(m.GetConfState()).ConfState())
}

// ConfState returns raft's part.
func (c Conf) ConfState() *pb.ConfState {
	return &pb.ConfState{
		Voters:         slices.Clone(c.Voters),
		Learners:       slices.Clone(c.Learners),
		VotersOutgoing: slices.Clone(c.VotersOutgoing),
		LearnersNext:   slices.Clone(c.LearnersNext),
		AutoLeave:      new(c.AutoLeave),
	}
}

// Encode returns c as a checkpoint and Hello have it.
func (c Conf) Encode() []byte {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // numbers and texts
	}
	return b
}

// Member returns the record of a member, nil if c does not have it.
func (c Conf) Member(id uint64) *Record {
	at := slices.IndexFunc(c.Members, func(m Record) bool { return m.ID == id })
	if at < 0 {
		return nil
	}
	return &c.Members[at]
}

// Incarnation returns that of a member, 0 if c does not have it.
func (c Conf) Incarnation(id uint64) uint64 {
	if m := c.Member(id); m != nil {
		return m.Incarnation
	}
	return 0
}

// WithIncarnations returns c with the incarnations that c does not have.
func (c Conf) WithIncarnations(of func(id uint64) uint64) Conf {
	c.Members = slices.Clone(c.Members)
	for i := range c.Members {
		m := &c.Members[i]
		m.Incarnation = cmp.Or(m.Incarnation, of(m.ID))
	}
	return c
}

// Has reports whether id is a voter or a learner.
func (c Conf) Has(id uint64) bool {
	return slices.Contains(c.Voters, id) || slices.Contains(c.Learners, id) ||
		slices.Contains(c.VotersOutgoing, id)
}

// Sort brings members and voters into the order of their ids.
func (c Conf) Sort() {
	slices.SortFunc(c.Members, func(a, b Record) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	slices.Sort(c.Voters)
}

// Alone reports whether member is the whole cluster.
func (c Conf) Alone(member uint64) bool {
	return len(c.Voters) == 1 && c.Voters[0] == member && len(c.Learners) == 0 && len(c.VotersOutgoing) == 0
}

// Version is the lowest version of commands that all members can read; 0 as long as a voter was not seen.
// Learners not seen yet do not count, because they join only if they can read it.
func (c Conf) Version() uint64 {
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

// List names the members as the setting with the first members does.
func (c Conf) List() string {
	var members []string
	for _, m := range c.Members {
		members = append(members, m.Name+"="+m.Peer)
	}
	slices.Sort(members)
	return strings.Join(members, ",")
}
