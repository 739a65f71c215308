package coordination

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coordd/coordd/coordination/revisions"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// TestFormerVersionsAreRemembered draws changes, and compares what is remembered with all states that the data had:
// those that lasted for a second, the last ten of them, as far as the history of the node allows.
func TestFormerVersionsAreRemembered(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	r := newVersionsRig(t)
	r.apply(&CreateSemaphore{Origin: r.origin(), Name: "s", Limit: 1})
	var want []revisions.Revision
	remembered := 0
	for step := range 500 {
		r.stamp += random.Uint64N(2000)
		before := r.machine.FindSemaphore(1, "s")
		switch n := random.IntN(40); {
		case n == 0:
			history := History(random.IntN(3))
			r.apply(&SetHistory{Path: pathOf("/local/n"), History: history})
			if history == HistoryNone {
				want = nil
			}
			for i := range want {
				if history == HistoryMeta {
					want[i].Data, want[i].Kept = nil, false
				}
			}
		case n == 1:
			r.apply(&DeleteSemaphore{Origin: r.origin(), Name: "s"})
			if _, left := Revisions(r.machine, 1, before.ID); left != nil {
				t.Fatalf("seed %d: %d versions of a deleted semaphore are left", seed, len(left))
			}
			r.apply(&CreateSemaphore{Origin: r.origin(), Name: "s", Limit: 1})
			want = nil
		default:
			r.apply(&UpdateSemaphore{Origin: r.origin(), Name: "s", Data: fmt.Append(nil, step/2)})
			history, _ := Revisions(r.machine, 1, before.ID)
			changed := r.machine.FindSemaphore(1, "s").Version != before.Version
			if !changed || history == HistoryNone || r.stamp-before.ChangedMillis < 1000 {
				break
			}
			former := revisions.Revision{Version: before.Version, Millis: before.ChangedMillis, Author: "alice",
				Bytes: len(before.Data)}
			if history == HistoryData {
				former.Data, former.Kept = before.Data, true
			}
			want = append(want, former)
			want = want[max(0, len(want)-revisions.MaxOfSemaphore):]
			remembered++
		}
		_, got := Revisions(r.machine, 1, r.machine.FindSemaphore(1, "s").ID)
		if !slices.EqualFunc(got, want, func(a, b revisions.Revision) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
			t.Fatalf("seed %d, step %d: %v is remembered, want %v", seed, step, got, want)
		}
	}
	if remembered == 0 {
		t.Errorf("seed %d: nothing was remembered", seed)
	}
	id := r.machine.FindSemaphore(1, "s").ID
	r.apply(&DropNode{Path: pathOf("/local/n")})
	if history, left := Revisions(r.machine, 1, id); left != nil || history != HistoryNone {
		t.Errorf("seed %d: %d versions of a dropped node are left", seed, len(left))
	}
}

// TestHistoryOfANode: a caller that may alter the node sets it, it is stored, and the state does not depend on
// revisions.
func TestHistoryOfANode(t *testing.T) {
	r := newVersionsRig(t)
	history := func() History {
		set, _ := Revisions(r.machine, 1, 1)
		return set
	}
	set := func(c *SetHistory) outcome.Status {
		effects := r.apply(c)
		return effects[len(effects)-1].Outcome.Status
	}
	for _, test := range []struct {
		c    SetHistory
		want outcome.Status
		then History
	}{
		{SetHistory{Path: pathOf("/local/n"), History: HistoryData}, outcome.Success, HistoryData},
		{SetHistory{Path: pathOf("/local/n"), History: HistoryData + 1}, outcome.BadRequest, HistoryData},
		{SetHistory{Path: pathOf("/local/m")}, outcome.SchemeError, HistoryData},
		{SetHistory{Path: pathOf("/local/n"), Caller: Caller{Subject: "eve", Enforced: true}}, outcome.Unauthorized,
			HistoryData},
		{SetHistory{Path: pathOf("/local/n"), History: HistoryNone}, outcome.Success, HistoryNone},
	} {
		if got := set(&test.c); got != test.want {
			t.Errorf("%+v: %s, want %s", test.c, got, test.want)
		}
		if r.reload(); history() != test.then {
			t.Errorf("%+v: it is %d then", test.c, history())
		}
	}
	set(&SetHistory{Path: scheme.SplitLoose("/local/n"), History: HistoryData})
	r.apply(&CreateSemaphore{Origin: r.origin(), Name: "s", Limit: 1})
	r.stamp += 5000
	other := restoredFrom(t, r.machine.AllRows())
	for _, m := range []*Machine{r.machine, other} {
		m.ApplyEntry(&Entry{Index: r.index + 1, Term: 1, StampMillis: r.stamp, Commands: []Command{
			&UpdateSemaphore{Origin: r.origin(), Name: "s", Data: []byte("x")}}})
		other.revisions = revisions.Store{} // as after a restart
	}
	if r.machine.Digest() != other.Digest() {
		t.Error("what is remembered is part of the state")
	}
}

// TestTheSameHistoryAgain: a node keeps versions without data. To set that once more, as an import does, takes nothing
// away; and a node that kept the data as well keeps all but that.
func TestTheSameHistoryAgain(t *testing.T) {
	for _, before := range []History{HistoryMeta, HistoryData} {
		r := newVersionsRig(t)
		r.apply(&SetHistory{Path: pathOf("/local/n"), History: before})
		r.apply(&CreateSemaphore{Origin: r.origin(), Name: "s", Limit: 1})
		for i := range 5 {
			r.stamp += 2000
			r.apply(&UpdateSemaphore{Origin: r.origin(), Name: "s", Data: []byte{byte(i)}})
		}
		r.apply(&SetHistory{Path: pathOf("/local/n"), History: HistoryMeta})
		_, got := Revisions(r.machine, 1, r.machine.FindSemaphore(1, "s").ID)
		for _, v := range got {
			if v.Kept || v.Data != nil {
				t.Errorf("from %d: data is kept: %+v", before, v)
			}
		}
		if len(got) != 5 {
			t.Errorf("from %d: %d of 5 former versions are left", before, len(got))
		}
	}
}

// TestVersionsWhileTheClockStands: the clock of the leader was put back, so stamps stand still for an hour. What
// lasts for a minute by the time that leaders have served is remembered.
func TestVersionsWhileTheClockStands(t *testing.T) {
	r := newVersionsRig(t)
	r.apply(&CreateSemaphore{Origin: r.origin(), Name: "s", Limit: 1})
	served := uint64(1)
	for i := range 5 {
		served += 60_000
		r.index++
		update := &UpdateSemaphore{Origin: r.origin(), Name: "s", Data: []byte{byte(i)}}
		r.machine.ApplyEntry(&Entry{Index: r.index, Term: 1, StampMillis: r.stamp, ServedMillis: served,
			Versions: true, Commands: []Command{update}})
	}
	if _, got := Revisions(r.machine, 1, r.machine.FindSemaphore(1, "s").ID); len(got) < 4 {
		t.Errorf("of versions of a minute each %d are remembered: %+v", len(got), got)
	}
}
