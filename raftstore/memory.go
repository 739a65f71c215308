package raftstore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/checkpoint"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/wal"
)

// Memory is what a store that keeps everything in memory leaves behind when it ends: the next one that is
// opened with it goes on from there, as from a data directory. Its zero value is empty. One store at a time
// may have it.
type Memory struct {
	mutex   sync.Mutex
	locked  bool
	id      datadir.Identity // zero: nothing was kept yet
	meta    datadir.Meta
	rows    map[string][]byte
	hard    wal.HardState
	entries []*pb.Entry // consecutive
}

// open opens the place of a data directory; nil is one that keeps nothing. load gets the rows.
func (m *Memory) open(load func(key, value []byte) error) (*datadir.Image, logDevice, rowDevice, error) {
	log, rows := memoryLog{m}, &memoryRows{kept: m}
	if m == nil {
		m = &Memory{}
	} else if err := m.lock(); err != nil {
		return nil, nil, nil, err
	}
	if m.id == (datadir.Identity{}) {
		m.id = datadir.NewIdentity()
		m.meta = datadir.FirstMeta(m.id)
	}
	if load != nil {
		if err := rows.Each(load); err != nil {
			return nil, nil, nil, err
		}
	}
	return m.image(), log, rows, nil
}

// lock is what locking a directory is on a disk.
func (m *Memory) lock() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.locked {
		return datadir.ErrLocked
	}
	m.locked = true
	return nil
}

// image returns the content as a data directory has it.
func (m *Memory) image() *datadir.Image {
	img := &datadir.Image{Identity: m.id, Meta: m.meta, First: m.meta.Index + 1, Last: m.meta.Index,
		Hard: m.hard}
	if len(m.entries) > 0 {
		img.First, img.Last = m.entries[0].GetIndex(), m.entries[len(m.entries)-1].GetIndex()
	}
	for _, e := range m.entries {
		if n := len(img.Runs); n == 0 || img.Runs[n-1].Term != e.GetTerm() {
			img.Runs = append(img.Runs, wal.Run{Index: e.GetIndex(), Term: e.GetTerm()})
		}
		if e.GetIndex() > m.meta.Index {
			img.Entries = append(img.Entries, e)
		}
	}
	return img
}

// memoryLog is a logDevice without a disk. The raftLog holds all entries, so there is nothing to do unless
// they are kept for a later store.
type memoryLog struct{ kept *Memory }

func (l memoryLog) Append(h *wal.HardState, entries []*pb.Entry) error {
	l.change(func(m *Memory) {
		if len(entries) > 0 {
			m.entries = append(m.entries[:m.at(entries[0].GetIndex())], entries...)
		}
		if h != nil {
			m.hard = *h
		}
	})
	return nil
}

func (l memoryLog) Cut(index uint64) error {
	l.change(func(m *Memory) { m.entries = slices.Clone(m.entries[m.at(index):]) })
	return nil
}

func (l memoryLog) Reset(uint64, uint64) error {
	l.change(func(m *Memory) { m.entries = nil })
	return nil
}

func (l memoryLog) Close() error {
	l.change(func(m *Memory) { m.locked = false })
	return nil
}

func (memoryLog) Read(lo, hi, _ uint64) ([]*pb.Entry, error) {
	return nil, fmt.Errorf("entries %d to %d are not in memory", lo, hi-1)
}

func (l memoryLog) change(do func(*Memory)) {
	if l.kept != nil {
		l.kept.mutex.Lock()
		defer l.kept.mutex.Unlock()
		do(l.kept)
	}
}

// at is where the entry of an index is in the list, or would be. The mutex is held.
func (m *Memory) at(index uint64) int {
	if len(m.entries) == 0 || index <= m.entries[0].GetIndex() {
		return 0
	}
	return int(min(index-m.entries[0].GetIndex(), uint64(len(m.entries))))
}

// memoryRows takes checkpoints, and forgets them unless they are kept for a later store.
type memoryRows struct {
	kept    *Memory
	changed []Row
	dropped []string
	mark    *checkpointMark // of the finished checkpoint
}

// Each implements rowDevice.
func (r *memoryRows) Each(fn func(key, value []byte) error) error {
	if r.kept == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(r.kept.rows)) {
		if err := fn([]byte(key), r.kept.rows[key]); err != nil {
			return err
		}
	}
	return nil
}

// Put implements rowDevice.
func (r *memoryRows) Put(rows []Row) {
	if r.kept != nil {
		r.changed = append(r.changed, rows...)
	}
}

// Drop implements rowDevice.
func (r *memoryRows) Drop(prefix []byte) {
	if r.kept != nil {
		r.dropped = append(r.dropped, string(prefix))
	}
}

// Finish implements rowDevice.
func (r *memoryRows) Finish(index, term uint64, conf membership.Conf) {
	r.mark = &checkpointMark{index: index, term: term, conf: conf}
}

// Busy implements rowDevice.
func (r *memoryRows) Busy() bool { return r.mark != nil }

// Step implements rowDevice.
func (r *memoryRows) Step() (durable bool, err error) {
	if r.kept != nil {
		r.keep()
	}
	r.changed, r.dropped, r.mark = nil, nil, nil
	return true, nil
}

// keep makes the finished checkpoint the one that is kept.
func (r *memoryRows) keep() {
	m := r.kept
	m.mutex.Lock()
	defer m.mutex.Unlock()
	dropped := checkpoint.NewPrefixes(r.dropped)
	maps.DeleteFunc(m.rows, func(key string, _ []byte) bool { return dropped.Covers([]byte(key)) })
	for _, row := range r.changed {
		switch key := string(row.Key); {
		case dropped.Covers(row.Key):
		case row.Delete:
			delete(m.rows, key)
		default:
			if m.rows == nil {
				m.rows = make(map[string][]byte)
			}
			m.rows[key] = row.Value
		}
	}
	m.meta.Index, m.meta.Term, m.meta.Conf = r.mark.index, r.mark.term, r.mark.conf
}

// Tidy implements rowDevice.
func (*memoryRows) Tidy(bool) (more bool, err error) { return false, nil }

// NewFile implements rowDevice.
func (*memoryRows) NewFile() (*checkpoint.FileWriter, error) { return nil, errors.ErrUnsupported }

// Discard implements rowDevice.
func (*memoryRows) Discard(*checkpoint.FileWriter) {}

// Close implements rowDevice.
func (*memoryRows) Close() error { return nil }

// Pin implements rowDevice.
func (*memoryRows) Pin() (*datadir.Pinned, error) { return nil, nil }

// Replace implements rowDevice.
func (*memoryRows) Replace(*checkpoint.FileWriter, datadir.Meta) error { return nil }
