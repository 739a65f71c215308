package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/datadir"
)

// script is the life of one store that the crash and fault tests look at step by step: segments change
// several times, two checkpoints are written, rows are replaced, a prefix is dropped, and files are merged. Commands
// are numbered, and each becomes a row of the next checkpoint, so that rows and replay together must give 0
// to n-1 whatever happened.
type script struct {
	cfg Config

	mu    sync.Mutex
	acked int // commands the handler has seen committed
}

func (sc *script) ackedSoFar() int {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.acked
}

func command(n int) string { return fmt.Sprintf("%06d%s", n, strings.Repeat("x", 400)) }

func commandRow(n int) Row { return row(fmt.Sprintf("c/%06d", n), command(n)) }

// play runs the script to its end or to the first failure, which it returns.
func (sc *script) play(t *testing.T) error {
	s, err := Open(t.Context(), sc.cfg)
	if err != nil {
		return err
	}
	r := newRecorder(s)
	if err := s.Start(r); err != nil {
		t.Fatal(err)
	}
	sc.steps(t, r)
	err = s.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.failures) > 1 || r.after > 0:
		t.Fatalf("failures %v, %d calls after the first", r.failures, r.after)
	case len(r.failures) == 1:
		return r.failures[0]
	}
	return err
}

func (sc *script) steps(t *testing.T, r *recorder) {
	failed := func() bool { return len(r.failures) > 0 }
	var term uint64
	r.wait(t, "leadership", func() bool {
		term = r.leading
		return failed() || term != 0 && len(r.entries) > 0 && r.entries[len(r.entries)-1].Term == term
	})
	sweep := []Row{row("n1/a", "old"), row("n1/b", "old"), row("n2/a", "stays")}
	sc.propose(t, r, term, 0, 25)
	sc.takeCheckpoint(t, r, 0, 25, sweep, "")
	sc.propose(t, r, term, 25, 45)
	sc.takeCheckpoint(t, r, 25, 45, nil, "n1/")
	sc.propose(t, r, term, 45, 60)
	if failed() {
		return
	}
	r.waitIdle(t)
}

func failedLocked(r *recorder) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

// propose proposes commands one by one, three in one batch at times, and counts them when they are committed.
func (sc *script) propose(t *testing.T, r *recorder, term uint64, from, to int) {
	for n := from; n < to; {
		batch := [][]byte{[]byte(command(n))}
		for n%5 == 0 && len(batch) < 3 {
			batch = append(batch, []byte(command(n+len(batch))))
		}
		batch = batch[:min(len(batch), to-n)]
		n += len(batch)
		r.store.Propose(term, batch)
		r.waitCommand(t, command(n-1))
		if failedLocked(r) {
			return
		}
		sc.mu.Lock()
		sc.acked = n
		sc.mu.Unlock()
	}
}

func (sc *script) takeCheckpoint(t *testing.T, r *recorder, from, to int, rows []Row, drop string) {
	if failedLocked(r) {
		return
	}
	index := r.last()
	w := r.store.Checkpoints.Begin(index)
	for n := from; n < to; n++ {
		rows = append(rows, commandRow(n))
	}
	if !w.Put(rows) {
		t.Fatal("queue full")
	}
	if drop != "" {
		w.DeletePrefix([]byte(drop))
	}
	w.Finish()
	r.waitCheckpoint(t, index)
}

