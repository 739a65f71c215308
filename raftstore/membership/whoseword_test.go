package membership

import "testing"

// The list that a member follows when it asks for the members of the cluster.
func TestWhoseWordCounts(t *testing.T) {
	members := func(index uint64, ids ...uint64) *Conf {
		return &Conf{Index: index, Voters: ids}
	}
	says := func(id uint64, conf *Conf) Answer { return Answer{ID: id, Conf: conf} }
	silent := func(id uint64, failures int) Answer {
		return Answer{ID: id, Tries: failures}
	}
	removed := func(id uint64) Answer { return Answer{ID: id, Removed: true, Tries: 1} }
	emptied := &Conf{Index: 10, Voters: []uint64{1, 2, 3},
		Members: []Record{{ID: 1, Incarnation: 8}}}
	old, without3, forged := members(10, 1, 2, 3), members(20, 1, 2, 4), members(1<<60, 1, 3, 66)
	named := func(conf *Conf) Answer { return Answer{Conf: conf} }
	for name, tc := range map[string]struct {
		list           *Conf
		fresh, patient bool
		asked          []Answer
		done           bool
		adopt          *Conf
		fate           string
	}{
		"alone": {list: members(10, 1), done: true},
		"nobody has answered": {list: old,
			asked: []Answer{silent(2, 0), silent(3, 0)}},
		"one answers, one is yet to": {list: old, asked: []Answer{says(2, old), silent(3, 0)}},
		"one answers, one is down": {list: old, asked: []Answer{says(2, old), silent(3, 1)},
			done: true},
		"the others are down": {list: old,
			asked: []Answer{silent(2, 99), silent(3, 99)}},
		"both say the same": {list: old, asked: []Answer{says(2, old), says(3, old)},
			done: true},
		"a later list from the only one": {list: old,
			asked: []Answer{says(2, without3), silent(3, 1)}, done: true, adopt: without3},
		"one makes a list up": {list: old,
			asked: []Answer{says(2, old), says(3, forged)}, done: true},
		"one makes a list up against a removal": {list: old,
			asked: []Answer{says(2, without3), says(3, forged)}, done: true, adopt: without3},
		"a list without this member": {list: old,
			asked: []Answer{says(2, members(20, 2, 3)), says(3, members(20, 2, 3))}, done: true},
		"of five, one other answers": {list: members(10, 1, 2, 3, 4, 5),
			asked: []Answer{says(2, old), silent(3, 1), silent(4, 1), silent(5, 1)}},
		"of five, two others answer": {list: members(10, 1, 2, 3, 4, 5),
			asked: []Answer{says(2, without3), says(3, forged), silent(4, 1), silent(5, 1)}, done: true,
			adopt: without3},
		"a learner with one of three": {list: &Conf{Index: 10,
			Voters: []uint64{2, 3, 4}, Learners: []uint64{1}},
			asked: []Answer{says(2, old), silent(3, 9), silent(4, 9)}},
		"a fresh one with one of three": {list: members(1, 1, 2, 3), fresh: true,
			asked: []Answer{says(2, without3), silent(3, 1)}, done: true, adopt: without3},
		"a fresh one and a named server": {list: &Conf{}, fresh: true,
			asked: []Answer{named(without3)}, done: true, adopt: without3},
		"a named server, members answer": {list: old,
			asked: []Answer{says(2, old), silent(3, 1), named(forged)}, done: true},
		"a named server, too early": {list: old,
			asked: []Answer{silent(2, 1), silent(3, 1), named(without3)}},
		"a named server, nobody else for long": {list: old,
			asked: []Answer{silent(2, StrandedTries), silent(3, StrandedTries), named(without3)},
			adopt: without3},
		"removed, says one of two": {list: old,
			asked: []Answer{removed(2), says(3, old)}, done: true},
		"removed, say both": {list: old, asked: []Answer{removed(2), removed(3)},
			done: true, fate: "removed"},
		"removed, says one, one is down": {list: old,
			asked: []Answer{removed(2), silent(3, 1)}},
		"removed, says one, one is gone": {list: old,
			asked: []Answer{removed(2), silent(3, StrandedTries)}, done: true, fate: "removed"},
		"emptied, says one of two": {list: old, asked: []Answer{says(2, emptied), says(3, old)},
			done: true},
		"a fresh one was emptied, says one of two": {list: old, fresh: true,
			asked: []Answer{says(2, old), says(3, emptied)}, done: true, fate: "emptied"},
		"a fresh one and two of three": {list: old, fresh: true,
			asked: []Answer{says(2, old), silent(3, 1)}, done: true},
		"a patient one and two of three": {list: old, fresh: true, patient: true,
			asked: []Answer{says(2, old), silent(3, 9)}},
		"a patient one and all": {list: old, fresh: true, patient: true,
			asked: []Answer{says(2, old), says(3, old)}, done: true},
		"emptied, say both": {list: old,
			asked: []Answer{says(2, emptied), says(3, emptied)}, done: true, fate: "emptied"},
	} {
		t.Run(name, func(t *testing.T) {
			q := Asker{Self: 1, Incarnation: 7, Own: *tc.list, Fresh: tc.fresh, Patient: tc.patient}
			got := q.Judge(tc.asked)
			if got.Done != tc.done || got.Removed != (tc.fate == "removed") || got.Emptied != (tc.fate == "emptied") ||
				(got.Adopt == nil) != (tc.adopt == nil) || got.Adopt != nil && got.Adopt.Conf != tc.adopt {
				t.Errorf("got %+v", got)
			}
		})
	}
	// A list of another lineage is of a cluster that has gone on without this member.
	q := Asker{Self: 1, Own: *old, Lineage: 5}
	if got := q.Judge([]Answer{says(2, without3), silent(3, 1)}); got.Adopt != nil {
		t.Errorf("took %+v", got.Adopt)
	}
}
