package raftstore

import (
	"encoding/binary"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coordd/coordd/raftstore/datadir"
)

// BenchmarkCheckpoint stores one checkpoint of new rows, in any order, and one in which all of them change,
// while commands are proposed one after the other. It reports the time until the checkpoint is durable and
// until its files are merged, for all and for each row, and the price for the commands and the disk.
func BenchmarkCheckpoint(b *testing.B) {
	for _, rows := range []int{10_000, 100_000, 1_000_000, 3_000_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			for range b.N {
				dir := filepath.Join(b.TempDir(), "data")
				s := open(b, Config{Dir: dir, Logger: noLog})
				r := start(b, s)
				term := r.lead(b)
				quietTimes := whileProposing(b, r, term, func() { time.Sleep(time.Second) })
				var peak atomic.Uint64
				watched := watchHeap(&peak)
				for round, name := range []string{"new", "changed"} {
					var durable, moved time.Duration
					times := whileProposing(b, r, term,
						func() { durable, moved = storeRows(b, r, rows, round) })
					b.ReportMetric(durable.Seconds(), name+"-durable-s")
					b.ReportMetric(moved.Seconds(), name+"-moved-s")
					b.ReportMetric(float64(moved.Microseconds())/float64(rows), name+"-µs/row")
					b.ReportMetric(percentile(times, 50), name+"-propose-p50-ms")
					b.ReportMetric(percentile(times, 99), name+"-propose-p99-ms")
				}
				watched()
				b.ReportMetric(percentile(quietTimes, 99), "quiet-propose-p99-ms")
				b.ReportMetric(float64(peak.Load())/(1<<20), "heap-MiB")
				b.ReportMetric(float64(sizeOf(b, filepath.Join(dir, datadir.CheckpointDir)))/(1<<20), "files-MiB")
				begun := time.Now()
				stop(b, s)
				b.ReportMetric(time.Since(begun).Seconds(), "stop-s")
			}
		})
	}
}

// sizeOf returns the bytes of the files in a directory.
func sizeOf(b *testing.B, dir string) (size int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
	}
	return size
}

// storeRows writes a checkpoint as a group does it.
func storeRows(b *testing.B, r *recorder, count, round int) (durable, moved time.Duration) {
	order := rand.New(rand.NewSource(int64(round))).Perm(count)
	index := r.store.AppliedIndex()
	begun := time.Now()
	w := r.store.Checkpoints.Begin(index)
	for at := 0; at < count; at += 128 {
		var rows []Row
		for _, n := range order[at:min(at+128, count)] {
			key := binary.BigEndian.AppendUint64(append(make([]byte, 0, 17), "12345678 "...), uint64(n))
			rows = append(rows, Row{Key: key,
				Value: fmt.Appendf(nil, "semaphore %d in round %d with what else a row has", n, round)})
		}
		for !w.Put(rows) {
			time.Sleep(5 * time.Millisecond)
		}
	}
	w.Finish()
	r.wait(b, "checkpoint", func() bool { return len(r.checkpoints) > round || len(r.failures) > 0 })
	durable = time.Since(begun)
	r.waitIdle(b)
	return durable, time.Since(begun)
}

// whileProposing proposes commands until fn returns, and returns the latency of each.
func whileProposing(b *testing.B, r *recorder, term uint64, fn func()) (times []time.Duration) {
	ended, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case <-ended:
				return
			case <-time.After(2 * time.Millisecond):
			}
			begun := time.Now()
			command := fmt.Sprint("command ", begun.UnixNano())
			r.mu.Lock()
			r.entries = nil // they would be searched
			r.mu.Unlock()
			r.store.Propose(term, [][]byte{[]byte(command)})
			r.waitCommand(b, command)
			times = append(times, time.Since(begun))
		}
	}()
	fn()
	close(ended)
	<-done
	return times
}

func percentile(times []time.Duration, p int) float64 {
	slices.Sort(times)
	return times[len(times)*p/100].Seconds() * 1000
}

// watchHeap notes the largest heap until the function it returns is called.
func watchHeap(peak *atomic.Uint64) (stop func()) {
	ended, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		var m runtime.MemStats
		for {
			select {
			case <-ended:
				return
			case <-time.After(100 * time.Millisecond):
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapAlloc))
			}
		}
	}()
	return func() { close(ended); <-done }
}
