package coordination

import (
	"slices"
	"testing"
)

// commitAt has all commands in flight in one entry with a stamp.
func (r *rig) commitAt(stampMillis uint64) {
	r.t.Helper()
	r.take()
	r.index++
	commands := r.inFlight
	r.inFlight = nil
	r.replica.Committed(r.now, &Entry{Index: r.index, Term: r.term, StampMillis: stampMillis,
		Commands: commands})
	if err := r.machine.Check(); err != nil {
		r.t.Fatal(err)
	}
}

// began is the stamps of all sessions and links, in the order of their rows.
func (r *rig) began() (stamps []uint64) {
	for _, row := range r.machine.AllRows() {
		switch row := row.(type) {
		case SessionRow:
			stamps = append(stamps, row.BeganMillis)
		case LinkRow:
			stamps = append(stamps, row.BeganMillis)
		}
	}
	return stamps
}

// TestStamps follows when sessions, owners and waiters began, over a restart of the server.
func TestStamps(t *testing.T) {
	r := newRig(t)
	r.createNode("/local/n", relaxed)
	r.open(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	r.commitAt(0) // as written before there were stamps
	r.open(AttachRequest{Path: "/local/n", TimeoutMillis: 5000})
	r.commitAt(100)
	wait := func(stamp uint64, stream StreamID, sequence Sequence, request Request, want ...uint64) {
		t.Helper()
		r.request(stream, sequence, request)
		r.commitAt(stamp)
		if got := r.began(); !slices.Equal(got, want) {
			t.Errorf("at %d: began at %d, want %d", stamp, got, want)
		}
	}
	again := tryLock
	again.Data = []byte("x")
	wait(200, 1, 1, tryLock, 0, 100, 200)
	wait(300, 2, 1, waitLock, 0, 100, 200, 300)
	wait(400, 2, 2, waitLock, 0, 100, 200, 300) // it has kept its place all along
	wait(500, 1, 2, again, 0, 100, 200, 300)
	wait(450, 1, 3, release, 0, 100, 500) // let in; and the log's time does not go back
	r.open(AttachRequest{Path: "/local/n", Session: 1, TimeoutMillis: 7000})
	r.commitAt(600)
	if got := r.began(); !slices.Equal(got, []uint64{0, 100, 500}) {
		t.Errorf("attached again: began at %d", got)
	}

	restorer, err := NewRestorer("/local", DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.machine.AllRows() {
		if err := restorer.Add(row); err != nil {
			t.Fatal(err)
		}
	}
	before, digest := r.began(), r.machine.Digest()
	m, err := restorer.Finish()
	if err != nil {
		t.Fatal(err)
	}
	r.start(m)
	if got := r.began(); !slices.Equal(got, before) || m.Digest() != digest {
		t.Errorf("read back: began at %d, before at %d", got, before)
	}
	if got := r.replica.Stamp(7); got != 600 {
		t.Errorf("the clock of the next leader is late: its stamp is %d", got)
	}
}

// A leader's stamps never go back, whatever its clock does and whichever server led before.
func TestStampsNeverGoBack(t *testing.T) {
	r := newRig(t)
	for _, step := range []struct{ wall, entry, want uint64 }{
		{wall: 10, want: 10}, {wall: 9, want: 10}, {wall: 12, want: 12}, {entry: 20, wall: 15, want: 20},
		{entry: 18, wall: 15, want: 20},
		{wall: 0, want: 20}, {wall: 21, want: 21},
	} {
		if step.entry != 0 {
			r.call(makeA(uint64(1 + r.index)))
			r.commitAt(step.entry)
		}
		if got := r.replica.Stamp(step.wall); got != step.want {
			t.Errorf("%+v: got %d", step, got)
		}
	}
}

// What was stored before there were places and stamps has the digest that it had.
func TestDigestsOfTheFirstVersion(t *testing.T) {
	for _, row := range []struct {
		was, now Row
	}{
		{MachineRow{NextNode: 3}, MachineRow{NextNode: 3, StampMillis: 1}},
		{SessionRow{Node: 1, ID: 2}, SessionRow{Node: 1, ID: 2, BeganMillis: 1}},
		{LinkRow{Node: 1, Order: 2}, LinkRow{Node: 1, Order: 2, BeganMillis: 1}},
		{LinkRow{Node: 1, Order: 2}, LinkRow{Node: 1, Order: 2, WaitEpoch: Position{Place: 1}}},
		{LinkRow{Node: 1, BeganMillis: 1}, LinkRow{Node: 1, WaitEpoch: Position{Place: 1}}},
	} {
		if row.was.hash() == row.now.hash() {
			t.Errorf("%+v and %+v have one hash", row.was, row.now)
		}
	}
	for want, row := range map[uint64]Row{
		0x96125f0c6eb82a87: MachineRow{NextNode: 3}, 0xd8d9c6952db90702: SessionRow{Node: 1, ID: 2},
		0x6a569261547c7b87: LinkRow{Node: 1, Order: 2, WaitEpoch: Position{Index: 7}},
	} {
		if got := row.hash(); got != want {
			t.Errorf("%+v has hash %#x, and had %#x", row, got, want)
		}
	}
}
