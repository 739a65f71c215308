package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/coordd/coordd/raftstore/files"
)

func stream(t testing.TB, rows int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out, "a stream", 100)
	for i := range rows {
		key := fmt.Appendf(nil, "%04d", i)
		if err := w.Row(key, Stored(key, fmt.Append(nil, "value ", i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish([]byte("record")); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestStream(t *testing.T) {
	b := stream(t, 100)
	r := NewReader(bytes.NewReader(b), "a stream", "it")
	n := 0
	for {
		more, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
		if value := Value(r.Stored); string(value) != fmt.Sprint("value ", n) {
			t.Fatalf("%s: %q", r.Key, value)
		}
		n++
	}
	if n != 100 || string(r.Record) != "record" || r.Totals().Bytes != int64(len(b)) {
		t.Errorf("%d rows, record %q, totals %+v", n, r.Record, r.Totals())
	}
}

// TestLimitsOfARow writes rows at the limits and beyond them.
func TestLimitsOfARow(t *testing.T) {
	for _, test := range []struct {
		key, stored int
		fits        bool
	}{
		{1, storedBytes, true}, {KeyMax, storedBytes, true}, {1, StoredMax, true},
		{0, storedBytes, false}, {KeyMax + 1, storedBytes, false}, {1, StoredMax + 1, false},
	} {
		var out bytes.Buffer
		w := NewWriter(&out, "a stream", 100)
		key := bytes.Repeat([]byte("k"), test.key)
		err := w.Row(key, Stored(key, make([]byte, test.stored-storedBytes)))
		if fits := err == nil; fits != test.fits {
			t.Errorf("a row of %d and %d bytes: %v", test.key, test.stored, err)
		}
		if _, end := w.Finish(nil); end == nil && !test.fits {
			t.Error("a stream that failed was finished")
		}
		if test.fits {
			r := NewReader(&out, "a stream", "it")
			if more, err := r.Next(); !more || err != nil || len(r.Key) != test.key || len(r.Stored) != test.stored {
				t.Errorf("a row of %d and %d bytes was read as %d and %d: %v", test.key, test.stored, len(r.Key),
					len(r.Stored), err)
			}
		}
	}
}

func TestRowsOutOfOrder(t *testing.T) {
	for _, keys := range [][]string{{"b", "a"}, {"a", "a"}, {"a", "c", "b"}} {
		w := NewWriter(&bytes.Buffer{}, "a stream", 100)
		var err error
		for _, key := range keys {
			err = w.Row([]byte(key), Stored([]byte(key), nil))
		}
		if err == nil || !strings.Contains(err.Error(), "comes behind") {
			t.Errorf("%q: %v", keys, err)
		}
	}
}

// TestOtherFormats reads streams that are something else.
func TestOtherFormats(t *testing.T) {
	b := stream(t, 1)
	b[8] = 2
	if _, err := NewReader(bytes.NewReader(b), "a stream", "it").Next(); !errors.As(err, new(*files.FormatError)) {
		t.Errorf("a stream of format 2: %v", err)
	}
	for _, text := range []string{"", "a", "a streak of light", "a stream"} {
		_, err := NewReader(strings.NewReader(text), "a stream", "it").Next()
		if !errors.As(err, new(*files.DamageError)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(stream(f, 3), "a stream")
	f.Add(bytes.Replace(stream(f, 3), []byte("a stream"), []byte(magic), 1), magic)
	f.Fuzz(func(t *testing.T, b []byte, begins string) {
		r := NewReader(bytes.NewReader(b), begins, "it")
		var last []byte
		for {
			more, err := r.Next()
			if err != nil || !more {
				return
			}
			if err := CheckRow("it", r.Key, r.Stored); err != nil && (r.Stored[0] == kindRow || begins != magic) {
				t.Fatal(err)
			}
			if r.Stored[0] == kindRow && bytes.Compare(last, r.Key) >= 0 {
				t.Fatalf("%q comes after %q", r.Key, last)
			}
			if r.Stored[0] == kindRow {
				last = bytes.Clone(r.Key)
			}
		}
	})
}
