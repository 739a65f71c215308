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
	"testing"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/wal"
)

// contents is everything a data directory says, in a form that can be compared.
type contents struct {
	identity datadir.Identity
	state    datadir.Meta
	rows     []string
	hard     wal.HardState
	first    uint64
	log      []string // from first on
}

func readContents(dir string) (contents, error) {
	var rows []string
	img, err := datadir.Examine(dir, func(key, value []byte) error {
		rows = append(rows, fmt.Sprintf("%s %x", key, value))
		return nil
	})
	img.Close()
	if err != nil {
		return contents{}, err
	}
	c := contents{rows: rows, identity: img.Identity, state: img.Meta, hard: img.Hard, first: img.First}
	for _, e := range img.Entries {
		c.log = append(c.log, fmt.Sprintf("%d %d %d %s", e.GetIndex(), e.GetTerm(), e.GetType(), e.GetData()))
	}
	return c, err
}

// damagedDir makes a directory with several segments, a checkpoint in the middle and a log behind it. It
// returns its contents and how many entries its last batch has.
func damagedDir(t testing.TB) (dir string, want contents, lastBatch int) {
	dir = filepath.Join(t.TempDir(), "data")
	s := open(t, smallConfig(dir))
	r := start(t, s)
	term := r.lead(t)
	for n := range 30 {
		propose(t, r, term, command(n))
	}
	takeCheckpoint(t, r, commandRow(1), commandRow(2), row("empty", ""))
	for n := 30; n < 80; n++ {
		propose(t, r, term, command(n))
	}
	s.Propose(term, [][]byte{[]byte("last 1"), []byte("last 2")})
	r.waitCommand(t, "last 2")
	stop(t, s)
	want, err := readContents(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(want.log) != 52 {
		t.Fatalf("%d entries after the checkpoint", len(want.log))
	}
	return dir, want, 2
}

// judge checks the two allowed outcomes for a damaged directory: it is refused with the right error, or read with
// nothing missing but the last batch.
func judge(dir string, want contents, lastBatch int) (refused bool, err error) {
	got, err := readContents(dir)
	var damage *datadir.CorruptionError
	var format *datadir.FormatError
	if errors.As(err, &damage) {
		if !strings.HasPrefix(damage.File, dir) || damage.Reason == "" {
			return true, fmt.Errorf("the refusal names no file or reason: %v", err)
		}
		return true, nil
	}
	if errors.As(err, &format) {
		return true, nil
	}
	if err != nil {
		return true, fmt.Errorf("refused with %v", err)
	}
	if got.identity != want.identity || got.hard != want.hard || got.state.Index != want.state.Index ||
		!slices.Equal(got.rows, want.rows) {
		return false, fmt.Errorf("silently read other contents")
	}
	n := len(got.log)
	if n < len(want.log)-lastBatch || n > len(want.log) || !slices.Equal(got.log, want.log[:n]) {
		return false, fmt.Errorf("silently read %d entries instead of %d", n, len(want.log))
	}
	return false, nil
}

func dataFiles(t testing.TB, dir string) (files []string) {
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 6 {
		t.Fatalf("%v %v", files, err)
	}
	return files
}

// TestEveryBitFlipIsFoundOrHarmless flips bits all over a directory: each flip ends in a refusal, in the last
// batch being taken for a torn write, or changes nothing because the place is not used.
func TestEveryBitFlipIsFoundOrHarmless(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	const seed = 11
	flipsPerFile := sample(100, 400)
	rng := rand.New(rand.NewSource(seed))
	dir, want, lastBatch := damagedDir(t)
	for _, path := range dataFiles(t, dir) {
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		refused, used := 0, lastNonZero(good, 0)
		for range flipsPerFile {
			bad := bytes.Clone(good)
			at, bit := rng.Intn(used), rng.Intn(8)
			bad[at] ^= 1 << bit
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			no, err := judge(dir, want, lastBatch)
			if err != nil {
				t.Fatalf("seed %d: %s byte %d bit %d: %v", seed, filepath.Base(path), at, bit, err)
			}
			if no {
				refused++
			}
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Logf("%-50s refused %d of %d", filepath.Base(path), refused, flipsPerFile)
		if refused < flipsPerFile/100 {
			t.Errorf("%s: only %d of %d flips were noticed", path, refused, flipsPerFile)
		}
	}
}

// TestTruncationAndLossAreRefused shortens and removes each file. A log file that lost its end is noticed, unless
// another one declares that end void.
func TestTruncationAndLossAreRefused(t *testing.T) {
	const seed = 13
	rng := rand.New(rand.NewSource(seed))
	dir, want, lastBatch := damagedDir(t)
	for _, path := range dataFiles(t, dir) {
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lengths := []int{0, 1, len(good) / 2, len(good) - 1}
		for range 10 {
			lengths = append(lengths, rng.Intn(len(good)))
		}
		for _, n := range lengths {
			if err := os.WriteFile(path, good[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			// the line end of a text file says nothing
			may := lastBatch
			if strings.HasSuffix(path, wal.Suffix) {
				may = 0 // only what is void can go
			}
			refused, err := judge(dir, want, may)
			if err != nil {
				t.Fatalf("seed %d: %s cut to %d of %d bytes: refused %v, %v", seed, filepath.Base(path), n,
					len(good), refused, err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, wal.Suffix) { // the oldest one may be needed no more
			if _, err := judge(dir, want, 0); err != nil {
				t.Fatalf("%s is gone: %v", path, err)
			}
		} else if _, err := Open(t.Context(), smallConfig(dir)); err == nil {
			t.Fatalf("%s is gone and the store opened", path)
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if refused, err := judge(dir, want, lastBatch); refused || err != nil {
		t.Fatalf("restored directory: %v %v", refused, err)
	}
}

// TestRefusalChangesNothing compares all bytes before and after a refused Open.
func TestRefusalChangesNothing(t *testing.T) {
	dir, _, _ := damagedDir(t)
	files := dataFiles(t, dir)
	segment := files[slices.IndexFunc(files, func(f string) bool {
		return strings.HasSuffix(f, wal.Suffix)
	})]
	b, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	b[5000] ^= 1
	if err := os.WriteFile(segment, b, 0o600); err != nil {
		t.Fatal(err)
	}
	before := filepath.Join(t.TempDir(), "before")
	copyDir(t, dir, before)
	_, err = Open(t.Context(), smallConfig(dir))
	var damage *datadir.CorruptionError
	if !errors.As(err, &damage) || damage.File != segment {
		t.Fatalf("error %v", err)
	}
	report, checkErr := datadir.Check(dir)
	if checkErr == nil || checkErr.Error() != err.Error() {
		t.Errorf("check says %v", checkErr)
	}
	if report.Member == 0 || report.CheckpointIndex == 0 || !strings.Contains(report.String(), datadir.CheckpointDir) {
		t.Errorf("report %s", report)
	}
	for _, f := range dataFiles(t, dir) {
		rel, _ := filepath.Rel(dir, f)
		x, _ := os.ReadFile(f)
		y, _ := os.ReadFile(filepath.Join(before, rel))
		if !bytes.Equal(x, y) {
			t.Errorf("%s was changed", rel)
		}
	}
}

func TestMissingLinksBetweenFilesAreRefused(t *testing.T) {
	dir, _, _ := damagedDir(t)
	other, _, _ := damagedDir(t)
	segments, err := filepath.Glob(filepath.Join(dir, datadir.LogDir, "*"+wal.Suffix))
	if err != nil || len(segments) < 3 {
		t.Fatal(segments, err)
	}
	for name, spoil := range map[string]func(to string){
		"state of another member": func(to string) {
			copyDir(t, filepath.Join(other, datadir.CheckpointDir), filepath.Join(to, datadir.CheckpointDir))
		},
		"log of another member": func(to string) {
			copyDir(t, filepath.Join(other, datadir.LogDir), filepath.Join(to, datadir.LogDir))
		},
		"segment of another place": func(to string) {
			mustCopy(t, segments[1], filepath.Join(to, datadir.LogDir, filepath.Base(segments[0])))
		},
		"segment that nothing names": func(to string) {
			mustCopy(t, segments[len(segments)-2], filepath.Join(to, datadir.LogDir, wal.FileName(1<<40)))
		},
		"file with a strange name": func(to string) {
			if err := os.WriteFile(filepath.Join(to, datadir.LogDir, "x"+wal.Suffix), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"identity lost": func(to string) {
			if err := os.Remove(filepath.Join(to, datadir.IdentityFile)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		to := filepath.Join(t.TempDir(), "data")
		copyDir(t, dir, to)
		spoil(to)
		_, err := Open(t.Context(), smallConfig(to))
		var damage *datadir.CorruptionError
		if !errors.As(err, &damage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func mustCopy(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A directory of former versions is refused, and stays as it is.
func TestFormerFilesAreRefused(t *testing.T) {
	dir, _, _ := damagedDir(t)
	for _, name := range []string{filepath.Join(datadir.LogDir, "wal-meta.db"), "state.db"} {
		refusesFormer(t, dir, filepath.Join(dir, name))
	}
}

func refusesFormer(t *testing.T, dir, former string) {
	t.Helper()
	if err := os.WriteFile(former, []byte("whatever"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(former)
	for name, look := range map[string]func() error{
		"check": func() error { _, err := datadir.Check(dir); return err },
		"open":  func() error { _, err := Open(t.Context(), smallConfig(dir)); return err },
	} {
		if err := look(); !errors.Is(err, datadir.ErrFormer) || !strings.Contains(err.Error(), former) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// lastNonZero returns the end of the data in b, at least from.
func lastNonZero(b []byte, from int) int {
	return max(from, len(bytes.TrimRight(b, "\x00")))
}
