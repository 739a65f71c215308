package raftstore

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sort"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/raftlog"
	"github.com/coordd/coordd/raftstore/wal"
)

// benchHandler only notifies the benchmark of each committed command.
type benchHandler struct {
	store     *Store
	leading   chan uint64
	committed chan struct{}
	term      uint64
}

func (h *benchHandler) Committed(entries []Entry) {
	for _, e := range entries {
		if len(e.Data) > 0 {
			h.committed <- struct{}{}
		} else if e.Term == h.term {
			h.leading <- h.term
		}
	}
	h.store.Applied(entries[len(entries)-1].Index, len(entries))
}
func (h *benchHandler) Leading(term uint64)      { h.term = term }
func (h *benchHandler) Following(uint64, uint64) {}
func (h *benchHandler) ReadReady(uint64, uint64) {}
func (h *benchHandler) CheckpointDone(uint64)    {}
func (h *benchHandler) Failed(err error)         { panic(err) }
func (h *benchHandler) Flush(bool)               {}

// BenchmarkPropose measures the time from Propose to Committed with n commands of 200 bytes in flight, next
// to one bare write and fdatasync of the same size in the same directory.
func BenchmarkPropose(b *testing.B) {
	for _, n := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("inflight=%d", n), func(b *testing.B) {
			benchPropose(b, n, Config{Dir: filepath.Join(b.TempDir(), "data")})
		})
	}
	b.Run("memory/inflight=1", func(b *testing.B) { benchPropose(b, 1, Config{InMemory: true}) })
}

// BenchmarkProposeThree measures the time from Propose to Committed on the leader of three members on
// loopback, with one command of 200 bytes in flight.
func BenchmarkProposeThree(b *testing.B) {
	initial := map[string]string{"a": testserver.Address(b), "b": testserver.Address(b), "c": testserver.Address(b)}
	h := newHistory()
	var members []*machine
	for _, name := range []string{"a", "b", "c"} {
		s := open(b, Config{Dir: filepath.Join(b.TempDir(), name), Logger: noLog,
			Cluster: Cluster{Name: name, Initial: initial, ListenPeer: initial[name]}})
		m := &machine{h: h, name: name, store: s, state: map[string]uint64{}, dirty: map[string]uint64{},
			reads: map[uint64]bool{}, applied: 1}
		if err := s.Start(m); err != nil {
			b.Fatal(err)
		}
		defer stop(b, s)
		members = append(members, m)
	}
	var lead *machine
	h.mu.Lock()
	for lead == nil {
		for _, m := range members {
			if m.term != 0 {
				lead = m
			}
		}
		if lead == nil {
			h.changed.Wait()
		}
	}
	term := lead.term
	h.mu.Unlock()
	command := make([]byte, 200)
	times := make([]time.Duration, 0, b.N)
	for n := 0; b.Loop(); n++ {
		binary.LittleEndian.PutUint64(command, uint64(n+1))
		begun := time.Now()
		lead.store.Propose(term, [][]byte{append([]byte(nil), command...)})
		h.mu.Lock()
		for lead.state[string(command)] == 0 {
			h.changed.Wait()
		}
		h.mu.Unlock()
		times = append(times, time.Since(begun))
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	b.ReportMetric(float64(times[len(times)/2]), "p50-ns")
	b.ReportMetric(float64(times[len(times)*99/100]), "p99-ns")
}

func benchPropose(b *testing.B, inflight int, cfg Config) {
	cfg.Logger = noLog
	s := open(b, cfg)
	defer stop(b, s)
	device := &timedLog{Device: s.device}
	s.device = device
	h := &benchHandler{store: s, leading: make(chan uint64, 1), committed: make(chan struct{}, inflight)}
	if err := s.Start(h); err != nil {
		b.Fatal(err)
	}
	term := <-h.leading
	command := make([]byte, 200)
	times := make([]time.Duration, 0, b.N)
	sent := make([]time.Time, 0, b.N)
	var bare time.Duration
	if !cfg.InMemory {
		bare = bareSync(b, filepath.Dir(cfg.Dir))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for len(times) < b.N {
		for len(sent) < b.N && len(sent)-len(times) < inflight {
			sent = append(sent, time.Now())
			s.Propose(term, [][]byte{command})
		}
		<-h.committed
		times = append(times, time.Since(sent[len(times)]))
	}
	b.StopTimer()
	reportTimes(b, times)
	b.ReportMetric(float64(device.median().Nanoseconds()), "write-p50-ns")
	if !cfg.InMemory {
		// The disk's mood changes; the run lies between the two.
		bare = (bare + bareSync(b, filepath.Dir(cfg.Dir))) / 2
		b.ReportMetric(float64(bare.Nanoseconds()), "bare-p50-ns")
	}
}

func reportTimes(b *testing.B, times []time.Duration) {
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds()), "p99-ns")
}

// bareSync returns the median of a 200-byte write with fdatasync at the end of a preallocated file.
func bareSync(b *testing.B, dir string) time.Duration {
	f, err := files.Disk{}.Create(filepath.Join(dir, "bare"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := f.Allocate(4 << 20); err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 200)
	var times []time.Duration
	for i := range 2000 {
		at := time.Now()
		if _, err := f.WriteAt(data, int64(i*232)); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(at))
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	return times[len(times)/2]
}

// timedLog measures the writes of a log device: what is left of a proposal's time is ours.
type timedLog struct {
	raftlog.Device
	mu    sync.Mutex
	times []time.Duration
}

func (d *timedLog) Append(h *wal.HardState, entries []*pb.Entry) error {
	at := time.Now()
	err := d.Device.Append(h, entries)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.times = append(d.times, time.Since(at))
	return err
}

func (d *timedLog) median() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	sort.Slice(d.times, func(i, j int) bool { return d.times[i] < d.times[j] })
	return d.times[len(d.times)/2]
}
