package membership

import (
	"cmp"
	"slices"
)

// Member is one member of the cluster as known here.
type Member struct {
	ID          uint64
	Name        string
	PeerAddress string // where other members reach it
	// ClientAddress is where clients reach it: as it has announced last, see raftstore.Store, or as the log has
	// it if it was not heard since this member's start.
	ClientAddress string
	Version       uint64 // highest command version it can read; 0 while it was never seen
	Learner       bool   // it gets the log but has no vote
	Leader        bool   // as far as this member knows
	// Match is the last entry known to be in its log. Only the leader knows; elsewhere it is 0. It is a
	// little old.
	Match uint64
	// Active reports that the leader has heard of it lately; elsewhere it is false.
	Active bool
	// Connected reports that it takes messages from this member, which lists itself as connected too. Each member knows
	// only its own connections.
	Connected bool
	// Awaited reports that the member is about to announce its client address, or to hear that of this one: a
	// connection between them is being made, or the member is starting. A member is awaited only for a moment,
	// a few seconds.
	Awaited bool
	// Full reports that the member's disk is nearly full.
	Full bool
}

// DisplayName returns the member's name or, where that is not known, its id.
func (m Member) DisplayName() string { return cmp.Or(m.Name, IDText(m.ID)) }

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

// NameOf returns the display name of the server with an id, whether it is a member or not.
func (l Members) NameOf(id uint64) string {
	if m, found := l.Find(id); found {
		return m.DisplayName()
	}
	return IDText(id)
}

// NamesOf returns the display names of those of some servers that are members.
func (l Members) NamesOf(ids []uint64) []string {
	var names []string
	for _, m := range l {
		if slices.Contains(ids, m.ID) {
			names = append(names, m.DisplayName())
		}
	}
	return names
}
