package raftstore

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/datadir"
)

// onBoth runs a behaviour test on memory and on disk.
func onBoth(t *testing.T, test func(t *testing.T, cfg Config)) {
	t.Run("memory", func(t *testing.T) {
		cfg := smallConfig("")
		cfg.InMemory = true
		test(t, cfg)
	})
	t.Run("disk", func(t *testing.T) { test(t, smallConfig(filepath.Join(t.TempDir(), "data"))) })
}

func TestLeadsAloneAndCommitsInOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg Config) {
		s := open(t, cfg)
		defer stop(t, s)
		r := start(t, s)
		term := r.lead(t)
		want := numbered("c", 0, 300)
		var batch [][]byte
		for _, c := range want {
			batch = append(batch, []byte(c))
		}
		s.Propose(term, batch[:1])
		s.Propose(term, batch[1:200])
		s.Propose(term, batch[200:])
		r.waitCommand(t, want[len(want)-1])
		if got := r.commands(); !slices.Equal(got, want) {
			t.Fatalf("commands %v", got)
		}
		for i, e := range r.entries {
			if e.Index != uint64(i+1) || e.Term != term {
				t.Fatalf("entry %d is %+v", i, e)
			}
		}
		if s.Backlog() != 0 {
			t.Errorf("backlog %d", s.Backlog())
		}
	})
}

func TestProposalsOfAnotherTermAreDropped(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg Config) {
		s := open(t, cfg)
		defer stop(t, s)
		r := start(t, s)
		term := r.lead(t)
		s.Propose(term-1, [][]byte{[]byte("older")})
		s.Propose(term+1, [][]byte{[]byte("newer")})
		propose(t, r, term, "mine")
		if got := r.commands(); !slices.Equal(got, []string{"mine"}) {
			t.Fatalf("commands %v", got)
		}
	})
}

func TestReadIndexWaitsForTheFirstEntryOfTheTerm(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg Config) {
		s := open(t, cfg)
		defer stop(t, s)
		r := start(t, s)
		term := r.lead(t)
		propose(t, r, term, "a", "b")
		before := r.last()
		s.ReadIndex(77)
		r.wait(t, "read", func() bool { return r.ready[77] != 0 })
		if r.ready[77] < before {
			t.Fatalf("read at %d, entry %d was committed before", r.ready[77], before)
		}
	})
}

func TestCheckpointIsDueByEntriesAndCutsTheLog(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg Config) {
		s := open(t, cfg)
		defer stop(t, s)
		r := start(t, s)
		term := r.lead(t)
		if s.Checkpoints.Due() {
			t.Fatal("due at once")
		}
		for i := range 4 {
			propose(t, r, term, numbered(fmt.Sprintf("%d-%s-", i, strings.Repeat("x", 100)), 0, 120)...)
			if !s.Checkpoints.Due() {
				t.Fatal("not due after 120 entries")
			}
			takeCheckpoint(t, r, row("k", fmt.Sprint(i)))
			if s.Checkpoints.Due() {
				t.Fatal("due right after a checkpoint")
			}
		}
		propose(t, r, term, "after")
		first, _ := s.log.FirstIndex()
		if first < 400 {
			t.Errorf("the log still begins at %d", first)
		}
		if _, err := s.log.Term(first - 1); err != nil {
			t.Errorf("term before the first entry: %v", err)
		}
	})
}

func TestHandlerThatDoesNotApplyHoldsBackTheLog(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	onBoth(t, func(t *testing.T, cfg Config) {
		s := open(t, cfg)
		defer stop(t, s)
		r := newRecorder(s)
		r.auto = false
		if err := s.Start(r); err != nil {
			t.Fatal(err)
		}
		term := r.lead(t)
		data := []byte(strings.Repeat("x", 1<<20))
		const count = 80
		for range count {
			s.Propose(term, [][]byte{data})
		}
		r.wait(t, "as much as may be handed over", func() bool { return len(r.entries) >= 16 })
		if s.Backlog() == 0 {
			t.Error("everything was taken although nothing was applied")
		}
		for r.last() < count+1 {
			last := r.last()
			s.Applied(last, 1)
			r.wait(t, "more entries", func() bool {
				return len(r.entries) == count+1 || r.entries[len(r.entries)-1].Index > last
			})
		}
		if s.Backlog() != 0 {
			t.Errorf("backlog %d", s.Backlog())
		}
	})
}

