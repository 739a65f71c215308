package raftstore

import (
	"errors"
	"sort"
	"sync"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// logDevice is where entries become durable. Disk and memory implement it.
type logDevice interface {
	// append makes entries durable; they are consecutive, and an index that is already there is replaced together
	// with everything behind it.
	append(entries []*pb.Entry) error
	// setHardState makes term and vote durable.
	setHardState(h hardState) error
	// read returns entries [lo, hi), at least one, stopping after maxBytes.
	read(lo, hi, maxBytes uint64) ([]*pb.Entry, error)
	// cut removes entries below index as far as that frees space.
	cut(index uint64) error
	// reset removes all entries; the next one is index+1. Nothing else is written meanwhile.
	reset(index uint64) error
	close() error
}

// termRun says that entries from index on (up to the next run) have this term.
type termRun struct{ index, term uint64 }

// confRun says that this membership holds from index on.
type confRun struct {
	index uint64
	conf  confRecord
}

// tail is the log as raft sees it: everything that is durable here. Recent entries are in memory; older ones are read
// from the device. It is changed within the turn only; the lock is for the goroutine that begins a checkpoint.
type tail struct {
	device   logDevice
	snapshot func() (*pb.Snapshot, error) // pins a checkpoint; nil if there is nobody to send it to
	maxBytes int                          // of handed entries kept in memory; negative: all

	mu      sync.Mutex
	hard    hardState
	first   uint64 // first index raft may ask for
	last    uint64
	handed  uint64 // entries up to here were handed to the handler
	runs    []termRun
	confs   []confRun
	entries []*pb.Entry // the youngest entries, up to last
	bytes   int
	damage  error // first error of the device, which raft turns into a panic
}

var _ raft.Storage = (*tail)(nil)

// newTail builds the log from what recovery found. entries are those after the checkpoint; runs cover first-1 to the
// last entry.
func newTail(device logDevice, maxBytes int, c checkpointMeta, h hardState, first uint64, runs []termRun, entries []*pb.Entry) *tail {
	t := &tail{
		device: device, maxBytes: maxBytes, hard: h,
		first: first, last: c.Index, handed: c.Index,
		runs: runs, confs: []confRun{{index: c.Index, conf: c.Conf}},
	}
	t.hard.commit = max(h.commit, c.Index)
	t.hard.term = max(h.term, c.Term)
	for _, e := range entries {
		t.entries = append(t.entries, e)
		t.bytes += entryBytes(e)
		t.last = e.GetIndex()
	}
	return t
}

func entryBytes(e *pb.Entry) int { return len(e.GetData()) + entryOverheadEstimate }

// InitialState implements raft.Storage.
func (t *tail) InitialState() (*pb.HardState, *pb.ConfState, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	conf := t.confs[len(t.confs)-1].conf.confState()
	return &pb.HardState{Term: new(t.hard.term), Vote: new(t.hard.vote), Commit: new(t.hard.commit)}, conf, nil
}

// Entries implements raft.Storage.
func (t *tail) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if lo < t.first {
		return nil, raft.ErrCompacted
	}
	if hi > t.last+1 || lo >= hi {
		return nil, raft.ErrUnavailable
	}
	inMemory := t.last + 1 - uint64(len(t.entries))
	if lo < inMemory {
		return t.readDevice(lo, min(hi, inMemory), maxSize)
	}
	from, to := lo-inMemory, lo-inMemory
	var size uint64
	for ; to < hi-inMemory; to++ {
		size += uint64(entryBytes(t.entries[to]))
		if to > from && size > maxSize {
			break
		}
	}
	return t.entries[from:to:to], nil
}

func (t *tail) readDevice(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	entries, err := t.device.read(lo, hi, maxSize)
	if err != nil && t.damage == nil {
		t.damage = err
	}
	return entries, err
}

// Term implements raft.Storage.
func (t *tail) Term(index uint64) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if index+1 < t.first {
		return 0, raft.ErrCompacted
	}
	if index > t.last {
		return 0, raft.ErrUnavailable
	}
	return t.termOf(index), nil
}

// termOf finds the term of an index that the runs cover. The caller holds the lock.
func (t *tail) termOf(index uint64) uint64 {
	at := sort.Search(len(t.runs), func(i int) bool { return t.runs[i].index > index })
	if at == 0 {
		return 0
	}
	return t.runs[at-1].term
}

// FirstIndex implements raft.Storage.
func (t *tail) FirstIndex() (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first, nil
}

