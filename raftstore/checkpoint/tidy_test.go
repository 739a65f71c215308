package checkpoint

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

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
