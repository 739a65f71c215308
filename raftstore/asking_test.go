package raftstore

import (
	"errors"
	"testing"
)

// Whose word a member follows when it asks who belongs to the cluster.
func TestWhoseWordCounts(t *testing.T) {
	members := func(index uint64, ids ...uint64) *confRecord {
		return &confRecord{Index: index, Voters: ids}
	}
	says := func(id uint64, conf *confRecord) askedServer { return askedServer{id: id, conf: conf} }
	silent := func(id uint64, failures int) askedServer {
		return askedServer{id: id, failures: failures, err: errors.New("refused")}
	}
	removed := func(id uint64) askedServer { return askedServer{id: id, removed: true, failures: 1} }
	emptied := &confRecord{Index: 10, Voters: []uint64{1, 2, 3},
		Members: []memberRecord{{ID: 1, Incarnation: 8}}}
	old, without3, forged := members(10, 1, 2, 3), members(20, 1, 2, 4), members(1<<60, 1, 3, 66)
	named := func(conf *confRecord) askedServer { return askedServer{conf: conf} }
	for name, tc := range map[string]struct {
		list           *confRecord
		fresh, patient bool
		asked          []askedServer
		done           bool
		adopt          *confRecord
		fails          error
	}{
		"alone": {list: members(10, 1), done: true},
		"nobody has answered": {list: old,
			asked: []askedServer{silent(2, 0), silent(3, 0)}},
		"one answers, one is yet to": {list: old, asked: []askedServer{says(2, old), silent(3, 0)}},
		"one answers, one is down": {list: old, asked: []askedServer{says(2, old), silent(3, 1)},
			done: true},
		"the others are down": {list: old,
			asked: []askedServer{silent(2, 99), silent(3, 99)}},
		"both say the same": {list: old, asked: []askedServer{says(2, old), says(3, old)},
			done: true},
		"a later list from the only one": {list: old,
			asked: []askedServer{says(2, without3), silent(3, 1)}, done: true, adopt: without3},
		"one makes a list up": {list: old,
			asked: []askedServer{says(2, old), says(3, forged)}, done: true},
		"one makes a list up against a removal": {list: old,
			asked: []askedServer{says(2, without3), says(3, forged)}, done: true, adopt: without3},
		"a list without this member": {list: old,
			asked: []askedServer{says(2, members(20, 2, 3)), says(3, members(20, 2, 3))}, done: true},
		"of five, one other answers": {list: members(10, 1, 2, 3, 4, 5),
			asked: []askedServer{says(2, old), silent(3, 1), silent(4, 1), silent(5, 1)}},
		"of five, two others answer": {list: members(10, 1, 2, 3, 4, 5),
			asked: []askedServer{says(2, without3), says(3, forged), silent(4, 1), silent(5, 1)}, done: true,
			adopt: without3},
		"a learner with one of three": {list: &confRecord{Index: 10,
			Voters: []uint64{2, 3, 4}, Learners: []uint64{1}},
			asked: []askedServer{says(2, old), silent(3, 9), silent(4, 9)}},
		"a fresh one with one of three": {list: members(1, 1, 2, 3), fresh: true,
			asked: []askedServer{says(2, without3), silent(3, 1)}, done: true, adopt: without3},
		"a fresh one and a named server": {list: &confRecord{}, fresh: true,
			asked: []askedServer{named(without3)}, done: true, adopt: without3},
		"a named server, members answer": {list: old,
			asked: []askedServer{says(2, old), silent(3, 1), named(forged)}, done: true},
		"a named server, too early": {list: old,
			asked: []askedServer{silent(2, 1), silent(3, 1), named(without3)}},
		"a named server, nobody else for long": {list: old,
			asked: []askedServer{silent(2, strandedTries), silent(3, strandedTries), named(without3)},
			adopt: without3},
		"removed, says one of two": {list: old,
			asked: []askedServer{removed(2), says(3, old)}, done: true},
		"removed, say both": {list: old, asked: []askedServer{removed(2), removed(3)},
			done: true, fails: ErrRemoved},
		"removed, says one, one is down": {list: old,
			asked: []askedServer{removed(2), silent(3, 1)}},
		"removed, says one, one is gone": {list: old,
			asked: []askedServer{removed(2), silent(3, strandedTries)}, done: true, fails: ErrRemoved},
		"emptied, says one of two": {list: old, asked: []askedServer{says(2, emptied), says(3, old)},
			done: true},
		"a fresh one was emptied, says one of two": {list: old, fresh: true,
			asked: []askedServer{says(2, old), says(3, emptied)}, done: true, fails: ErrEmptied},
		"a fresh one and two of three": {list: old, fresh: true,
			asked: []askedServer{says(2, old), silent(3, 1)}, done: true},
		"a patient one and two of three": {list: old, fresh: true, patient: true,
			asked: []askedServer{says(2, old), silent(3, 9)}},
		"a patient one and all": {list: old, fresh: true, patient: true,
			asked: []askedServer{says(2, old), says(3, old)}, done: true},
		"emptied, say both": {list: old,
			asked: []askedServer{says(2, emptied), says(3, emptied)}, done: true, fails: ErrEmptied},
	} {
		t.Run(name, func(t *testing.T) {
			q := asking{self: identity{Member: 1, Incarnation: 7}, list: *tc.list, fresh: tc.fresh, patient: tc.patient,
				asked: tc.asked}
			got := q.judge()
			if got.done != tc.done || !errors.Is(got.failure, tc.fails) ||
				(got.adopt == nil) != (tc.adopt == nil) ||
				got.adopt != nil && got.adopt.conf != tc.adopt {
				t.Errorf("got %+v", got)
			}
		})
	}
	// A list of another lineage is of a cluster that has gone on without this member.
	q := asking{self: identity{Member: 1}, list: *old, lineage: 5,
		asked: []askedServer{says(2, without3), silent(3, 1)}}
	if got := q.judge(); got.adopt != nil {
		t.Errorf("took %+v", got.adopt)
	}
}
