package raftstore

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/rig"
	"github.com/coordd/coordd/raftstore/roster"
)

// crashImages has check look at images of what a power cut may leave in front of each step of do, which changes the
// files that prepare makes, and of what it may leave at the end. Another time each step fails once. One that failed may
// be done all the same.
func crashImages(t *testing.T, seed uint64, prepare func() *rig.Memory, do func(d *datadir.Disk) error,
	check func(image *datadir.Disk, done bool) error) {
	t.Helper()
	images, r := 0, rand.New(rand.NewPCG(seed, 4))
	look := func(image *rig.Memory, done bool, where string) {
		t.Helper()
		images++
		if err := check(&datadir.Disk{FS: image}, done); err != nil {
			t.Fatalf("seed %d, image %d, %s: %v", seed, images, where, err)
		}
	}
	files, steps := prepare(), 0
	files.Before = func(step, path string) error {
		if rig.Changes(step) {
			for range 3 {
				look(files.Crash(r), false, fmt.Sprintf("before %s %s", step, filepath.Base(path)))
			}
			steps++
		}
		return nil
	}
	if err := do(&datadir.Disk{FS: files}); err != nil {
		t.Fatal(err)
	}
	files.Before = nil
	for range 10 {
		look(files.Crash(r), true, "at the end")
	}
	for fail := range steps {
		kind := rig.Faults[r.IntN(len(rig.Faults))]
		files, left := prepare(), fail
		files.Before = func(step, path string) error {
			if !rig.Changes(step) {
				return nil
			}
			if left--; left != -1 {
				return nil
			}
			return kind
		}
		err := do(&datadir.Disk{FS: files})
		files.Before = nil
		where := fmt.Sprintf("after %v at step %d: %v", kind, fail, err)
		look(files.Crash(r), err == nil, where)
		look(files.Clone(), err == nil, where)
	}
	if t.Logf("%d steps, %d images", steps, images); steps < 5 {
		t.Error("too few steps")
	}
}

// opened opens the member of an image for as long as look takes.
func opened(t *testing.T, image *datadir.Disk, look func(s *Store) error) error {
	cfg := smallConfig(rigDir)
	cfg.fs = image.FS
	s, err := Open(t.Context(), cfg)
	if err != nil {
		return err
	}
	return errors.Join(look(s), s.closeFiles())
}

// settledMember is the directory of a follower that has lived for some time.
func settledMember(t *testing.T, seed uint64) *memberRig {
	g := newMemberRig(t, seed)
	f, err := assembleHandDriven(t, g.config(g.files))
	for n := 0; n < 60 && err == nil; n++ {
		err = g.step(f)
	}
	if err != nil {
		t.Fatal(err)
	}
	g.closed(f)
	return g
}

// Whatever a power cut or an error leaves of a restore, it is refused until it is restored again, or whole.
func TestRestoreCrashImages(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	b, want := backedUp(t)
	restore := func(d *datadir.Disk) error { return d.RestoreBackup(rigDir, bytes.NewReader(b)) }
	check := func(image *datadir.Disk, done bool) error {
		_, err := image.Check(rigDir)
		half := errors.Is(err, datadir.ErrHalfRestored) || errors.Is(err, datadir.ErrNotData) ||
			errors.Is(err, os.ErrNotExist)
		if err != nil && (done || !half) {
			return err
		}
		if half {
			if err := restore(image); err != nil {
				return fmt.Errorf("restored again: %w", err)
			}
		}
		return opened(t, image, func(s *Store) error {
			if got := rowsOf(t, s); !maps.Equal(got, want) {
				return fmt.Errorf("%d rows, want %d", len(got), len(want))
			}
			return nil
		})
	}
	crashImages(t, 1, func() *rig.Memory { return rig.New("/") }, restore, check)
}

// Whatever a power cut or an error leaves of a member that is made the only one of its cluster, it is that or not, and
// has what it had.
func TestForceCrashImages(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	settled := settledMember(t, 1).files
	before, err := (&datadir.Disk{FS: settled}).Examine(rigDir, nil)
	before.Close()
	if err != nil {
		t.Fatal(err)
	}
	check := func(image *datadir.Disk, done bool) error {
		img, err := image.Examine(rigDir, nil)
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
		if err := image.ForceSingle(rigDir); err != nil {
			return fmt.Errorf("again: %w", err)
		}
		s, err := image.PlanForceSingle(rigDir)
		if err == nil && len(s.Others) > 0 {
			err = fmt.Errorf("the others are %v", s.Others)
		}
		return err
	}
	crashImages(t, 2, settled.Clone, func(d *datadir.Disk) error { return d.ForceSingle(rigDir) }, check)
}

