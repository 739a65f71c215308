package membership

import "slices"

// List lists the senders that are admitted: the members as of one membership entry, and the ids that were ever removed.
// It is never used to count votes: that is for raft's own membership, which may be older.
type List struct {
	Conf    Conf     // with all incarnations that are known
	Removed []uint64 // of every list that was known
}

// NewList makes the list of a member. Of the membership that it has from its own log and the one that it has learnt
// from other members, the one with the higher index counts, but an id that any of them has removed stays out. seen has
// the incarnations with which members have spoken to it before the log had them.
func NewList(own, learnt Conf, seen map[uint64]uint64) *List {
	l := &List{Conf: own, Removed: slices.Clone(own.Removed)}
	if learnt.Index > own.Index {
		l.Conf = learnt
	}
	l.Conf = l.Conf.WithIncarnations(func(id uint64) uint64 { return seen[id] })
	l.Conf = l.Conf.WithIncarnations(learnt.Incarnation)
	for _, id := range learnt.Removed {
		if !l.IsRemoved(id) {
			l.Removed = append(l.Removed, id)
		}
	}
	return l
}

// IsRemoved reports whether id was a member and is not any more.
func (l *List) IsRemoved(id uint64) bool { return slices.Contains(l.Removed, id) }

// Admits reports whether id is a member.
func (l *List) Admits(id uint64) bool { return l.Conf.Has(id) && !l.IsRemoved(id) }
