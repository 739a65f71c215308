package codec

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
)

func checkRow(t *testing.T, row coordination.Row) {
	t.Helper()
	key, value, deleted := EncodeRow(row)
	if deleted {
		t.Errorf("%#v is encoded as deleted", row)
	}
	back, err := DecodeRow(key, value)
	if err != nil {
		t.Fatalf("%#v: %v", row, err)
	}
	if !reflect.DeepEqual(back, row) {
		t.Errorf("stored %#v\n   got %#v", row, back)
	}
	gone, none, deleted := EncodeRow(coordination.DeletedRow{Deleted: row.Key()})
	if !bytes.Equal(gone, key) || none != nil || !deleted {
		t.Errorf("the deletion of %x is encoded as %x, %x, %v", key, gone, none, deleted)
	}
}

func TestRowsComeBack(t *testing.T) {
	for _, row := range allRows() {
		checkRow(t, row)
	}
	for _, row := range filledRows(&filler{}) {
		checkRow(t, row)
	}
	const seed = 1
	for round := range 300 {
		for _, row := range filledRows(&filler{random: rand.New(rand.NewPCG(seed, uint64(round)))}) {
			checkRow(t, row)
		}
		if t.Failed() {
			t.Fatalf("seed %d, round %d", seed, round)
		}
	}
}

// What a row refers to comes before it, and the rows of a node lie together.
func TestOrderOfKeys(t *testing.T) {
	ordered := []coordination.Row{coordination.MachineRow{}}
	for _, id := range []uint64{1, 2, 255, 256, math.MaxUint64} {
		ordered = append(ordered, coordination.PathRow{Entry: scheme.Entry{ID: scheme.EntryID(id)}})
	}
	for _, node := range []coordination.NodeID{1, 255, 256, math.MaxUint64} {
		ordered = append(ordered, coordination.NodeRow{ID: node})
		for _, id := range []uint64{1, 256, math.MaxUint64} {
			ordered = append(ordered, coordination.SessionRow{Node: node, ID: coordination.SessionID(id)})
		}
		for _, id := range []uint64{1, 256, math.MaxUint64} {
			ordered = append(ordered, coordination.SemaphoreRow{Node: node, ID: coordination.SemaphoreID(id)})
		}
		for _, id := range []uint64{1, 256, math.MaxUint64} {
			ordered = append(ordered, coordination.LinkRow{Node: node, Order: coordination.OrderID(id)})
		}
	}
	var keys [][]byte
	for _, row := range ordered {
		key, _, _ := EncodeRow(row)
		keys = append(keys, key)
		for _, node := range []coordination.NodeID{1, 255, 256, math.MaxUint64} {
			if got := bytes.HasPrefix(key, NodePrefix(node)); got != (row.Key().Node == node) {
				t.Errorf("key %x under the prefix of node %d: %v", key, node, got)
			}
		}
	}
	if !slices.IsSortedFunc(keys, bytes.Compare) {
		t.Errorf("keys out of order: %x", keys)
	}
}

func TestBrokenRows(t *testing.T) {
	machine, machineValue, _ := EncodeRow(coordination.MachineRow{Index: 5})
	session, _, _ := EncodeRow(coordination.SessionRow{Node: 1, ID: 2})
	change := func(key []byte, at int, to byte) string {
		key = slices.Clone(key)
		key[at] = to
		return string(key)
	}
	cases := []struct {
		name, key, value, want string
	}{
		{"no key", "", "\x01", "a key of 0 bytes"},
		{"a short key", string(machine[:16]), "\x01", "a key of 16 bytes"},
		{"a long key", string(machine) + "\x00", "\x01", "a key of 18 bytes"},
		{"a longer key", string(machine) + "\x00\x00\x00\x01", "\x01", "a place where there is none"},
		{"a session with a place", string(session) + "\x00\x00\x00\x01", "\x01",
			"a place where there is none"},
		{"a user with place 0",
			change(session, 7, 0)[:8] + "\x07" + string(session[9:]) + "\x00\x00\x00\x00", "\x01",
			"a place where there is none"},
		{"a user with a place", change(session, 7, 0)[:8] + "\x07" + string(session[9:]) + "\x00\x00\x00\x01",
			"\x01", "format version 1, and not 2"},
		{"a stamp of the first version", string(machine), string(machineValue) + "\x30\x01",
			"format version 1, and not 2"},
		{"a later version than its form's", string(machine),
			"\x02" + string(machineValue[1:]), "format version 2, and not 1"},
		{"kind 0", change(machine, 8, 0), "\x01", "of kind 0"},
		{"a later kind", change(machine, 8, 10), "\x01", "of kind 10"},
		{"a machine row of a node", change(machine, 7, 1), "\x01", "an id where there is none"},
		{"a second machine row", change(machine, 16, 1), "\x01", "an id where there is none"},
		{"a resource of no node", change(session, 7, 0)[:8] + "\x09" + string(session[9:]), "\x01",
			"none where there is one"},
		{"a resource of the first version",
			string(session[:8]) + "\x09" + string(session[9:]), "\x01", "format version 1, and not 2"},
		{"a path without an id", change(machine, 8, 2), "\x01", "none where there is one"},
		{"a node row without a node", change(machine, 8, 3), "\x01", "none where there is one"},
		{"a user without an id", change(machine, 8, 7), "\x01", "none where there is one"},
		{"a session of no node", change(session, 7, 0), "\x01", "none where there is one"},
		{"session 0", change(session, 16, 0), "\x01", "none where there is one"},
		{"no value", string(machine), "", "has no value"},
		{"a later version", string(machine), "\x04", "format version 4"},
		{"a later field", string(machine), string(machineValue) + "\x38\x01", "field 7 of type 0 is unknown"},
		{"half a value", string(machine), string(machineValue[:2]), "EOF"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			row, err := DecodeRow([]byte(c.key), []byte(c.value))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %#v, %v; want an error with %q", row, err, c.want)
			}
			if row != nil {
				t.Error("an error comes with a row")
			}
		})
	}
}

// Rows are read from memory that is gone when the call returns.
func TestRowsShareNoMemory(t *testing.T) {
	for _, row := range filledRows(&filler{}) {
		key, value, _ := EncodeRow(row)
		back, err := DecodeRow(key, value)
		if err != nil {
			t.Fatal(err)
		}
		clear(key)
		clear(value)
		if !reflect.DeepEqual(back, row) {
			t.Errorf("%#v has become %#v", row, back)
		}
	}
}

type strangeRow struct{ coordination.Row }

func TestUnknownRowPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	EncodeRow(strangeRow{coordination.MachineRow{}})
}

// A row counts towards the limit of the state what it is encoded at least, whatever its numbers, and not much
// more than its texts and data are and its charge.
func TestRowsCountWhatTheyAreEncoded(t *testing.T) {
	const seed = 4
	for round := range 2000 {
		f := &filler{random: rand.New(rand.NewPCG(seed, uint64(round)))}
		for _, row := range filledRows(f) {
			if sem, is := row.(coordination.SemaphoreRow); is {
				sem.Author = sem.Author[:min(len(sem.Author), coordination.MaxAuthorBytes)]
				row = sem
			}
			key, value, _ := EncodeRow(row)
			if counts := coordination.RowBytes(row); counts < uint64(len(key)+len(value)) ||
				counts > uint64(len(key)+len(value)+2048) {
				t.Fatalf("seed %d, round %d: %T counts %d bytes, it is encoded in %d: %+v", seed, round, row,
					counts, len(key)+len(value), row)
			}
		}
	}
}
