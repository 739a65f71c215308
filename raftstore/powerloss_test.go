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
	"sync"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/checkpoint"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/rig"
)

// unsynced is the disk of the machine without its syncs, which change nothing for a process that lives.
type unsynced struct{ files.FS }

type unsyncedFile struct{ files.File }

// SyncDir implements files.FS.
func (unsynced) SyncDir(string) error { return nil }

// Create implements files.FS.
func (u unsynced) Create(path string) (files.File, error) {
	f, err := u.FS.Create(path)
	return unsyncedFile{f}, err
}

// Sync implements files.File.
func (unsyncedFile) Sync() error { return nil }

// dump writes the files of an image below one directory into another.
func dump(t testing.TB, image *rig.Memory, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := image.Save(from, to); err != nil {
		t.Fatal(err)
	}
}

// powerLoss is a follower whose disk loses its power at random: it gets entries, some of which others replace, writes
// checkpoints, and is given those of its leader.
type powerLoss struct {
	t    *testing.T
	seed uint64
	r    *rand.Rand
	dir  string
	f    *handDriven
	fs   *rig.Recorder

	mu         sync.Mutex
	images     int
	marks      map[string]int
	last       uint64 // entry that the follower has, in memory
	term       uint64
	acked      uint64 // entry that it has acknowledged
	ackedTerm  uint64
	checkpoint uint64 // that it has reported, or installed
}

func text(index uint64) string {
	return fmt.Sprintf("e%04d%s", index, strings.Repeat(".", int(index*37%200)))
}

func rowOf(index uint64) Row { return row(fmt.Sprintf("row/%04d", index), text(index)) }

// before makes an image at one of some steps.
func (p *powerLoss) before(step, path string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if rig.Changes(step) && (strings.HasPrefix(step, "rename") || p.r.IntN(6) == 0) && !p.t.Failed() {
		p.check(p.fs.Memory.Crash(p.r), step+" "+filepath.Base(path))
	}
	return nil
}

// check opens an image. The caller holds the lock.
func (p *powerLoss) check(image *rig.Memory, step string) {
	p.images++
	crashed := filepath.Join(filepath.Dir(p.dir), "crashed")
	dump(p.t, image, p.dir, crashed)
	if _, err := os.Stat(filepath.Join(crashed, datadir.IdentityFile)); err != nil {
		p.marks["half made"]++
		return
	}
	where := fmt.Sprintf("seed %d, image %d, before %q", p.seed, p.images, step)
	img, err := datadir.Examine(crashed, nil)
	img.Close()
	if err != nil {
		p.t.Errorf("%s: %v", where, err)
		return
	}
	if img.Unfit {
		p.marks["a log of before"]++
	}
	cfg := smallConfig(crashed)
	cfg.fs = unsynced{files.Disk{}}
	again, err := openHandDriven(p.t, cfg)
	if err != nil {
		p.t.Errorf("%s: %v", where, err)
		return
	}
	p.judge(again, where)
	last := again.s.log.last
	term, err := again.s.log.Term(last)
	if err != nil {
		p.t.Errorf("%s: %v", where, err)
	}
	again.entries(firstLeader, p.term+5, last, term, 0, text(last+1))
	again.write(nil)
	again.stop()
	img, err = datadir.Examine(crashed, nil)
	if err != nil || img.Last != last+1 {
		p.t.Errorf("%s: after one more entry, the last is %d, not %d: %v", where, img.Last, last+1, err)
	}
	img.Close()
}

// judge compares what a store has after a crash with what it had promised. The caller holds the lock.
func (p *powerLoss) judge(again *handDriven, where string) {
	at := again.s.CheckpointIndex()
	want := map[string]string{}
	for index := uint64(2); index <= at; index++ {
		want[string(rowOf(index).Key)] = text(index)
	}
	if got := rowsOf(p.t, again.s); !maps.Equal(got, want) {
		p.t.Errorf("%s: %d rows as of entry %d", where, len(got), at)
	}
	if at < p.checkpoint {
		p.t.Errorf("%s: the checkpoint is as of entry %d, %d was reported", where, at, p.checkpoint)
	}
	if last := again.s.log.last; last < p.acked {
		p.t.Errorf("%s: the last entry is %d, %d was acknowledged", where, last, p.acked)
	} else if term, err := again.s.log.Term(p.acked); p.acked > at && (err != nil || term != p.ackedTerm) {
		p.t.Errorf("%s: entry %d has term %d, not %d: %v", where, p.acked, term, p.ackedTerm, err)
	}
	for i, c := range again.commands() {
		if index := at + 1 + uint64(i); c != text(index) {
			p.t.Errorf("%s: entry %d is committed as %.12q", where, index, c)
		}
	}
	if at > p.checkpoint {
		p.marks["one that is not reported"]++
	}
}

