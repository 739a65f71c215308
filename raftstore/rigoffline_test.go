package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/rig"
)

// crashImages records what do changes in a directory, and has check look at images of what a power cut may leave in
// front of each step, and of what it may leave at the end. Another time each step fails once.
func crashImages(t *testing.T, seed uint64, prepare func(dir string), do func(d *datadir.Disk, dir string) error,
	check func(dir string, done bool) error) {
	t.Helper()
	home, dirs, images := t.TempDir(), 0, 0
	r := rand.New(rand.NewPCG(seed, 4))
	newDir := func() string {
		dirs++
		return filepath.Join(home, fmt.Sprintf("d%d", dirs))
	}
	recorded := func() *rig.Recorder {
		dir := newDir()
		prepare(dir)
		files, err := rig.Record(dir)
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	look := func(files *rig.Recorder, image *rig.Memory, done bool, where string) {
		t.Helper()
		dir := newDir()
		if err := image.Save(files.Dir, dir); err != nil {
			t.Fatal(err)
		}
		images++
		if err := check(dir, done); err != nil {
			t.Fatalf("seed %d, image %d, %s: %v", seed, images, where, err)
		}
	}
	files := recorded()
	steps := 0
	files.Memory.Before = func(step, path string) error {
		if rig.Changes(step) {
			for range 3 {
				look(files, files.Memory.Crash(r), false, fmt.Sprintf("before %s %s", step, filepath.Base(path)))
			}
			steps++
		}
		return nil
	}
	if err := do(&datadir.Disk{FS: files}, files.Dir); err != nil {
		t.Fatal(err)
	}
	files.Memory.Before = nil
	for range 10 {
		look(files, files.Memory.Crash(r), true, "at the end")
	}
	for fail := range steps {
		kind := rig.Faults[r.IntN(len(rig.Faults))]
		files, left := recorded(), fail
		files.Memory.Before = func(step, path string) error {
			if !rig.Changes(step) {
				return nil
			}
			if left--; left != -1 {
				return nil
			}
			return kind
		}
		err := do(&datadir.Disk{FS: files}, files.Dir)
		files.Memory.Before = nil
		where := fmt.Sprintf("after %v at step %d: %v", kind, fail, err)
		look(files, files.Memory.Crash(r), err == nil, where)
		look(files, files.Memory.Clone(), err == nil, where)
	}
	if t.Logf("%d steps, %d images", steps, images); steps < 5 {
		t.Error("too few steps")
	}
}

// Whatever a power cut or an error leaves of a restore, it is refused until it is restored again, or whole.
func TestRestoreCrashImages(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	b, want := backedUp(t)
	restore := func(d *datadir.Disk, dir string) error {
		return d.RestoreBackup(dir, bytes.NewReader(b), membership.Record{})
	}
	check := func(dir string, done bool) error {
		made, err := datadir.HasData(dir)
		_, marked := os.Lstat(filepath.Join(dir, datadir.RestoringFile))
		half := !errors.Is(marked, os.ErrNotExist)
		switch {
		case err != nil || done && (half || !made):
			return fmt.Errorf("data: %v, %w, %w", made, err, marked)
		case half || !made:
			if err := restore(&datadir.Disk{}, dir); err != nil {
				return fmt.Errorf("restored again: %w", err)
			}
		}
		s, err := Open(t.Context(), smallConfig(dir))
		if err != nil {
			return err
		}
		defer s.closeFiles()
		if got := rowsOf(t, s); !maps.Equal(got, want) {
			return fmt.Errorf("%d rows, want %d", len(got), len(want))
		}
		return nil
	}
	crashImages(t, 1, func(string) {}, restore, check)
}

// Whatever a power cut or an error leaves of a member that is made the only one of its cluster, it is that or not, and
// has what it had.
func TestForceCrashImages(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	g := newMemberRig(t, 1)
	f, err := assembleHandDriven(t, g.config(g.files))
	for n := 0; n < 60 && err == nil; n++ {
		err = g.step(f)
	}
	if err != nil {
		t.Fatal(err)
	}
	g.closed(f)
	settled := g.files.Dir
	before, err := datadir.Examine(settled, nil)
	before.Close()
	if err != nil {
		t.Fatal(err)
	}
	check := func(dir string, done bool) error {
		img, err := datadir.Examine(dir, nil)
		img.Close()
		if err != nil {
			return err
		}
		forced := img.Meta.Forced != 0
		if done && !forced || forced != img.Meta.Conf.Alone(ownID) || forced != (img.Meta.Lineage != 0) {
			return fmt.Errorf("made the only one: %+v", img.Meta)
		}
		if img.Hard != before.Hard || img.Last != before.Last || img.Meta.Index != before.Meta.Index ||
			img.CheckpointRows() != before.CheckpointRows() {
			return fmt.Errorf("had entries to %d, %+v and %+v, has them to %d, %+v and %+v", before.Last,
				before.Hard, before.Meta, img.Last, img.Hard, img.Meta)
		}
		if err := datadir.ForceSingle(dir); err != nil {
			return fmt.Errorf("again: %w", err)
		}
		s, err := datadir.PlanForceSingle(dir)
		if err == nil && len(s.Others) > 0 {
			err = fmt.Errorf("the others are %v", s.Others)
		}
		return err
	}
	crashImages(t, 2, func(dir string) { copyDir(t, settled, dir) }, (*datadir.Disk).ForceSingle, check)
}