// LastIndex implements raft.Storage.
func (t *tail) LastIndex() (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last, nil
}

// Snapshot implements raft.Storage. Only a cluster of several members asks for one.
func (t *tail) Snapshot() (*pb.Snapshot, error) {
	if t.snapshot == nil {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	s, err := t.snapshot()
	if err != nil && !errors.Is(err, raft.ErrSnapshotTemporarilyUnavailable) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.damage == nil {
			t.damage = err
		}
	}
	return s, err
}

// restore replaces everything by a checkpoint that came from elsewhere.
func (t *tail) restore(c checkpointMeta) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.first, t.last, t.handed = c.Index+1, c.Index, c.Index
	t.runs = []termRun{{c.Index, c.Term}}
	t.confs = []confRun{{c.Index, c.Conf}}
	t.entries, t.bytes = nil, 0
}

// append adds entries that have become durable.
func (t *tail) append(entries []*pb.Entry) {
	if len(entries) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if first := entries[0].GetIndex(); first <= t.last {
		t.truncate(first)
	}
	for _, e := range entries {
		if n := len(t.runs); n == 0 || t.runs[n-1].term != e.GetTerm() {
			t.runs = append(t.runs, termRun{e.GetIndex(), e.GetTerm()})
		}
		t.bytes += entryBytes(e)
		t.last = e.GetIndex()
	}
	t.entries = append(t.entries, entries...)
	t.trim()
}

// truncate removes entries from index on, which a new leader has replaced. Slices handed out earlier stay as they are.
func (t *tail) truncate(index uint64) {
	keep := len(t.entries) - int(min(t.last+1-index, uint64(len(t.entries))))
	for _, e := range t.entries[keep:] {
		t.bytes -= entryBytes(e)
	}
	t.entries = t.entries[:keep:keep]
	t.last = index - 1
	for n := len(t.runs); n > 0 && t.runs[n-1].index >= index; n-- {
		t.runs = t.runs[:n-1]
	}
}

// trim lets go of entries that were handed over, beyond the bound.
func (t *tail) trim() {
	if t.maxBytes < 0 {
		return
	}
	drop := 0
	for t.bytes > t.maxBytes && drop < len(t.entries) && t.entries[drop].GetIndex() <= t.handed {
		t.bytes -= entryBytes(t.entries[drop])
		drop++
	}
	t.entries = t.entries[drop:]
}

// setHanded notes that entries up to index went to the handler.
func (t *tail) setHanded(index uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handed = index
	t.trim()
}

// setConf notes a membership that holds from index on.
func (t *tail) setConf(index uint64, conf confRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.confs = append(t.confs, confRun{index, conf})
}

// lastConf returns the membership as of the last entry handed over.
func (t *tail) lastConf() confRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.confs[len(t.confs)-1].conf
}

// origin returns the membership as of entry 0 as long as a new member can be given the log from entry 1 on. Nothing in
// the log says who the first members were. Once there is a checkpoint, raft never asks for entry 1 (see compact and
// image.visible), and a new member gets the checkpoint.
func (t *tail) origin() (confRecord, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.confs[0].conf, t.first == 1 && t.confs[0].index == 0
}

// fresh tells whether there never was an entry.
func (t *tail) fresh() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last <= 1 && len(t.entries) == 0
}

// at returns term and membership as of a handed index.
func (t *tail) at(index uint64) (term uint64, conf confRecord, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if index > t.handed || index+1 < t.first || index < t.confs[0].index {
		return 0, confRecord{}, false
	}
	for _, c := range t.confs {
		if c.index <= index {
			conf = c.conf
		}
	}
	return t.termOf(index), conf, true
}

// compact forgets what lies below first. checkpoint is the index behind which memberships are not asked for any more.
func (t *tail) compact(first, checkpoint uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.confs) > 1 && t.confs[1].index <= checkpoint {
		t.confs = t.confs[1:]
	}
	if first <= t.first {
		return
	}
	t.first = first
	for len(t.runs) > 1 && t.runs[1].index < first {
		t.runs = t.runs[1:]
	}
	drop := 0
	for drop < len(t.entries) && t.entries[drop].GetIndex() < first {
		t.bytes -= entryBytes(t.entries[drop])
		drop++
	}
	t.entries = append([]*pb.Entry(nil), t.entries[drop:]...)
}

// deviceError returns the error that made raft unusable, if there is one.
func (t *tail) deviceError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.damage
}
