package membership

import (
	"cmp"
	"slices"
)

// This file has the conclusions from the answers of other servers. testdata/answers.txt lists them for all combinations
// of answers.

// StrandedTries is the number of failed attempts after which a server counts as gone for good.
const StrandedTries = 10

// Asker is a member that asks others for their lists of members.
type Asker struct {
	Self        uint64
	Incarnation uint64
	Own         Conf // its own list
	Lineage     uint64
	Fresh       bool // it has never had an entry: every server that was named to it is trusted
	Patient     bool // it waits for every server's answer
}

// Answer holds the answer of one server so far.
type Answer struct {
	ID      uint64 // 0: a server that was named, and no member as far as the asker knows
	Conf    *Conf  // its list; nil: none has come
	Lineage uint64
	Removed bool // it reports that the asker was removed
	Tries   int  // failed attempts
}

// Verdict is the conclusion from the answers.
type Verdict struct {
	Done    bool    // the asker has asked to an end
	Adopt   *Answer // its list is to be gone on with, also if the asker goes on asking; nil: the own one
	Removed bool    // the asker was removed, and has to end
	Emptied bool    // the asker's directory was emptied, and it has to end
}

// Judge looks for what a majority of the members in the own list reports; the asker agrees to what the others report.
// As long as fewer of the others answer, all of them have to agree. A later list is followed only if enough servers
// know it or a later one, so a single server that makes one up is not followed while others answer.
func (q *Asker) Judge(answers []Answer) Verdict {
	t := q.tally(answers)
	needed := len(q.Own.Voters)/2 + 1  // so many lists are needed to go on
	sure := max(min(needed, t.all), 1) // so many servers are believed, whatever the rest answers
	if slices.Contains(q.Own.Voters, q.Self) {
		needed--
	}
	if q.Fresh {
		needed = min(needed, 1)
	}
	fatal := sure // so many have to report that the asker has to end
	if t.gone > 0 && len(t.lists)+t.removed+t.gone == t.all {
		fatal = max(min(needed, sure), 1)
	}
	switch {
	case t.removed >= fatal:
		return Verdict{Done: true, Removed: true}
	case t.emptied >= fatal, t.emptied > 0 && q.Fresh: // a fresh one has nothing to lose
		return Verdict{Done: true, Emptied: true}
	case t.gone == t.all && needed > 0: // not one known member answers: the word of a server counts that was named
		return Verdict{Adopt: t.named} // whose members are asked next
	case len(t.lists) < needed, len(t.lists) < sure && t.untried > 0, len(t.lists) < t.all && q.Patient:
		return Verdict{}
	}
	return Verdict{Done: true, Adopt: q.latest(t.lists, sure)}
}

// Counts reports whether a server's word counts as that of a member.
func (q *Asker) Counts(a *Answer) bool {
	return q.Fresh || a.ID != 0 && slices.Contains(q.Own.Voters, a.ID)
}

// tally sorts the answers of the servers that count.
type tally struct {
	all, untried, gone, removed, emptied int

	lists []*Answer
	named *Answer // with a list that the asker could go on with; it does not count
}

func (q *Asker) tally(answers []Answer) (t tally) {
	for i := range answers {
		a := &answers[i]
		if !q.Counts(a) {
			if a.ID == 0 && a.Conf != nil && q.acceptable(a) {
				t.named = a
			}
			continue
		}
		t.all++
		switch {
		case a.Removed || a.Conf != nil && slices.Contains(a.Conf.Removed, q.Self):
			t.removed++
		case a.Conf != nil:
			t.lists = append(t.lists, a)
			if known := a.Conf.Incarnation(q.Self); known != 0 && known != q.Incarnation {
				t.emptied++
			}
		case a.Tries == 0:
			t.untried++
		case a.Tries >= StrandedTries:
			t.gone++
		}
	}
	return t
}

// latest returns the latest list that so many servers know, or all that have answered: they have it or a later one.
func (q *Asker) latest(lists []*Answer, sure int) *Answer {
	slices.SortStableFunc(lists, func(a, b *Answer) int { return cmp.Compare(b.Conf.Index, a.Conf.Index) })
	for _, a := range lists {
		if a.Conf.Index == lists[min(sure, len(lists))-1].Conf.Index && q.acceptable(a) {
			return a
		}
	}
	return nil
}

// acceptable reports whether the asker could go on with a list.
func (q *Asker) acceptable(a *Answer) bool {
	return a.Conf.Index > q.Own.Index && a.Conf.Workable() == nil && a.Conf.Has(q.Self) &&
		(a.Lineage == q.Lineage || q.Fresh)
}
