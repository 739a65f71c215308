package raftstore

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
	"github.com/coordd/coordd/raftstore/wal"
)

// One of three members, and the two from which it hears.
const ownID, firstLeader, nextLeader = 1000, 1001, 1002

// handDriven is a follower whose turns and log writes the test itself performs, so that jobs gather in front of a
// write as behind a slow disk.
type handDriven struct {
	t *testing.T
	*recorder
	s    *Store
	stop func()
}

// openHandDriven opens the follower of a directory, which is made if it is missing; entry 1 is in its checkpoint.
func openHandDriven(t *testing.T, cfg Config) (*handDriven, error) {
	t.Helper()
	f, err := assembleHandDriven(t, cfg)
	if err != nil {
		return nil, err
	}
	go f.s.keeper.run()
	f.stop = func() {
		f.s.keeper.close()
		if err := f.s.closeFiles(); err != nil {
			t.Error(err)
		}
	}
	f.turn(f.s.loop.begin)
	return f, nil
}

// assembleHandDriven is openHandDriven without the keeper's goroutine and the first turn.
func assembleHandDriven(t *testing.T, cfg Config) (*handDriven, error) {
	cfg.origin = func() (datadir.Origin, error) {
		id := datadir.Identity{Cluster: 77, Member: ownID, Incarnation: 5}
		return datadir.Origin{ID: id, First: receivedRecord(1, 1)}, nil
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		return nil, err
	}
	node, err := newNode(s)
	if err != nil {
		t.Fatal(err)
	}
	s.view.Store(&memberView{conf: s.log.LastConf()})
	makeWriters(s)
	f := &handDriven{t: t, recorder: newRecorder(s), s: s}
	s.loop = newLoop(s, node, f)
	return f, nil
}

// Restore implements Restorer.
func (f *handDriven) Restore(uint64) {}

// receivedRecord is the record of a checkpoint that another member has sent: it has no rows.
func receivedRecord(index, term uint64) datadir.Meta {
	return datadir.Meta{Format: datadir.MetaFormat, Cluster: 77, Member: ownID, Index: index, Term: term,
		Restored: index, Conf: membership.Conf{Index: index, Voters: []uint64{ownID, firstLeader, nextLeader}}}
}

func (f *handDriven) turn(first func() error) {
	f.t.Helper()
	if err := f.s.loop.workInTurn(first); err != nil {
		f.t.Fatal(err)
	}
}

func (f *handDriven) receive(m *pb.Message) {
	f.t.Helper()
	m.To = new(uint64(ownID))
	f.turn(func() error { f.s.loop.receive(m); return nil })
}

// entries receives an append of one entry for each text, behind the entry prev of term prevTerm.
func (f *handDriven) entries(from, term, prev, prevTerm, commit uint64, texts ...string) {
	f.t.Helper()
	m := &pb.Message{Type: pb.MsgApp.Enum(), From: &from, Term: &term, Index: &prev, LogTerm: &prevTerm,
		Commit: &commit}
	for i, text := range texts {
		m.Entries = append(m.Entries, &pb.Entry{Index: new(prev + 1 + uint64(i)), Term: &term, Data: []byte(text)})
	}
	f.receive(m)
}

// term receives the first heartbeat of a leader's term.
func (f *handDriven) term(from, term uint64) {
	f.t.Helper()
	f.receive(&pb.Message{Type: pb.MsgHeartbeat.Enum(), From: &from, Term: &term, Commit: new(uint64(0))})
}

