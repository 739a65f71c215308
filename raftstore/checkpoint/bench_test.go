//go:build unix

package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// BenchmarkCheckpoint writes a checkpoint of new rows in any order, without pauses, merges its files and reads it. It
// reports seconds of processor for each part, and the largest heap at the end of one.
func BenchmarkCheckpoint(b *testing.B) {
	for _, rows := range []int{10_000, 100_000, 1_000_000, 3_000_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			for range b.N {
				o := Options{Dir: b.TempDir()}
				var heap uint64
				part := func(name string, do func() error) {
					begun, cpu := time.Now(), processor()
					if err := do(); err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(time.Since(begun).Seconds(), name+"-s")
					b.ReportMetric((processor() - cpu).Seconds(), name+"-cpu-s")
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					heap = max(heap, m.HeapAlloc)
				}
				s := New(o)
				part("write", func() error { return fill(s, rows) })
				part("merge", func() error { return tidy(s) })
				part("read", func() error { return readAll(o, rows) })
				b.ReportMetric(float64(s.named[0].Bytes)/(1<<20), "MiB")
				b.ReportMetric(float64(heap)/(1<<20), "heap-MiB")
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func fill(s *Store, count int) error {
	if err := s.Replace(nil, []byte("{}")); err != nil {
		return err
	}
	value := make([]byte, 113)
	// a step that has no factor in common with the count visits all of them
	for at, n := uint64(rand.IntN(count)), 0; n < count; n++ {
		at = (at + 7_368_787) % uint64(count)
		key := binary.BigEndian.AppendUint64(append(make([]byte, 0, 17), "12345678 "...), at)
		s.Put([]Row{{Key: key, Value: append([]byte(nil), value...)}})
		for s.Busy() {
			if _, err := s.Step(); err != nil {
				return err
			}
		}
	}
	s.Finish([]byte("{}"))
	for {
		if durable, err := s.Step(); durable || err != nil {
			return err
		}
	}
}

func tidy(s *Store) error {
	for {
		if more, err := s.Tidy(true); !more || err != nil {
			return err
		}
	}
}

func readAll(o Options, want int) error {
	i, err := Inspect(o, func(_, _ []byte) error { return nil })
	if err != nil {
		return err
	}
	i.Close()
	if i.Rows != uint64(want) {
		return fmt.Errorf("%d rows, want %d", i.Rows, want)
	}
	return nil
}

// processor returns the time of processors that the process has used.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