// Whatever a power cut or an error leaves of a directory that is condemned, it is that as a whole or not at all, and is
// used only if not.
func TestCondemnedCrashImages(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	const reason = "its state is not that of the others"
	settled := settledMember(t, 2).files
	check := func(image *datadir.Disk, done bool) error {
		report, err := image.Check(rigDir)
		if err != nil || report.Condemned != "" && report.Condemned != reason || done && report.Condemned == "" ||
			strings.Contains(report.String(), "CONDEMNED") != (report.Condemned != "") {
			return fmt.Errorf("condemned for %q: %w", report.Condemned, err)
		}
		_, planned := image.PlanForceSingle(rigDir)
		for name, err := range map[string]error{
			"open":    opened(t, image, func(*Store) error { return nil }),
			"plan":    planned,
			"recover": (&datadir.Disk{FS: image.FS.(*rig.Memory).Clone()}).ForceSingle(rigDir),
		} {
			var condemnation *datadir.CondemnedError
			if is := errors.As(err, &condemnation); is != (report.Condemned != "") || !is && err != nil ||
				is && condemnation.Reason != reason {
				return fmt.Errorf("condemned for %q, %s: %w", report.Condemned, name, err)
			}
		}
		return nil
	}
	crashImages(t, 3, settled.Clone, func(d *datadir.Disk) error { return d.Condemn(rigDir, reason) }, check)
}

// Whatever a power cut or an error leaves of the list of members that a member has learnt, it is the list before or the
// new one.
func TestAdmissionCrashImages(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	settled := settledMember(t, 3).files
	conf := func(n uint64) membership.Conf {
		return membership.Conf{Index: 1000 * n, Voters: []uint64{ownID, firstLeader, nextLeader + n},
			Members: []membership.Record{{ID: nextLeader + n, Name: "another", Peer: "another:1"}}}
	}
	learn := func(d *datadir.Disk, n uint64) error {
		dir, err := datadir.Open(datadir.Options{Dir: rigDir, Disk: d, SegmentBytes: 8 << 10, Logger: noLog})
		if err != nil {
			return err
		}
		defer dir.Close()
		r := roster.New(roster.Config{Save: dir.SaveLearnt, Fail: func(error) {}}, membership.Conf{}, dir.Learnt)
		if err := r.Learn(conf(n), 0); err != nil {
			return err
		}
		return r.Remember(&peerpb.Header{From: nextLeader + n, Incarnation: n})
	}
	if err := learn(&datadir.Disk{FS: settled}, 1); err != nil {
		t.Fatal(err)
	}
	settled = settled.Clone()
	check := func(image *datadir.Disk, done bool) error {
		return opened(t, image, func(s *Store) error {
			n := s.learnt.Conf.Index / 1000
			if n != 1 && n != 2 || !slices.Equal(s.learnt.Conf.Voters, conf(n).Voters) ||
				done && s.learnt.Incarnations[nextLeader+2] != 2 {
				return fmt.Errorf("learnt: %+v", s.learnt)
			}
			return nil
		})
	}
	crashImages(t, 4, settled.Clone, func(d *datadir.Disk) error { return learn(d, 2) }, check)
}

// Whatever a power cut or an error leaves of a new member that is let in, it begins anew or has the list of members
// that came with its id.
func TestJoinCrashImages(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	id := datadir.Identity{Cluster: 77, Member: ownID, Incarnation: 5}
	learnt := membership.Conf{Index: 9, Voters: []uint64{firstLeader}, Learners: []uint64{ownID}}
	join := func(d *datadir.Disk) error {
		dir, err := datadir.Open(datadir.Options{Dir: rigDir, Disk: d, SegmentBytes: 8 << 10, Logger: noLog,
			Origin: func() (datadir.Origin, error) {
				return datadir.Origin{ID: id, First: datadir.FirstMeta(id), Learnt: datadir.Learnt{Conf: learnt}}, nil
			}})
		if err != nil {
			return err
		}
		return dir.Close()
	}
	check := func(image *datadir.Disk, done bool) error {
		if made, err := image.HasData(rigDir); err != nil || done && !made {
			return fmt.Errorf("data: %v, %w", made, err)
		}
		if err := join(image); err != nil {
			return err
		}
		return opened(t, image, func(s *Store) error {
			if s.identity != id || s.learnt.Conf.Index != 9 ||
				!slices.Equal(s.learnt.Conf.Learners, learnt.Learners) {
				return fmt.Errorf("%+v has learnt %+v", s.identity, s.learnt)
			}
			return nil
		})
	}
	crashImages(t, 5, func() *rig.Memory { return rig.New("/") }, join, check)
}
