package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/rig"
)

// written makes a checkpoint of several files in memory: rows, deleted ones, and a dropped prefix.
func written(t testing.TB, fs *rig.Memory, salt string) {
	t.Helper()
	if err := write(fs, salt); err != nil {
		t.Fatal(err)
	}
}

func write(fs *rig.Memory, salt string) error {
	s := New(Options{FS: fs, Dir: dir, RunBytes: 1000, StepBytes: 300})
	if err := s.Replace(nil, []byte(`{"n":0}`)); err != nil {
		return err
	}
	for n := range 4 {
		var rows []Row
		for i := range 30 {
			key := fmt.Sprintf("%d/%02d", i%7, i)
			rows = append(rows, Row{Key: []byte(key), Value: fmt.Appendf(nil, "%s%d", salt, n), Delete: i%5 == n})
		}
		if n == 2 {
			s.Drop([]byte("3/"))
		}
		s.Put(rows)
		s.Finish(fmt.Appendf(nil, `{"n":%d}`, n+1))
		for durable := false; !durable; {
			var err error
			if durable, err = s.Step(); err != nil {
				return err
			}
		}
	}
	for more := true; more; {
		var err error
		if more, err = s.Tidy(true); err != nil {
			return err
		}
	}
	return s.Close()
}

// TestEveryFlippedBitIsFound flips each bit of each file. No damaged row is handed over on the way.
func TestEveryFlippedBitIsFound(t *testing.T) {
	fs := rig.New(dir)
	written(t, fs, "a")
	good := strings.Fields(rows(t, fs))
	add := func(key, value []byte) error {
		if row := fmt.Sprintf("%s=%s", key, value); !slices.Contains(good, row) {
			t.Fatalf("row %q is handed over", row)
		}
		return nil
	}
	flipped := 0
	for _, path := range fs.Paths() {
		content := fs.Content(path)
		for bit := range 8 * len(content) {
			content[bit/8] ^= 1 << (bit % 8)
			_, err := Inspect(Options{FS: fs, Dir: dir}, add)
			content[bit/8] ^= 1 << (bit % 8)
			if !errors.As(err, new(*files.DamageError)) && !errors.As(err, new(*files.FormatError)) {
				t.Fatalf("%s, byte %d, bit %d: %v", path, bit/8, bit%8, err)
			}
			if !strings.Contains(err.Error(), path) {
				t.Fatalf("%s, byte %d: the error names another file: %v", path, bit/8, err)
			}
			flipped++
		}
	}
	if flipped < 10_000 {
		t.Errorf("only %d bits", flipped)
	}
}

// TestCutFilesAreFound cuts each file at each place, and appends to it.
func TestCutFilesAreFound(t *testing.T) {
	fs := rig.New(dir)
	written(t, fs, "a")
	for _, path := range fs.Paths() {
		content := fs.Content(path)
		for size := range len(content) + 2 {
			if size == len(content) {
				continue
			}
			image := fs.Clone()
			image.Put(path, append(slices.Clone(content), 'x')[:size])
			_, err := Inspect(Options{FS: image, Dir: dir}, nil)
			if !errors.As(err, new(*files.DamageError)) {
				t.Fatalf("%s with %d of %d bytes: %v", path, size, len(content), err)
			}
		}
	}
}

// TestSoundFileOfAnotherCheckpointIsFound puts a file in the place of another one that has the same name, as many rows
// and bytes, and is sound.
func TestSoundFileOfAnotherCheckpointIsFound(t *testing.T) {
	fs, other := rig.New(dir), rig.New(dir)
	written(t, fs, "a")
	written(t, other, "b")
	swapped := 0
	for _, path := range fs.Paths() {
		if !strings.HasSuffix(path, suffix) || bytes.Equal(fs.Content(path), other.Content(path)) {
			continue
		}
		swapped++
		image := fs.Clone()
		image.Put(path, slices.Clone(other.Content(path)))
		_, err := Inspect(Options{FS: image, Dir: dir}, nil)
		if err == nil || !strings.Contains(err.Error(), "not the file of the manifest") {
			t.Errorf("%s of another checkpoint: %v", path, err)
		}
	}
	if swapped == 0 {
		t.Error("no file was swapped")
	}
}

