package raftstore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/raftstore/peerpb"
)

// memberFormat is the version of the member record in membership entries.
const memberFormat = 1

// Member is what is known here about one member of the cluster.
type Member struct {
	ID          uint64
	Name        string
	PeerAddress string // where other members reach it
	// ClientAddress is where clients reach it: as it has announced last, see SetClientAddress, or as the log has
	// it if it was not heard since this member's start.
	ClientAddress string
	Version       uint64 // highest command version it can read; 0 while it was never seen
	Learner       bool   // it gets the log but has no vote
	Leader        bool   // as far as this member knows
	// Match is the last entry known to be in its log. Only the leader knows; elsewhere it is 0. It is a
	// little old.
	Match uint64
	// Active says that the leader has heard of it lately; elsewhere it is false.
	Active bool
	// Connected says that it takes messages from this member, which says so of itself too. Every member knows
	// by itself.
	Connected bool
	// Awaited reports that the member is about to announce its client address, or to hear that of this one: a
	// connection between them is being made, or the member is starting. A member is awaited only for a moment,
	// see awaitTicks.
	Awaited bool
	// Full says that the member's disk is nearly full.
	Full bool
}

// DisplayName is how people call the member: by its name, or by its id where that is not known.
func (m Member) DisplayName() string { return cmp.Or(m.Name, IDText(m.ID)) }

// IDText is the id of a cluster or of a member as people read and type it, and as files and hashes have it:
// 16 hexadecimal digits.
func IDText(id uint64) string { return fmt.Sprintf("%016x", id) }

// Members is the cluster as one of its members knows it.
type Members []Member

// Find returns the member with an id.
func (l Members) Find(id uint64) (Member, bool) {
	at := slices.IndexFunc(l, func(m Member) bool { return m.ID == id })
	if at < 0 {
		return Member{}, false
	}
	return l[at], true
}

// NameOf is how people call the server with an id, whether it is a member or not.
func (l Members) NameOf(id uint64) string {
	if m, found := l.Find(id); found {
		return m.DisplayName()
	}
	return IDText(id)
}

// NamesOf is how people call those of some servers that are members.
func (l Members) NamesOf(ids []uint64) []string {
	var names []string
	for _, m := range l {
		if slices.Contains(ids, m.ID) {
			names = append(names, m.DisplayName())
		}
	}
	return names
}

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

// confRecord is raft's membership as stored.
type confRecord struct {
	Voters         []uint64 `json:"voters"`
	Learners       []uint64 `json:"learners,omitempty"`
	VotersOutgoing []uint64 `json:"voters_outgoing,omitempty"`
	LearnersNext   []uint64 `json:"learners_next,omitempty"`
	AutoLeave      bool     `json:"auto_leave,omitempty"`

	// the entry as of which this holds: the last that changed it, or a later one
	Index   uint64         `json:"index,omitempty"`
	Members []memberRecord `json:"members,omitempty"` // ascending by id
	Removed []uint64       `json:"removed,omitempty"` // ids that may never come back
}

func confRecordOf(c *pb.ConfState) confRecord {
	return confRecord{
		Voters:         slices.Clone(c.GetVoters()),
		Learners:       slices.Clone(c.GetLearners()),
		VotersOutgoing: slices.Clone(c.GetVotersOutgoing()),
		LearnersNext:   slices.Clone(c.GetLearnersNext()),
		AutoLeave:      c.GetAutoLeave(),
	}
}

func (c confRecord) confState() *pb.ConfState {
	return &pb.ConfState{
		Voters:         slices.Clone(c.Voters),
		Learners:       slices.Clone(c.Learners),
		VotersOutgoing: slices.Clone(c.VotersOutgoing),
		LearnersNext:   slices.Clone(c.LearnersNext),
		AutoLeave:      new(c.AutoLeave),
	}
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

// incarnation returns that of a member, 0 if c does not have it.
func (c confRecord) incarnation(id uint64) uint64 {
	if m := c.member(id); m != nil {
		return m.Incarnation
	}
	return 0
}

// withIncarnations returns c with the incarnations that c does not have.
func (c confRecord) withIncarnations(of func(id uint64) uint64) confRecord {
	c.Members = slices.Clone(c.Members)
	for i := range c.Members {
		m := &c.Members[i]
		m.Incarnation = cmp.Or(m.Incarnation, of(m.ID))
	}
	return c
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

// memberView is what the turn shows to others.
type memberView struct {
	conf    confRecord
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
