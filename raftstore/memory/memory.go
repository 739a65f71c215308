// Package memory is the place of a data directory for a store that keeps everything in memory.
package memory

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

// Kept outlives a store that keeps everything in memory: the next one that is opened with it goes on from
// there, as from a data directory. Its zero value is empty. One store at a time may have it.
type Kept struct {
	mutex   sync.Mutex
	locked  bool
	id      datadir.Identity // zero: nothing was kept yet
	meta    datadir.Meta
	rows    map[string][]byte
	hard    wal.HardState
	entries []*pb.Entry // consecutive
}

// Open opens the place of a data directory; nil is one that keeps nothing. load gets the rows.
func (m *Kept) Open(load func(key, value []byte) error) (*datadir.Image, Log, *Rows, error) {
	log, rows := m.Log(), &Rows{kept: m}
	if m == nil {
		m = &Kept{}
	} else if err := m.lock(); err != nil {
		return nil, Log{}, nil, err
	}
	if m.id == (datadir.Identity{}) {
		m.id = datadir.NewIdentity()
		m.meta = datadir.FirstMeta(m.id)
	}
	if load != nil {
		if err := rows.Each(load); err != nil {
			return nil, Log{}, nil, err
		}
	}
	return m.Image(), log, rows, nil
}

// New returns the place of a member that has nothing but its identity and its first checkpoint.
func New(id datadir.Identity, meta datadir.Meta) *Kept { return &Kept{id: id, meta: meta} }

// Log returns the entries as a device. Closing it ends the lock that Open takes.
func (m *Kept) Log() Log { return Log{m} }

// lock replaces the lock of a directory on disk.
func (m *Kept) lock() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.locked {
		return datadir.ErrLocked
	}
	m.locked = true
	return nil
}

// Image returns the content as a data directory has it.
func (m *Kept) Image() *datadir.Image {
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

// Log is a raftlog.Device without a disk. The log holds all entries, so there is nothing to do unless
// they are kept for a later store.
type Log struct{ kept *Kept }

func (l Log) Append(h *wal.HardState, entries []*pb.Entry) error {
	l.change(func(m *Kept) {
		if len(entries) > 0 {
			m.entries = append(m.entries[:m.at(entries[0].GetIndex())], entries...)
		}
		if h != nil {
			m.hard = *h
		}
	})
	return nil
}

func (l Log) Cut(index uint64) error {
	l.change(func(m *Kept) { m.entries = slices.Clone(m.entries[m.at(index):]) })
	return nil
}

func (l Log) Reset(uint64, uint64) error {
	l.change(func(m *Kept) { m.entries = nil })
	return nil
}

func (l Log) Close() error {
	l.change(func(m *Kept) { m.locked = false })
	return nil
}

func (Log) Read(lo, hi, _ uint64) ([]*pb.Entry, error) {
	return nil, fmt.Errorf("entries %d to %d are not in memory", lo, hi-1)
}

func (l Log) change(do func(*Kept)) {
	if l.kept != nil {
		l.kept.mutex.Lock()
		defer l.kept.mutex.Unlock()
		do(l.kept)
	}
}

// at is where the entry of an index is in the list, or would be. The mutex is held.
func (m *Kept) at(index uint64) int {
	if len(m.entries) == 0 || index <= m.entries[0].GetIndex() {
		return 0
	}
	return int(min(index-m.entries[0].GetIndex(), uint64(len(m.entries))))
}

// mark is the entry that a checkpoint is as of, with the term and the membership there.
type mark struct {
	index, term uint64
	conf        membership.Conf
}

// Rows takes checkpoints, and forgets them unless they are kept for a later store.
type Rows struct {
	kept    *Kept
	changed []checkpoint.Row
	dropped []string
	mark    *mark // of the finished checkpoint
}

// Each is that of checkpoint.Store.
func (r *Rows) Each(fn func(key, value []byte) error) error {
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

// Put is that of checkpoint.Store.
func (r *Rows) Put(rows []checkpoint.Row) {
	if r.kept != nil {
		r.changed = append(r.changed, rows...)
	}
}

// Drop is that of checkpoint.Store.
func (r *Rows) Drop(prefix []byte) {
	if r.kept != nil {
		r.dropped = append(r.dropped, string(prefix))
	}
}

// Finish is that of checkpoint.Store.
func (r *Rows) Finish(index, term uint64, conf membership.Conf) {
	r.mark = &mark{index: index, term: term, conf: conf}
}

// Busy is that of checkpoint.Store.
func (r *Rows) Busy() bool { return r.mark != nil }

// Step is that of checkpoint.Store.
func (r *Rows) Step() (durable bool, err error) {
	if r.kept != nil {
		r.keep()
	}
	r.changed, r.dropped, r.mark = nil, nil, nil
	return true, nil
}

// keep makes the finished checkpoint the one that is kept.
func (r *Rows) keep() {
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

// Tidy is that of checkpoint.Store.
func (*Rows) Tidy(bool) (more bool, err error) { return false, nil }

// NewFile is that of checkpoint.Store.
func (*Rows) NewFile() (*checkpoint.FileWriter, error) { return nil, errors.ErrUnsupported }

// Discard is that of checkpoint.Store.
func (*Rows) Discard(*checkpoint.FileWriter) {}

// Close is that of checkpoint.Store.
func (*Rows) Close() error { return nil }

// Pin is that of checkpoint.Store.
func (*Rows) Pin() (*datadir.Pinned, error) { return nil, nil }

// Replace is that of checkpoint.Store.
func (*Rows) Replace(*checkpoint.FileWriter, datadir.Meta) error { return nil }