func TestRestartReplaysWhatTheCheckpointDoesNotHave(t *testing.T) {
	cfg := smallConfig(filepath.Join(t.TempDir(), "data"))
	s := open(t, cfg)
	if s.loaded != 0 || len(rowsOf(t, s)) != 0 {
		t.Fatal("a new store has state")
	}
	r := start(t, s)
	term := r.lead(t)
	propose(t, r, term, numbered("a", 0, 50)...)
	index := takeCheckpoint(t, r, row("x", "1"), row("y", "2"), row("z", ""))
	propose(t, r, term, numbered("b", 0, 50)...)
	stop(t, s)

	for restart := range 3 {
		s = open(t, cfg)
		if s.loaded != index {
			t.Fatalf("checkpoint %d, want %d", s.loaded, index)
		}
		if got := rowsOf(t, s); !maps.Equal(got, map[string]string{"x": "1", "y": "2", "z": ""}) {
			t.Fatalf("rows %v", got)
		}
		r = start(t, s)
		if newTerm := r.lead(t); newTerm != term+1 {
			t.Fatalf("term %d after %d", newTerm, term)
		}
		term++
		if got, want := r.commands(), numbered("b", 0, 50); !slices.Equal(got, want) {
			t.Fatalf("restart %d: commands %v", restart, got)
		}
		if r.entries[0].Index != index+1 {
			t.Fatalf("replay begins at %d", r.entries[0].Index)
		}
		stop(t, s)
	}
}

func TestCheckpointsReplaceAndDeleteRows(t *testing.T) {
	cfg := smallConfig(filepath.Join(t.TempDir(), "data"))
	want := map[string]string{}
	for round := range 4 {
		s := open(t, cfg)
		if got := rowsOf(t, s); !maps.Equal(got, want) {
			t.Fatalf("round %d: rows %v, want %v", round, got, want)
		}
		r := start(t, s)
		propose(t, r, r.lead(t), fmt.Sprintf("round%d", round))
		var rows []Row
		for i := range 200 {
			key := fmt.Sprintf("k%03d", i)
			if i%4 == round {
				rows = append(rows, Row{Key: []byte(key), Delete: true})
				delete(want, key)
				continue
			}
			value := strings.Repeat(fmt.Sprint(round), i)
			rows = append(rows, row(key, value))
			want[key] = value
		}
		takeCheckpoint(t, r, rows...)
		stop(t, s)
	}
}

func TestDroppedPrefixIsGone(t *testing.T) {
	cfg := smallConfig(filepath.Join(t.TempDir(), "data"))
	cfg.steps.Merge = 1 << 20
	s := open(t, cfg)
	r := start(t, s)
	term := r.lead(t)
	var rows []Row
	for i := range 1000 {
		rows = append(rows, row(fmt.Sprintf("n1/%05d", i), "v"))
	}
	rows = append(rows, row("n0/a", "keep"), row("n10/a", "keep"), row("n2/a", "keep"))
	takeCheckpoint(t, r, rows...)
	propose(t, r, term, "drop")
	w := s.Checkpoints.Begin(r.last())
	w.DeletePrefix([]byte("n1/"))
	want := map[string]string{"n0/a": "keep", "n10/a": "keep", "n2/a": "keep"}
	rows = []Row{row("n1/late", "v")}
	for _, key := range numbered("n3/", 0, 1000) {
		rows, want[key] = append(rows, row(key, "keep")), "keep"
	}
	if !w.Put(rows) {
		t.Fatal("queue full")
	}
	w.Finish()
	r.waitCheckpoint(t, r.last())
	stop(t, s)
	for _, merge := range []int{1 << 20, 1} { // before the files are merged, and after that
		cfg.steps.Merge = merge
		s = open(t, cfg)
		if got := rowsOf(t, s); !maps.Equal(got, want) {
			t.Fatalf("rows %v", got)
		}
		for more := true; more; {
			var err error
			if more, err = s.rowStore.Tidy(true); err != nil {
				t.Fatal(err)
			}
		}
		stop(t, s)
	}
	report, err := datadir.Check(cfg.Dir)
	if err != nil || report.Rows != uint64(len(want)) {
		t.Fatalf("%d rows left, %v", report.Rows, err)
	}
	onlyRows(t, cfg.Dir)
}

func TestCheckpointQueueIsBounded(t *testing.T) {
	s := open(t, smallConfig(filepath.Join(t.TempDir(), "data")))
	defer stop(t, s)
	r := start(t, s)
	r.lead(t)
	w := s.Checkpoints.Begin(r.last())
	big := []Row{row("big", strings.Repeat("x", checkpointQueueMax+1))}
	s.keeper.mu.Lock() // nothing leaves the queue while it is looked at
	s.keeper.queued = checkpointQueueMax
	s.keeper.mu.Unlock()
	if w.Put([]Row{row("k", "v")}) {
		t.Fatal("a full queue took more")
	}
	s.keeper.mu.Lock()
	s.keeper.queued = 0
	s.keeper.mu.Unlock()
	if !w.Put(big) {
		t.Fatal("an empty queue refused one large batch")
	}
	w.Finish()
	r.waitCheckpoint(t, r.last())
}

