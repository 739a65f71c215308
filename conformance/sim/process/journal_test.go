package process

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/coordd/coordd/coordination"
)

// What a killed process has written is read up to the last whole record.
func TestJournal(t *testing.T) {
	m, err := coordination.NewMachine("/local", coordination.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	entries := []coordination.Entry{{Index: 1, Term: 1}, {Index: 2, Term: 1, StampMillis: 7,
		Commands: []coordination.Command{&coordination.CreateNode{Path: []string{"local", "a"}}}},
		{Index: 3, Term: 4}}
	var text []byte
	ends := []int{0}
	for i := range entries {
		text = Append(text, m, &entries[i])
		m.ApplyEntry(&entries[i])
		ends = append(ends, len(text))
	}
	file := filepath.Join(t.TempDir(), "journal")
	if list, err := Read(file); err != nil || list != nil {
		t.Fatalf("no journal: %v, %v", list, err)
	}
	for length := range len(text) + 1 {
		if err := os.WriteFile(file, text[:length], 0o600); err != nil {
			t.Fatal(err)
		}
		want := 0
		for want+1 < len(ends) && ends[want+1] <= length {
			want++
		}
		list, err := Read(file)
		if err != nil || len(list) != want {
			t.Fatalf("%d of %d bytes: %d records, want %d, %v", length, len(text), len(list), want, err)
		}
		for i, e := range list {
			if !reflect.DeepEqual(e.Entry, entries[i]) || e.Before != coordination.Index(i) {
				t.Fatalf("record %d: %+v before %d, want %+v", i, e.Entry, e.Before, entries[i])
			}
		}
	}
}
