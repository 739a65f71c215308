package quota

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/coordination"
)

// BenchmarkAcquire acquires from a bucket that has enough, as one that is filled in time.
func BenchmarkAcquire(b *testing.B) {
	w := newWorld(b, 1)
	w.resource(1, 0, usual(1e12))
	s, bucket := w.servers[0], w.bucket(0, 1)
	b.ReportAllocs()
	for i := range b.N {
		w.now += 500 // 2,000,000 in a second
		if !s.Acquire(w.now, bucket, 1) {
			b.Fatal("not granted")
		}
		if i%200_000 == 0 {
			s.Receive(w.now, bucket.Key(), 1e6, 1)
		}
	}
}

// BenchmarkTick shares out units among ten resources of as many as there are.
func BenchmarkTick(b *testing.B) {
	for _, count := range []coordination.ResourceID{10, 100_000} {
		b.Run(fmt.Sprintf("of%d", count), func(b *testing.B) {
			w := newWorld(b, 1)
			w.resource(1, 0, usual(1e6))
			for id := coordination.ResourceID(2); id < 2+count; id++ {
				w.resource(id, 1, usual(1e6))
				bucket := w.bucket(0, id)
				if id < 12 {
					w.servers[0].Use(w.now, bucket, 1<<60)
				}
			}
			w.ask()
			b.ReportAllocs()
			for b.Loop() {
				w.now += Tick
				w.tick()
			}
		})
	}
}

func TestAcquireAllocatesNothing(t *testing.T) {
	w := newWorld(t, 1)
	w.resource(1, 0, usual(1e6))
	s, bucket := w.servers[0], w.bucket(0, 1)
	if allocs := testing.AllocsPerRun(1000, func() {
		w.now += millisecond
		s.Acquire(w.now, bucket, 1)
		s.Use(w.now, bucket, 1)
	}); allocs != 0 {
		t.Errorf("%f allocations", allocs)
	}
}