// verify opens a directory as left by a crash, checks that nothing acknowledged is missing, and returns the number of
// commands found.
func verify(t *testing.T, cfg Config, acked int, where string) int {
	t.Helper()
	if report, err := datadir.Check(cfg.Dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		if _, missing := os.Stat(filepath.Join(cfg.Dir, datadir.IdentityFile)); missing == nil {
			t.Fatalf("%s: check: %v\n%s", where, err, report)
		}
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	rows := rowsOf(t, s)
	found := 0
	for ; rows[fmt.Sprintf("c/%06d", found)] == command(found); found++ {
	}
	if _, dropped := rows["n1/a"]; found > 25 && (dropped || rows["n2/a"] != "stays") {
		t.Fatalf("%s: rows of the dropped prefix are back, or others are gone", where)
	}
	r := start(t, s)
	term := r.lead(t)
	for _, c := range r.commands() {
		if c != command(found) {
			t.Fatalf("%s: command %.6s after %d others", where, c, found)
		}
		found++
	}
	if found < acked {
		t.Fatalf("%s: %d commands, %d were acknowledged", where, found, acked)
	}
	propose(t, r, term, "goes on")
	stop(t, s)
	return found
}

// TestCrashAtEveryStep copies the directory before each step that changes the disk and opens the copy:
// nothing that was acknowledged may be missing, and the store must be usable. This includes the making of the
// directory.
func TestCrashAtEveryStep(t *testing.T) {
	testmode.WithoutRace(t)
	testmode.Long(t)
	t.Parallel()
	base := t.TempDir()
	sc := &script{cfg: smallConfig(filepath.Join(base, "data"))}
	type picture struct {
		dir, step string
		acked     int
	}
	var pictures []picture
	var mu sync.Mutex
	sc.cfg.before = func(step, path string) error {
		mu.Lock()
		defer mu.Unlock()
		p := picture{filepath.Join(base, fmt.Sprintf("crash%04d", len(pictures))),
			step + " " + filepath.Base(path), sc.ackedSoFar()}
		if _, err := os.Stat(sc.cfg.Dir); err == nil {
			copyDir(t, sc.cfg.Dir, p.dir)
			pictures = append(pictures, p)
		}
		return nil
	}
	if err := sc.play(t); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d steps", len(pictures))
	for i, p := range pictures {
		cfg := smallConfig(p.dir)
		verify(t, cfg, p.acked, fmt.Sprintf("crash before step %d, %s", i, p.step))
	}
}

// TestPowerLossDuringLogWrite keeps only some of the disk sectors of a log write that was not synced yet:
// always a torn end, never corruption, and nothing that was acknowledged may be missing. The images are
// crashed a second time while they are tidied up.
func TestPowerLossDuringLogWrite(t *testing.T) {
	testmode.WithoutRace(t)
	testmode.Long(t)
	t.Parallel()
	const seed = 7
	rng := rand.New(rand.NewSource(seed))
	base := t.TempDir()
	sc := &script{cfg: smallConfig(filepath.Join(base, "data"))}
	var before, torn string
	var file []byte
	images, tornImages := 0, 0
	sc.cfg.before = func(step, path string) error {
		switch step {
		case "write log":
			file, _ = os.ReadFile(path)
			before = path
		case "sync log":
			if path != before {
				return nil
			}
			after, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			torn = filepath.Join(base, "torn")
			copyDir(t, sc.cfg.Dir, torn)
			image := tear(rng, file, after)
			if err := os.WriteFile(filepath.Join(torn, datadir.LogDir, filepath.Base(path)), image,
				0o600); err != nil {
				return err
			}
			images++
			img, err := datadir.Examine(torn, nil)
			if made, _ := new(datadir.Disk).HasData(torn); err != nil && made { // the log comes before the identity
				return err
			}
			if slices.ContainsFunc(img.Files, func(f datadir.FileReport) bool { return f.TornBytes > 0 }) {
				tornImages++
			}
			verifyTwice(t, torn, sc.ackedSoFar(),
				fmt.Sprintf("seed %d, %d acknowledged", seed, sc.ackedSoFar()))
		}
		return nil
	}
	if err := sc.play(t); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d images, %d with a torn end", images, tornImages)
	if tornImages < 5 {
		t.Errorf("only %d of %d images were torn: the test did too little", tornImages, images)
	}
}

// tear takes each 512-byte sector from one of two states of a file; at least one changed sector stays old.
func tear(rng *rand.Rand, before, after []byte) []byte {
	image := bytes.Clone(after)
	var changed []int
	for at := 0; at < len(after); at += 512 {
		end := min(at+512, len(after))
		old := make([]byte, end-at)
		if at < len(before) {
			copy(old, before[at:min(end, len(before))])
		}
		if !bytes.Equal(old, after[at:end]) {
			changed = append(changed, at)
			if rng.Intn(2) == 0 {
				copy(image[at:end], old)
			}
		}
	}
	if len(changed) > 0 {
		at := changed[rng.Intn(len(changed))]
		end := min(at+512, len(after))
		clear(image[at:end])
		if at < len(before) {
			copy(image[at:end], before[at:min(end, len(before))])
		}
	}
	return image
}

// verifyTwice opens an image with a crash before each step of its recovery, then for good.
func verifyTwice(t *testing.T, dir string, acked int, where string) {
	second := dir + "-again"
	cfg := smallConfig(dir + "-first")
	copyDir(t, dir, cfg.Dir)
	cfg.before = func(step, path string) error {
		copyDir(t, cfg.Dir, second)
		verify(t, smallConfig(second), acked, where+", then before "+step)
		return nil
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	cfg.before = nil
	s.disk.Before = nil
	stop(t, s)
	verify(t, smallConfig(dir), acked, where)
}

var errInjected = errors.New("injected")

// TestEveryFailureEndsTheStore fails each step in turn: the step's error comes out of Open or through Failed,
// once and with operation and file in its text; nothing acknowledged is lost, and after a restart the store
// is usable. Without -thorough it takes a sample of the steps that come often.
func TestEveryFailureEndsTheStore(t *testing.T) {
	testmode.Long(t)
	t.Parallel()
	base := t.TempDir()
	var recording sync.Mutex
	var kinds []string // of all steps
	whole := &script{cfg: smallConfig(filepath.Join(base, "whole"))}
	whole.cfg.before = func(step, path string) error {
		recording.Lock()
		defer recording.Unlock()
		kinds = append(kinds, step+" "+filepath.Ext(path))
		return nil
	}
	if err := whole.play(t); err != nil {
		t.Fatal(err)
	}
	// The store's whole life leads to each failure. Of the steps that come most, which are the writes and
	// syncs of the log and the commits, some are enough.
	const often = 10
	oneOf := sample(3, 1)
	tolerated, came := map[string]bool{}, map[string]int{}
	for fail := 0; ; fail++ {
		if fail < len(kinds) {
			came[kinds[fail]]++
			if n := came[kinds[fail]]; n > often && n%oneOf != 0 {
				continue
			}
		}
		sc := &script{cfg: smallConfig(filepath.Join(base, fmt.Sprint(fail)))}
		var mu sync.Mutex
		var failed string
		count := 0
		sc.cfg.before = func(step, path string) error {
			mu.Lock()
			defer mu.Unlock()
			count++
			if count-1 != fail {
				return nil
			}
			failed = step + " " + path
			return errInjected
		}
		err := sc.play(t)
		if failed == "" {
			t.Logf("%d steps, tolerated: %v", fail, tolerated)
			return
		}
		step := failed[:strings.IndexByte(failed, '/')]
		switch {
		case err == nil:
			tolerated[step] = true
		case !strings.Contains(err.Error(), failed) || !strings.Contains(err.Error(), errInjected.Error()):
			t.Fatalf("step %d, %s: error %v", fail, failed, err)
		}
		if strings.Contains(step, "log") || strings.Contains(step, "commit") {
			if err == nil {
				t.Fatalf("%s failed unnoticed", failed)
			}
		}
		cfg := sc.cfg
		cfg.before = nil
		verify(t, cfg, sc.ackedSoFar(), fmt.Sprintf("after a failed step %d, %s", fail, failed))
		if err := os.RemoveAll(cfg.Dir); err != nil {
			t.Fatal(err)
		}
	}
}
