package standin

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// What a stand-in may take that nobody uses.
const (
	maxHeapBytes  = 1 << 20
	maxGoroutines = 30
)

// TestManyTakeLittle starts two hundred at once, and looks at what each takes.
func TestManyTakeLittle(t *testing.T) {
	const many = 200
	heap, goroutines := footprint()
	stop := startMany(t, many)
	heapEach, goroutinesEach := footprint()
	heapEach, goroutinesEach = (heapEach-heap)/many, (goroutinesEach-goroutines)/many
	t.Logf("each has %d KiB of heap and %d goroutines", heapEach>>10, goroutinesEach)
	if heapEach > maxHeapBytes || goroutinesEach > maxGoroutines {
		t.Errorf("each has %d bytes of heap and %d goroutines", heapEach, goroutinesEach)
	}
	stop()
}

func footprint() (heap, goroutines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc), runtime.NumGoroutine()
}

// startMany starts so many at once, and returns what stops them.
func startMany(t testing.TB, many int) (stop func()) {
	servers := make([]*Server, many)
	var starting sync.WaitGroup
	for i := range servers {
		starting.Go(func() {
			var err error
			if servers[i], err = Run(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return func() {
		var stopping sync.WaitGroup
		for _, s := range servers {
			stopping.Go(s.Stop)
		}
		stopping.Wait()
	}
}

// BenchmarkStart reports the duration of a start; the time of stopping is part of ns/op only.
func BenchmarkStart(b *testing.B) {
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		s, err := Run(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begun))
		s.Stop()
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "median-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
}

// BenchmarkStart200 starts two hundred at once and stops them.
func BenchmarkStart200(b *testing.B) {
	for b.Loop() {
		startMany(b, 200)()
	}
}

// BenchmarkStartCluster is a cluster of three.
func BenchmarkStartCluster(b *testing.B) {
	for b.Loop() {
		s, err := Run(b.Context(), Servers(3))
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		s.Stop()
		b.StartTimer()
	}
}
