package raftstore

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// newSegment makes the first segment of an empty log.
func newSegment(tb testing.TB, dir string, size int64) *segmentFile {
	tb.Helper()
	fs := &segmentFS{disk: &disk{}, made: func(uint64) error { return nil }}
	f, err := fs.Create(dir, segmentName(1, 1), uint64(size))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	return f.(*segmentFile)
}

// TestZerosAheadOfTheLog appends to a segment, past the end of the zeros several times, and opens it anew
// between. It holds what was appended and zeros behind it, and never grows by the zeros.
func TestZerosAheadOfTheLog(t *testing.T) {
	t.Parallel()
	const size, step = 3*zeroAheadBytes + 5000, 100_000
	dir := t.TempDir()
	f := newSegment(t, dir, size)
	want := make([]byte, size)
	writes := 0 // of zeros
	for end := 0; end < size; {
		data := bytes.Repeat([]byte{byte(end/step + 1)}, min(step, size-end))
		before := f.zeroed
		if n, err := f.WriteAt(data, int64(end)); n != len(data) || err != nil {
			t.Fatalf("at %d: %d bytes written of %d, %v", end, n, len(data), err)
		}
		if f.zeroed != before {
			writes++
		}
		end += copy(want[end:], data)
		if int64(end) < size && f.zeroed < int64(end) {
			t.Fatalf("entries end at %d, zeros at %d", end, f.zeroed)
		}
		if got, err := os.ReadFile(f.f.Name()); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("at %d: the file has %d bytes and differs from what was written, %v", end, len(got), err)
		}
		if end == 7*step { // within the zeros
			again, err := (&segmentFS{disk: f.disk}).OpenWriter(dir, filepath.Base(f.f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = again.Close() })
			f = again.(*segmentFile)
		}
	}
	if most := 4 + 1; writes > most { // and once more since it was opened anew
		t.Errorf("zeros were written %d times for a segment of %d bytes, want at most %d", writes, size, most)
	}
}

// BenchmarkSegment appends to a segment and syncs, as it is done and, for comparison, without zeros ahead of
// the entries.
func BenchmarkSegment(b *testing.B) {
	for _, size := range []int{200, 3_000, 8_000} {
		for _, zeroed := range []bool{false, true} {
			name := "allocated"
			if zeroed {
				name = "zeroed"
			}
			b.Run(fmt.Sprintf("%d/%s", size, name), func(b *testing.B) { benchSegment(b, size, zeroed) })
		}
	}
}

func benchSegment(b *testing.B, size int, zeroed bool) {
	data := bytes.Repeat([]byte{1}, size)
	var f *segmentFile
	begin := func() (end int64) {
		f = newSegment(b, b.TempDir(), DefaultSegmentBytes)
		if !zeroed {
			f.zeroed = f.size
		}
		return 0
	}
	end := begin()
	var times []time.Duration
	for b.Loop() {
		if end+int64(size) > f.size {
			b.StopTimer()
			end = begin()
			b.StartTimer()
		}
		begun := time.Now()
		if _, err := f.WriteAt(data, end); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(begun))
		end += int64(size)
	}
	reportTimes(b, times)
}
