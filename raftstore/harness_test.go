package raftstore

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coordd/coordd/raftstore/datadir"
)

// The tests that run without the race detector repeat many times, or with damaged files, what these run with it:
// TestEveryFailureEndsTheStore (the life of a store, cut short at each step), TestManyProposersWithCheckpointsUnderWay,
// TestASlowHandlerIsNoSlowDisk, TestCheckpointBegunDuringAnInstallation, TestLaggingMemberCatchesUpFromTheLog,
// TestLargeMessageOfAStranger and TestRestartedMembersKnowTheirCluster.
func TestMain(m *testing.M) {
	flag.Parse()
	// Under the race detector, collecting garbage as often as usual takes a seventh of the time. Only
	// benchmarks here measure memory.
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait for a state; it is never what a test measures.
const patience = 2 * time.Minute

// recorder is a handler that remembers everything and lets tests wait for a state.
type recorder struct {
	store *Store
	auto  bool // acknowledge entries as they come
	per   int  // commands of an entry

	mu          sync.Mutex
	changed     sync.Cond
	entries     []Entry
	leading     uint64 // led, 0 while following
	ready       map[uint64]uint64
	checkpoints []uint64
	failures    []error
	after       int // calls after Failed
}

func newRecorder(s *Store) *recorder {
	r := &recorder{store: s, auto: true, per: 1, ready: map[uint64]uint64{}}
	r.changed.L = &r.mu
	return r
}

func (r *recorder) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failures) > 0 {
		r.after++
	}
	f()
	r.changed.Broadcast()
}

func (r *recorder) Committed(entries []Entry) {
	if r.auto {
		r.store.Applied(entries[len(entries)-1].Index, r.per*len(entries))
	}
	r.note(func() { r.entries = append(r.entries, entries...) })
}
func (r *recorder) Leading(term uint64)           { r.note(func() { r.leading = term }) }
func (r *recorder) Following(term, leader uint64) { r.note(func() { r.leading = 0 }) }
func (r *recorder) ReadReady(id, index uint64)    { r.note(func() { r.ready[id] = index }) }
func (r *recorder) CheckpointDone(index uint64) {
	r.note(func() { r.checkpoints = append(r.checkpoints, index) })
}
func (r *recorder) Failed(err error) { r.note(func() { r.failures = append(r.failures, err) }) }

// Flush implements Handler.
func (r *recorder) Flush(bool) {}

// wait blocks until ok, called with the lock held, is true.
func (r *recorder) wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	timer := time.AfterFunc(patience, func() { r.note(func() {}) })
	defer timer.Stop()
	deadline := time.Now().Add(patience)
	r.mu.Lock()
	defer r.mu.Unlock()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s; %d entries, leading %d, failures %v", what, len(r.entries),
				r.leading, r.failures)
		}
		r.changed.Wait()
	}
}

// lead waits until the member leads and has handed over the first entry of its term.
func (r *recorder) lead(t testing.TB) (term uint64) {
	t.Helper()
	r.wait(t, "leadership", func() bool {
		term = r.leading
		return term != 0 && len(r.entries) > 0 && r.entries[len(r.entries)-1].Term == term
	})
	return term
}

// commands returns the data of all entries that have some.
func (r *recorder) commands() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, e := range r.entries {
		if len(e.Data) > 0 {
			out = append(out, string(e.Data))
		}
	}
	return out
}

func (r *recorder) last() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries) == 0 {
		return 0
	}
	return r.entries[len(r.entries)-1].Index
}

// waitCommand waits until the given command has been committed.
func (r *recorder) waitCommand(t testing.TB, command string) {
	t.Helper()
	seen := 0
	r.wait(t, "command "+command, func() bool {
		for ; seen < len(r.entries); seen++ {
			if string(r.entries[seen].Data) == command {
				return true
			}
		}
		return len(r.failures) > 0
	})
}

var noLog = slog.New(slog.NewTextHandler(io.Discard, nil))

// smallConfig has segments, checkpoints and their transactions small enough that a short test sees many.
func smallConfig(dir string) Config {
	return Config{Dir: dir, Logger: noLog, SegmentBytes: 8 << 10, CheckpointCommands: 100,
		TailEntriesKept: 10, LagEntriesKept: 10, TailBytes: 4 << 10,
		steps: datadir.StepLimits{Run: 4 << 10, Step: 2 << 10, Merge: 1}}
}

func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func start(t testing.TB, s *Store) *recorder {
	t.Helper()
	r := newRecorder(s)
	if err := s.Start(r); err != nil {
		t.Fatal(err)
	}
	return r
}

func stop(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}

// propose proposes commands one by one, each after the one before was committed.
func propose(t testing.TB, r *recorder, term uint64, commands ...string) {
	t.Helper()
	for _, c := range commands {
		r.store.Propose(term, [][]byte{[]byte(c)})
		r.waitCommand(t, c)
	}
}

// takeCheckpoint writes rows as of the last entry and waits until that is done.
func takeCheckpoint(t testing.TB, r *recorder, rows ...Row) uint64 {
	t.Helper()
	index := r.last()
	w := r.store.Checkpoints.Begin(index)
	if !w.Put(rows) {
		t.Fatal("an empty queue is full")
	}
	w.Finish()
	r.waitCheckpoint(t, index)
	return index
}

func (r *recorder) waitCheckpoint(t testing.TB, index uint64) {
	t.Helper()
	r.wait(t, "checkpoint", func() bool {
		n := len(r.checkpoints)
		return n > 0 && r.checkpoints[n-1] == index || len(r.failures) > 0
	})
}

// waitIdle waits until the keeper has nothing to do: files that are to be merged are, and those that nobody needs are
// removed.
func (r *recorder) waitIdle(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(patience); !failedLocked(r); time.Sleep(time.Millisecond) {
		k := r.store.keeper
		k.mu.Lock()
		idle := !k.open && k.tidy.Load() && len(k.jobs) == 0
		k.mu.Unlock()
		if idle {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for the keeper")
		}
	}
}

func rowsOf(t testing.TB, s *Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	if err := s.Rows(func(k, v []byte) error { out[string(k)] = string(v); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

func row(key, value string) Row { return Row{Key: []byte(key), Value: []byte(value)} }

func numbered(prefix string, from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%s%06d", prefix, i))
	}
	return out
}

// copyDir copies a data directory as a killed process would leave it.
func copyDir(t testing.TB, from, to string) {
	t.Helper()
	names := func() (list []string) {
		_ = filepath.Walk(from, func(path string, _ os.FileInfo, err error) error {
			list = append(list, path)
			return nil
		})
		return list
	}
	// Files that come and go meanwhile would leave an image that no moment had: a checkpoint of before, and of the log
	// what another one has left.
	for before := []string(nil); ; {
		now := names()
		if before != nil && slices.Equal(before, now) {
			return
		}
		before = now
		copyOnce(t, from, to)
	}
}

// copyOnce copies what is there, but for files that are removed meanwhile.
func copyOnce(t testing.TB, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	err := filepath.Walk(from, func(path string, info os.FileInfo, err error) error {
		if errors.Is(err, os.ErrNotExist) && path != from { // it was removed meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if info.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func newTextLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
