package checkpoint

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// TestReadersBesideMerges reads checkpoints from several goroutines while others are written and merged: each reader
// sees one checkpoint, whole. Every row of a checkpoint has the number of it or, if it was not changed since, a lower
// one; row 0 is of each.
func TestReadersBesideMerges(t *testing.T) {
	s := New(Options{Dir: t.TempDir(), RunBytes: 4000, StepBytes: 1000, MergeBytes: 2000})
	if err := s.Replace(nil, []byte("0")); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var reads, merges atomic.Int64
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for !over.Load() {
				if err := readOne(s); err != nil {
					t.Error(err)
					return
				}
				reads.Add(1)
			}
		})
	}
	for n := 1; n <= 60 || reads.Load() < 20 && !t.Failed(); n++ {
		for i := range 50 {
			if i == 0 || (i*7+n)%3 == 0 {
				s.Put([]Row{{Key: fmt.Appendf(nil, "%02d", i), Value: fmt.Append(nil, n)}})
			}
		}
		s.Finish(fmt.Append(nil, n))
		for durable := false; !durable; {
			var err error
			if durable, err = s.Step(); err != nil {
				t.Fatal(err)
			}
			merging := s.merged != nil
			if _, err := s.Tidy(true); err != nil {
				t.Fatal(err)
			}
			if merging && s.merged == nil {
				merges.Add(1)
			}
		}
	}
	over.Store(true)
	readers.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if merges.Load() == 0 {
		t.Error("nothing was merged")
	}
}

// readOne reads a checkpoint and compares it with its record.
func readOne(s *Store) error {
	p := s.Pin()
	defer p.Release()
	first := ""
	for {
		key, stored, err := p.Next()
		if err != nil {
			return err
		}
		if key == nil {
			break
		}
		value := Value(stored)
		if first == "" {
			first = string(value)
		}
		var n, of int
		fmt.Sscan(string(value), &n)
		fmt.Sscan(string(p.Record), &of)
		if n > of {
			return fmt.Errorf("checkpoint %d has row %s of %d", of, key, n)
		}
	}
	if first != string(p.Record) && string(p.Record) != "0" {
		return fmt.Errorf("checkpoint %s has the first row of %s", p.Record, first)
	}
	return nil
}