func TestDirectoryIsLockedAndPrivate(t *testing.T) {
	cfg := smallConfig(filepath.Join(t.TempDir(), "deep", "data"))
	s := open(t, cfg)
	if _, err := Open(t.Context(), cfg); !errors.Is(err, datadir.ErrLocked) || !strings.Contains(err.Error(), cfg.Dir) {
		t.Errorf("second open: %v", err)
	}
	if _, err := datadir.Check(cfg.Dir); !errors.Is(err, datadir.ErrLocked) {
		t.Errorf("check of a running store: %v", err)
	}
	info, err := os.Stat(cfg.Dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	stop(t, s)
	stop(t, open(t, cfg))
}

func TestOpenRefusesForeignDirectoriesAndBadConfig(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letter.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), smallConfig(dir)); err == nil || !strings.Contains(err.Error(), "letter.txt") {
		t.Errorf("a foreign directory: %v", err)
	}
	file := filepath.Join(dir, "letter.txt")
	if _, err := Open(t.Context(), smallConfig(file)); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a file: %v", err)
	}
	for _, cfg := range []Config{{}, {Dir: dir, SegmentBytes: 1},
		{Dir: dir, SegmentBytes: segmentBytesMax + 1}, {InMemory: true, TailBytes: -1}} {
		if _, err := Open(t.Context(), cfg); err == nil {
			t.Errorf("accepted %+v", cfg)
		}
	}
}

func TestMisusePanics(t *testing.T) {
	s := open(t, Config{InMemory: true, Logger: noLog})
	defer stop(t, s)
	r := start(t, s)
	term := r.lead(t)
	if s.Start(r) == nil {
		t.Error("started twice")
	}
	w := s.Checkpoints.Begin(r.last())
	for name, f := range map[string]func(){
		"two checkpoints":         func() { s.Checkpoints.Begin(r.last()) },
		"checkpoint ahead":        func() { s.Checkpoints.Begin(r.last() + 1) },
		"empty prefix":            func() { w.DeletePrefix(nil) },
		"empty command":           func() { s.Propose(term, [][]byte{{}}) },
		"command above the limit": func() { s.Propose(term, [][]byte{make([]byte, MaxCommandBytes+1)}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			f()
		}()
	}
	s.Propose(term, [][]byte{make([]byte, MaxCommandBytes)})
	r.wait(t, "the largest command", func() bool { return len(r.entries) == 2 })
}

// TestManyProposersWithCheckpointsUnderWay runs proposers, checkpoints, sweeping and log cuts at once, over
// several restarts, and checks that each proposer's commands are there in order.
func TestManyProposersWithCheckpointsUnderWay(t *testing.T) {
	const proposers, each, rounds = 8, 60, 3
	cfg := smallConfig(filepath.Join(t.TempDir(), "data"))
	next := make([]int, proposers) // next number of each proposer, from rows and replay
	for round := range rounds {
		s := open(t, cfg)
		clear(next)
		for k, v := range rowsOf(t, s) {
			fmt.Sscanf(k+" "+v, "p%d %d", new(int), &next[int(k[1]-'0')])
		}
		r := start(t, s)
		term := r.lead(t)
		follow := 0 // entries looked at
		advance := func() (rows []Row, index uint64) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for ; follow < len(r.entries); follow++ {
				if data := string(r.entries[follow].Data); data != "" {
					var p, n int
					fmt.Sscanf(data, "p%d %d", &p, &n)
					if n != next[p] {
						t.Fatalf("round %d: %q, expected number %d", round, data, next[p])
					}
					next[p]++
				}
			}
			for p, n := range next {
				rows = append(rows, row(fmt.Sprintf("p%d", p), fmt.Sprint(n)))
			}
			return rows, r.entries[follow-1].Index
		}
		advance()
		for p, n := range next {
			if n != round*each {
				t.Fatalf("round %d: proposer %d has %d commands", round, p, n)
			}
		}
		done := make(chan bool)
		for p, n := range next {
			go func() {
				for i := range each {
					s.Propose(term, [][]byte{fmt.Appendf(nil, "p%d %d", p, n+i)})
					s.ReadIndex(uint64(1+i*proposers+p) << 8)
				}
				done <- true
			}()
		}
		for range proposers {
			<-done
			if s.Checkpoints.Due() {
				rows, index := advance()
				w := s.Checkpoints.Begin(index)
				w.Put(rows)
				w.DeletePrefix(fmt.Appendf(nil, "sweep%d", round))
				w.Finish()
			}
		}
		r.wait(t, "all commands", func() bool {
			n := 0
			for _, e := range r.entries {
				if len(e.Data) > 0 && int(e.Term) == int(term) {
					n++
				}
			}
			return n == proposers*each
		})
		stop(t, s)
	}
}