// checkpoint receives a leader's checkpoint as of an entry.
func (f *handDriven) checkpoint(from, term, index, indexTerm uint64) {
	f.t.Helper()
	record := receivedRecord(index, indexTerm)
	m := &pb.Message{Type: pb.MsgSnap.Enum(), From: &from, Term: &term, Snapshot: &pb.Snapshot{
		Metadata: &pb.SnapshotMetadata{Index: &index, Term: &indexTerm, ConfState: record.Conf.ConfState()}}}
	f.s.receiver.slot <- struct{}{}
	file, err := f.s.receiver.collect(proto.CloneOf(m), func() (*peerpb.Chunk, error) {
		return &peerpb.Chunk{Checkpoint: record.Encode()}, nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	m.To = new(uint64(ownID))
	f.turn(func() error {
		f.s.loop.offered = file
		f.s.loop.receive(m)
		return nil
	})
}

// write is one write of everything that has gathered, and the turn behind it. What comes during the write is received
// by meanwhile.
func (f *handDriven) write(meanwhile func()) {
	f.t.Helper()
	jobs := f.s.appender.next()
	if err := f.s.appender.write(jobs); err != nil {
		f.t.Fatal(err)
	}
	if meanwhile != nil {
		meanwhile()
	}
	f.s.inbox.post(func(m *mail) { m.written = append(m.written, jobs...) })
	f.turn(nil)
}

// gatherReplaced queues entries of a new leader, the commit of some, and a change of the term.
func gatherReplaced(f *handDriven) {
	f.entries(nextLeader, 3, 5, 2, 5, "right6")
	f.entries(nextLeader, 3, 6, 3, 8, "right7", "right8", "right9")
	f.term(firstLeader, 4)
}

// TestOneSyncAWrite: entries and the hard state that covers them are one batch, with one write and one sync.
func TestOneSyncAWrite(t *testing.T) {
	t.Parallel()
	f, err := openHandDriven(t, smallConfig(filepath.Join(t.TempDir(), "data")))
	if err != nil {
		t.Fatal(err)
	}
	defer f.stop()
	f.entries(firstLeader, 2, 1, 1, 5, "a2", "a3", "a4", "a5")
	f.write(nil)
	gatherReplaced(f)
	var steps []string
	f.s.disk.Before = func(step, _ string) error {
		steps = append(steps, step)
		return nil
	}
	f.write(nil)
	f.s.disk.Before = nil
	if !slices.Equal(steps, []string{"write log", "sync log"}) {
		t.Errorf("steps %q", steps)
	}
	img, err := datadir.Examine(f.s.cfg.Dir, nil)
	img.Close()
	if err != nil || img.Hard != (wal.HardState{Term: 4, Commit: 8}) {
		t.Errorf("the hard state is %+v, %v", img.Hard, err)
	}
}

// TestCommitIsDurableAfterItsEntries kills a follower before each step on the disk of one write that several jobs
// share. It has entries 6 to 12 of a deposed leader, which were never committed. Others have taken their place, of
// which 6 to 8 are committed, and the term changes once more before any of that is on the disk. A start after such a
// crash is not refused and hands over none of the deposed leader's entries. After the write the commit index is
// durable.
func TestCommitIsDurableAfterItsEntries(t *testing.T) {
	t.Parallel()
	for name, gather := range map[string]func(f *handDriven){
		"replaced": gatherReplaced,
		"replaced again during the first write": func(f *handDriven) {
			f.entries(nextLeader, 3, 5, 2, 5, "lost6", "lost7", "lost8", "lost9")
			f.write(func() {
				f.entries(firstLeader, 4, 5, 2, 5, "right6")
				f.entries(firstLeader, 4, 6, 4, 8, "right7", "right8")
			})
			f.term(nextLeader, 5)
		},
		"replaced by a checkpoint": func(f *handDriven) {
			f.checkpoint(nextLeader, 3, 8, 3)
			f.term(firstLeader, 4)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := smallConfig(filepath.Join(t.TempDir(), "data"))
			f, err := openHandDriven(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			f.entries(firstLeader, 2, 1, 1, 5, "a2", "a3", "a4", "a5")
			f.write(nil)
			f.entries(firstLeader, 2, 5, 2, 5, "lost6", "lost7", "lost8", "lost9", "lost10", "lost11", "lost12")
			f.write(nil)
			gather(f)
			var steps []string
			f.s.disk.Before = func(step, path string) error {
				steps = append(steps, step+" "+filepath.Base(path))
				copyDir(t, cfg.Dir, fmt.Sprintf("%s-%d", cfg.Dir, len(steps)))
				return nil
			}
			if err := f.s.appender.write(f.s.appender.next()); err != nil {
				t.Fatal(err)
			}
			f.stop()
			copyDir(t, cfg.Dir, fmt.Sprintf("%s-%d", cfg.Dir, len(steps)+1))
			steps = append(steps, "")
			for i, step := range steps {
				crashed := smallConfig(fmt.Sprintf("%s-%d", cfg.Dir, i+1))
				again, err := openHandDriven(t, crashed)
				if err != nil {
					t.Errorf("killed before %q: %v", step, err)
					continue
				}
				if commands := strings.Join(again.commands(), " "); strings.Contains(commands, "lost") {
					t.Errorf("killed before %q: committed is %s", step, commands)
				}
				if commit := again.s.log.Hard().Commit; step == "" && commit != 8 {
					t.Errorf("the durable commit index is %d", commit)
				}
				again.stop()
			}
		})
	}
}
