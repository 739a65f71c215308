package coordination

import (
	"testing"
)

// numbers are the next ones that a machine gives out.
func (r *rig) numbers(node NodeID) [4]uint64 {
	n := r.machine.nodes[node]
	return [4]uint64{uint64(r.machine.nextNode), uint64(n.nextSession), uint64(n.nextSemaphore),
		uint64(n.nextOrder)}
}

// A lineage moves every counter, once, also those of nodes that come later, and is stored.
func TestLineageMovesCounters(t *testing.T) {
	r := newRig(t)
	node := r.createNode("/local/a", NodeConfig{})
	first, session := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(first, 1, tryLock)
	r.applyAll()
	before := r.numbers(node)
	if before != [4]uint64{uint64(node) + 1, uint64(session) + 1, 2, 2} {
		t.Fatalf("the next numbers are %d", before)
	}
	digest := r.machine.Digest()
	r.applyForeign(r.term, &BeginLineage{})
	if r.machine.Digest() != digest || r.machine.Lineage() != 0 {
		t.Error("lineage 0 is none")
	}
	moved := before
	for _, lineage := range []uint64{7, 3} {
		r.applyForeign(r.term, &BeginLineage{Lineage: lineage})
		for i := range moved {
			moved[i] += LineageJump
		}
		if got := r.numbers(node); got != moved || r.machine.Lineage() != lineage {
			t.Errorf("lineage %d: the next numbers are %d, want %d", r.machine.Lineage(), got, moved)
		}
		if r.machine.Digest() == digest {
			t.Error("the digest is the same")
		}
		digest = r.machine.Digest()
		r.applyForeign(r.term, &BeginLineage{Lineage: lineage})
		if r.numbers(node) != moved || r.machine.Digest() != digest {
			t.Errorf("lineage %d was begun twice", lineage)
		}
	}
	later := r.createNode("/local/b", NodeConfig{})
	if later != NodeID(moved[0]) {
		t.Errorf("the new node is %d, want %d", later, moved[0])
	}
	if got := r.numbers(later); got != [4]uint64{moved[0] + 1, 2*LineageJump + 1, 2*LineageJump + 1,
		2*LineageJump + 1} {
		t.Errorf("the next numbers of a new node are %d", got)
	}
	restored := restoredFrom(t, r.machine.AllRows())
	if restored.Digest() != r.machine.Digest() || restored.lineage != r.machine.lineage {
		t.Errorf("restored with %+v, want %+v", restored.lineage, r.machine.lineage)
	}
}

// Who holds and waits before a lineage begins goes on, in the same order.
func TestLineageKeepsOwnersAndWaiters(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/a", NodeConfig{})
	first, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	second, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(first, 1, tryLock)
	r.request(second, 1, waitLock)
	r.applyAll()
	r.expect("1 #1 done true", "2 #1 pending")
	r.applyForeign(r.term, &BeginLineage{Lineage: 1})
	third, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
	r.request(third, 1, waitLock)
	r.request(first, 2, release)
	r.request(second, 2, release)
	r.applyAll()
	r.expect("3 #1 pending", "1 #2 done true", "2 #1 done true", "2 #2 done true", "3 #1 done true")
}

func restoredFrom(t *testing.T, rows []Row) *Machine {
	t.Helper()
	restorer, err := NewRestorer("/local", DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if err := restorer.Add(row); err != nil {
			t.Fatal(err)
		}
	}
	m, err := restorer.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A leader begins the lineage of its log before anything else, unless the machine has begun it.
func TestLeaderBeginsLineage(t *testing.T) {
	r := newRig(t)
	for _, test := range []struct {
		lineage uint64
		want    int
	}{{0, 0}, {7, 1}, {7, 0}, {8, 1}, {0, 0}} {
		r.lead()
		r.leader.BeginLineage(test.lineage)
		if r.take(); len(r.inFlight) != test.want {
			t.Errorf("lineage %d: %d commands, want %d", test.lineage, len(r.inFlight), test.want)
		}
		r.applyAll()
	}
	if r.machine.Lineage() != 8 {
		t.Errorf("the lineage is %d", r.machine.Lineage())
	}
}