// ack notes that the entries up to the last one are acknowledged.
func (p *powerLoss) ack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acked, p.ackedTerm = p.last, p.term
}

// flush writes all that waits to be written.
func (p *powerLoss) flush() {
	for len(p.f.s.appender.jobs) > 0 {
		p.f.write(nil)
	}
}

// entries gives the follower so many entries, all of them committed. Some that are not come before, at times.
func (p *powerLoss) entries(count int) {
	p.flush()
	if p.r.IntN(3) == 0 {
		p.f.entries(firstLeader, p.term, p.last, p.termOfLast(), p.last, "lost1", "lost2", "lost3")
		p.flush()
		p.marks["a replaced end"]++
		p.mu.Lock()
		p.term++
		p.mu.Unlock()
	}
	var texts []string
	for i := range count {
		texts = append(texts, text(p.last+1+uint64(i)))
	}
	p.f.entries(firstLeader, p.term, p.last, p.termOfLast(), p.last+uint64(count), texts...)
	p.mu.Lock()
	p.last += uint64(count)
	p.mu.Unlock()
	p.flush()
	p.ack()
}

// termOfLast returns the term of the last committed entry.
func (p *powerLoss) termOfLast() uint64 {
	term, err := p.f.s.log.Term(p.last)
	if err != nil {
		p.t.Fatal(err)
	}
	return term
}

// write takes a checkpoint as of the last entry.
func (p *powerLoss) write() {
	s := p.f.s
	if p.last == p.checkpoint {
		return
	}
	if s.AppliedIndex() != p.last {
		s.Applied(p.last, 1)
	}
	w := s.BeginCheckpoint(p.last)
	for index := p.checkpoint + 1; index <= p.last; index++ {
		if index > 1 {
			w.Put([]Row{rowOf(index)})
		}
	}
	w.Finish()
	for s.stored.Load() != p.last {
		<-s.inbox.bell
		p.f.turn(nil)
		if p.t.Failed() {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checkpoint = p.last
}

// install gives the follower a checkpoint of its leader.
func (p *powerLoss) install() {
	p.flush()
	index := p.last + 1 + uint64(p.r.IntN(20))
	record := receivedRecord(index, p.term)
	var rows []*peerpb.Row
	for i := uint64(2); i <= index; i++ {
		r := rowOf(i)
		stored := checkpoint.Stored(r.Key, r.Value)
		_, sum, err := checkpoint.Value("a row", r.Key, stored)
		if err != nil {
			p.t.Fatal(err)
		}
		rows = append(rows, &peerpb.Row{Key: r.Key, Stored: stored})
		record.Rows, record.Sum = record.Rows+1, record.Sum+uint64(sum)
	}
	m := &pb.Message{Type: pb.MsgSnap.Enum(), From: new(uint64(firstLeader)), To: new(uint64(ownID)), Term: &p.term,
		Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: &index, Term: new(p.term),
			ConfState: record.Conf.ConfState()}}}
	chunks := []*peerpb.Chunk{{Rows: rows}, {Checkpoint: record.Encode()}}
	p.f.s.receiving <- struct{}{}
	file, err := p.f.s.collect(proto.CloneOf(m), func() (*peerpb.Chunk, error) {
		next := chunks[0]
		chunks = chunks[1:]
		return next, nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.f.turn(func() error {
		p.f.s.loop.offered = file
		p.f.s.loop.receive(m)
		return nil
	})
	p.flush()
	p.mu.Lock()
	p.last, p.checkpoint = index, index
	p.mu.Unlock()
	p.ack()
}

// restorer is a handler that may be given a checkpoint.
type restorer struct{ *recorder }

// Restore implements Restorer.
func (restorer) Restore(uint64) {}

// live makes images of one life.
func (p *powerLoss) live(acts int) {
	var err error
	if p.fs, err = rig.Record(p.dir); err != nil {
		p.t.Fatal(err)
	}
	p.last, p.term, p.acked, p.ackedTerm, p.checkpoint = 1, 2, 1, 1, 1
	p.fs.Memory.Before = p.before
	cfg := smallConfig(p.dir)
	cfg.fs = p.fs
	if p.f, err = openHandDriven(p.t, cfg); err != nil {
		p.t.Fatal(err)
	}
	p.f.s.loop.handler = restorer{p.f.recorder}
	for range acts {
		if p.t.Failed() {
			break
		}
		switch p.r.IntN(5) {
		case 0:
			p.write()
		case 1:
			p.install()
		default:
			p.entries(1 + p.r.IntN(12))
		}
	}
	p.f.stop()
}

// TestPowerLossOfAFollower opens what power cuts may leave of a follower that writes and installs checkpoints: each
// image has a whole checkpoint, at least the one that was reported, and each acknowledged entry after it.
func TestPowerLossOfAFollower(t *testing.T) {
	testmode.WithoutRace(t)
	marks, images := map[string]int{}, 0
	for seed := range uint64(sample(4, 40)) {
		p := &powerLoss{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 3)), marks: marks,
			dir: filepath.Join(t.TempDir(), "data")}
		p.live(12)
		if images += p.images; t.Failed() {
			break
		}
	}
	t.Logf("%d images, %v", images, marks)
	for _, mark := range []string{"half made", "a log of before", "a replaced end", "one that is not reported"} {
		if marks[mark] == 0 && !t.Failed() {
			t.Errorf("no image with: %s", mark)
		}
	}
}