// TestDamageIsNotMerged flips a bit of a file that was sound when it was opened: neither a merge nor a reader may copy
// it under a new checksum.
func TestDamageIsNotMerged(t *testing.T) {
	fs := rig.New(dir)
	written(t, fs, "a")
	i, err := Inspect(Options{FS: fs, Dir: dir, MergeBytes: 1}, nil)
	if err != nil || len(i.Files) < 2 {
		t.Fatal(i, err)
	}
	s, err := i.Open(i.Record)
	if err != nil {
		t.Fatal(err)
	}
	content := fs.Content(filepath.Join(dir, i.Files[0].Name()))
	for _, at := range []int{len(content) / 2, len(content) - 2} {
		content[at] ^= 1
		p := s.Pin()
		for key := []byte{0}; err == nil && key != nil; {
			key, _, err = p.Next()
		}
		if !errors.As(err, new(*files.DamageError)) {
			t.Errorf("reading: %v", err)
		}
		content[at] ^= 1
	}
	content[len(content)-2] ^= 1 // of the checksum behind the last row
	before := fs.Content(filepath.Join(dir, ManifestName))
	for more := true; more && err == nil; {
		more, err = s.Tidy(true)
	}
	if !errors.As(err, new(*files.DamageError)) {
		t.Errorf("merging: %v", err)
	}
	if !bytes.Equal(before, fs.Content(filepath.Join(dir, ManifestName))) {
		t.Error("the manifest names what was merged from a damaged file")
	}
}

// TestEveryStepFails lets each step of a history fail, with each error. The process would end there. What the next one
// finds must be there after a power cut as well.
func TestEveryStepFails(t *testing.T) {
	fs := rig.New(dir)
	written(t, fs, "a")
	steps := fs.Steps()
	for at := range steps {
		for _, fault := range rig.Faults {
			fs := rig.New(dir)
			failed, last := false, ""
			fs.Before = func(step, path string) error {
				if failed || fs.Steps() == at && rig.Changes(step) {
					failed, last = true, step+" "+path
					return fault
				}
				return nil
			}
			err := write(fs, "a")
			fs.Before = nil
			if !failed {
				continue
			}
			if !errors.Is(err, fault) {
				t.Fatalf("%s fails with %v: %v", last, fault, err)
			}
			i, err := Inspect(Options{FS: fs, Dir: dir}, nil)
			if errors.Is(err, os.ErrNotExist) {
				continue // the first manifest
			}
			if err != nil {
				t.Fatalf("after %s: %v", last, err)
			}
			s, err := i.Open(i.Record)
			if err != nil {
				t.Fatalf("after %s: %v", last, err)
			}
			_ = s.Close()
			for range 3 {
				found, err := Inspect(Options{FS: fs.Crash(newWorld(t, 1).r), Dir: dir}, nil)
				if err != nil || !bytes.Equal(found.Record, i.Record) || found.Rows != i.Rows {
					t.Fatalf("after %s and a power cut: %v", last, err)
				}
			}
		}
	}
	if steps < 50 {
		t.Errorf("only %d steps", steps)
	}
}

// TestFullDiskEndsAMerge lets a merge fail for want of space, and goes on once there is some.
func TestFullDiskEndsAMerge(t *testing.T) {
	fs := rig.New(dir)
	written(t, fs, "a")
	before := rows(t, fs)
	i, err := Inspect(Options{FS: fs, Dir: dir, MergeBytes: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := i.Open(i.Record)
	if err != nil {
		t.Fatal(err)
	}
	fs.Before = func(step, path string) error {
		if step == "write" {
			return syscall.ENOSPC
		}
		return nil
	}
	for more := true; more && err == nil; {
		more, err = s.Tidy(true)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	fs.Before = nil
	_ = s.Close()
	if i, err = Inspect(Options{FS: fs, Dir: dir, MergeBytes: 1}, nil); err != nil {
		t.Fatal(err)
	}
	if s, err = i.Open(i.Record); err != nil {
		t.Fatal(err)
	}
	for more := true; more && err == nil; {
		more, err = s.Tidy(true)
	}
	if err != nil {
		t.Fatal(err)
	}
	if after := rows(t, fs); after != before {
		t.Errorf("%s\nbefore: %s", after, before)
	}
	if paths := fs.Paths(); len(paths) != 2 {
		t.Errorf("left: %v", paths)
	}
}

// rows returns the rows of a checkpoint as text.
func rows(t *testing.T, fs *rig.Memory) string {
	t.Helper()
	var b strings.Builder
	i, err := Inspect(Options{FS: fs, Dir: dir}, func(key, value []byte) error {
		fmt.Fprintf(&b, "%s=%s ", key, value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	i.Close()
	return b.String()
}
