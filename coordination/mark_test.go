package coordination

import (
	"testing"
)

// TestMarkIsDue goes through what makes a mark due, and what does not.
func TestMarkIsDue(t *testing.T) {
	const period = 1000
	r := newRig(t)
	r.replica.SetMarkPolicy(MarkPolicy{Commands: 3, PeriodMillis: period})
	want := func(what string, want Instant) {
		t.Helper()
		if got := r.replica.MarkDue(); got != want {
			t.Errorf("%s: due at %d, want %d; it is %d", what, got, want, r.now)
		}
	}
	mark := func() []Command {
		r.replica.Mark()
		return r.replica.Take().Commands
	}
	want("nothing has changed", Never)
	if commands := mark(); len(commands) > 0 {
		t.Errorf("nothing has changed: put out %v", commands)
	}
	first := r.now
	r.commit(r.term, makeA(1))
	want("one command", first.After(period))
	r.now++
	r.commit(r.term, makeA(2))
	want("two commands: the first counts", first.After(period))
	r.commit(r.term, makeA(3))
	if due := r.replica.MarkDue(); due > r.now {
		t.Errorf("as many commands as there may be: due at %d, it is %d", due, r.now)
	}
	if commands := mark(); len(commands) != 1 || !(&Entry{Commands: commands}).Marked() {
		t.Fatalf("put out %v", commands)
	}
	want("a mark is on its way", Never)
	if commands := mark(); len(commands) > 0 {
		t.Errorf("a mark is on its way: put out %v", commands)
	}
	r.commit(r.term, makeA(4)) // ahead of the mark
	r.commit(r.term, &Mark{})
	want("nothing behind the mark", Never)
	r.commit(r.term, nil)
	want("a new leader changes nothing", Never)
	r.commit(r.term, &Age{})
	want("time alone changes nothing", Never)
	second := r.now
	r.commit(r.term, makeA(5))
	want("one command behind the mark", second.After(period))

	mark()
	r.lead()
	want("the mark was lost with its reign", second.After(period))
	r.replica.Following()
	want("it does not lead", Never)
	if commands := mark(); len(commands) > 0 {
		t.Errorf("it does not lead: put out %v", commands)
	}
	r.commit(r.term, &Mark{})
	r.lead()
	want("another leader has marked", Never)
	third := r.now
	r.commit(r.term, makeA(6))
	r.replica.SetMarkPolicy(MarkPolicy{PeriodMillis: period})
	for call := uint64(7); call < 20; call++ {
		r.commit(r.term, makeA(call))
	}
	want("any number of commands", third.After(period))
	r.replica.SetMarkPolicy(MarkPolicy{})
	want("no policy", Never)
}

// TestMarkChangesNothing: a mark has no effects and leaves the digest as it was, and it has an entry of its
// own.
func TestMarkChangesNothing(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/n", relaxed)
	before := r.machine.Digest()
	if effects := r.machine.Apply(r.machine.Index()+1, r.term, &Mark{}); len(effects) > 0 ||
		r.machine.Digest() != before {
		t.Errorf("effects %v, digest %x, before %x", effects, r.machine.Digest(), before)
	}
	for _, commands := range [][]Command{nil, {makeA(1)}, {&BeginLineage{}}, {&Mark{}, makeA(1)}} {
		if (&Entry{Commands: commands}).Marked() {
			t.Errorf("%v marks", commands)
		}
	}
	if !Alone(&Mark{}) {
		t.Error("a mark may share its entry")
	}
}

// TestMarkedDigests: the digest of a checkpoint is that of the state at its index, whatever checkpoints there
// were before, however its slices are cut, and whatever is executed between them; and a machine that is read from it
// has the same.
func TestMarkedDigests(t *testing.T) {
	machines := make([]*rig, 3)
	for i := range machines {
		machines[i] = newRig(t)
		machines[i].createNode("/local/n", relaxed)
		machines[i].open(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
		machines[i].commitAt(10)
		if i > 0 {
			for cp := machines[i].machine.Freeze(); cp.Next(1) != nil; {
			}
		}
		machines[i].request(1, 1, tryLock)
		machines[i].commitAt(20)
	}
	want := machines[0].machine.Digest()
	for i, r := range machines {
		cp := r.machine.Freeze()
		if _, known := cp.Digest(); known {
			t.Errorf("machine %d: the digest is known before all rows are captured", i)
		}
		rows := cp.Next(1)
		r.request(1, 2, release)
		r.commitAt(30)
		for more := cp.Next(1 + i); more != nil; more = cp.Next(1 + i) {
			rows = append(rows, more...)
		}
		if got, known := cp.Digest(); !known || got != want || rows[len(rows)-1].(MachineRow).Digest != want {
			t.Errorf("machine %d: digest %x, %v, want %x", i, got, known, want)
		}
		if i > 0 {
			continue // only what has changed since the checkpoint before
		}
		restorer, err := NewRestorer("/local", DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []RowKind{RowMachine, RowPath, RowNode, RowSession, RowSemaphore, RowLink} {
			for _, row := range rows {
				if row.Key().Kind != kind {
					continue
				}
				if err := restorer.Add(row); err != nil {
					t.Fatal(err)
				}
			}
		}
		m, err := restorer.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if index, digest := m.RestoredDigest(); index != cp.Index() || digest != want {
			t.Errorf("read back: digest %x as of %d", digest, index)
		}
	}
	if index, digest := machines[0].machine.RestoredDigest(); index != 0 || digest != 0 {
		t.Errorf("a machine that was not read from rows: digest %x as of %d", digest, index)
	}
}
