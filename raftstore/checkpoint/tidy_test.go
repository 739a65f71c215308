package checkpoint

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/rig"
)

// TestWritesAreBounded counts the bytes that merges write, and the files that are left, for checkpoints of all sizes
// over a large base: of new rows, and of the same ones again and again.
func TestWritesAreBounded(t *testing.T) {
	const baseRows = 5000
	runsMerged, basesMerged := 0, 0
	for seed := uint64(1); seed <= 8; seed++ {
		r := rand.New(rand.NewPCG(seed, 5))
		s := New(Options{FS: rig.New(dir), Dir: dir, RunBytes: 20_000, StepBytes: 4000, MergeBytes: 1})
		if err := s.Replace(nil, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		most := []int{1, 8, 60, 400}[seed%4]
		fresh, count := seed%8 < 4, 0
		checkpoint := func(rows int) int64 {
			for range rows {
				key := count
				if count++; !fresh && count > baseRows {
					key = r.IntN(rows)
				}
				s.Put([]Row{{Key: fmt.Appendf(nil, "%08d", key), Value: make([]byte, 30)}})
			}
			before := len(s.named)
			s.Finish([]byte("{}"))
			for durable := false; !durable; {
				var err error
				if durable, err = s.Step(); err != nil {
					t.Fatal(err)
				}
			}
			return bytesOf(s.named[before:])
		}
		checkpoint(baseRows)
		tidyUp := func() (written int64) {
			for more := true; more; {
				merging := s.merged
				var err error
				if more, err = s.Tidy(true); err != nil {
					t.Fatal(err)
				}
				if s.merged != nil || merging == nil {
					continue
				}
				written += merging.file.Bytes
				if merging.first == 0 {
					basesMerged++
				} else {
					runsMerged++
				}
			}
			return written
		}
		tidyUp()
		var given, written, allowed float64
		for range 400 {
			run := float64(checkpoint(1 + r.IntN(most)))
			given += run
			written += float64(tidyUp())
			base := float64(s.named[0].Bytes)
			allowed += run * (4 + math.Log2(base/run))
			if len(s.named) > 2+runsMax+int(math.Log2(base)) {
				t.Fatalf("seed %d: %d files", seed, len(s.named))
			}
			if young := bytesOf(s.named[1:]); float64(young) > base/2 {
				t.Fatalf("seed %d: runs of %d bytes beside a base of %.0f", seed, young, base)
			}
		}
		t.Logf("seed %d: merges write %.1f times what checkpoints of up to %d rows do; %d files", seed, written/given,
			most, len(s.named))
		if written > allowed {
			t.Errorf("seed %d: merges write %.0f bytes, at most %.0f are allowed", seed, written, allowed)
		}
	}
	if runsMerged == 0 || basesMerged == 0 {
		t.Errorf("%d merges of runs, %d of bases", runsMerged, basesMerged)
	}
}

func bytesOf(files []*file) (sum int64) {
	for _, f := range files {
		sum += f.Bytes
	}
	return sum
}

// TestFirstCheckpointOfManyRuns writes a checkpoint of more files than a later one may find: readers and the merge read
// each byte once, and the next checkpoint waits for the merge.
func TestFirstCheckpointOfManyRuns(t *testing.T) {
	fs := &countedReads{FS: rig.New(dir)}
	s := New(Options{FS: fs, Dir: dir, RunBytes: 10_000, StepBytes: 3000, MergeBytes: 1})
	if err := s.Replace(nil, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	const rows = 10_007
	for n := range rows {
		s.Put([]Row{{Key: fmt.Appendf(nil, "%05d", n*31%rows), Value: make([]byte, 30)}})
		stepAll(t, s)
	}
	s.Finish([]byte("{}"))
	for durable := false; !durable; {
		var err error
		if durable, err = s.Step(); err != nil {
			t.Fatal(err)
		}
	}
	many := len(s.named)
	if size := bytesOf(s.named); many <= filesMax || fs.read != 0 || size < 30*rows {
		t.Fatalf("%d files of %d bytes, %d bytes were read", many, size, fs.read)
	}
	expect := func(what string, size int64) {
		t.Helper()
		if fs.read != size {
			t.Errorf("%s: %d bytes were read, not %d", what, fs.read, size)
		}
		fs.read = 0
	}
	p, n := s.Pin(), 0
	for {
		key, _, err := p.Next()
		if err != nil {
			t.Fatal(err)
		}
		if key == nil {
			break
		}
		if string(key) != fmt.Sprintf("%05d", n) {
			t.Fatalf("row %d has key %s", n, key)
		}
		n++
	}
	p.Release()
	expect("reading", bytesOf(s.named))
	all := bytesOf(s.named)
	s.Put([]Row{{Key: []byte("00000"), Delete: true}})
	s.Finish([]byte("{}"))
	stepAll(t, s)
	expect("a checkpoint after it", all)
	if len(s.named) != 2 || n != rows || s.named[0].Rows != rows {
		t.Errorf("%d rows were read, and %d files are left", n, len(s.named))
	}
}

// stepAll steps until there is nothing that has to be done first.
func stepAll(t *testing.T, s *Store) {
	t.Helper()
	for s.Busy() {
		if _, err := s.Step(); err != nil {
			t.Fatal(err)
		}
	}
}

// countedReads counts the bytes that are read.
type countedReads struct {
	files.FS
	read int64
}

// Create implements files.FS.
func (c *countedReads) Create(path string) (files.File, error) {
	f, err := c.FS.Create(path)
	return countedFile{f, c}, err
}

type countedFile struct {
	files.File
	of *countedReads
}

// ReadAt implements io.ReaderAt.
func (f countedFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	f.of.read += int64(n)
	return n, err
}