// TestPowerLossWhileRestoring opens what power cuts may leave of a restore: nothing starts without the whole backup,
// and the restore can be run again.
func TestPowerLossWhileRestoring(t *testing.T) {
	testmode.WithoutRace(t)
	b, want := backedUp(t)
	base := t.TempDir()
	dir := filepath.Join(base, "data")
	r := rand.New(rand.NewPCG(1, 4))
	m, err := rig.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	images, done := 0, 0
	m.Memory.Before = func(step, path string) error {
		for range 3 {
			crashed := filepath.Join(base, "crashed")
			dump(t, m.Memory.Crash(r), dir, crashed)
			images++
			cfg := smallConfig(crashed)
			cfg.fs = unsynced{files.Disk{}}
			made, err := datadir.HasData(crashed)
			if err != nil {
				t.Fatal(err)
			}
			if s, err := Open(t.Context(), cfg); err == nil && made {
				if got := rowsOf(t, s); !maps.Equal(got, want) {
					t.Errorf("before %q: %d rows", step, len(got))
				}
				done++
				stop(t, s)
				continue
			} else if err == nil { // a new directory
				stop(t, s)
				if slices.Contains(m.Memory.Paths(), filepath.Join(dir, datadir.IdentityFile)) {
					t.Errorf("before %q: the backup is gone", step)
				}
				continue
			} else if !errors.Is(err, datadir.ErrHalfRestored) {
				t.Errorf("before %q: %v", step, err)
			}
			d := &datadir.Disk{FS: cfg.fs}
			if err := d.RestoreBackup(crashed, bytes.NewReader(b), membership.Record{}); err != nil {
				t.Errorf("before %q: again: %v", step, err)
			}
		}
		return nil
	}
	if err := (&datadir.Disk{FS: m}).RestoreBackup(dir, bytes.NewReader(b), membership.Record{}); err != nil {
		t.Fatal(err)
	}
	m.Memory.Before = nil
	dump(t, m.Memory.Crash(r), dir, filepath.Join(base, "crashed"))
	s := open(t, smallConfig(filepath.Join(base, "crashed")))
	if got := rowsOf(t, s); !maps.Equal(got, want) {
		t.Errorf("after the end: %d rows", len(got))
	}
	stop(t, s)
	t.Logf("%d images, %d of them restored", images, done)
	if images < 50 {
		t.Error("too few images")
	}
}
