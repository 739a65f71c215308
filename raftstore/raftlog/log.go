// Package raftlog keeps the log as raft sees it: the entries that are durable, the youngest of them in memory.
package raftlog

import (
	"errors"
	"sync"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/wal"
)

// overhead is an estimate of what an entry takes in memory beside its data, in bytes.
const overhead = 32

// Device is where entries become durable. Disk and memory implement it. Writes come from one goroutine at
// a time, reads may come meanwhile.
type Device interface {
	// Append makes entries durable and with them h, unless it is nil: both or neither. Entries are consecutive. If
	// the first index is already there, it and all later entries are replaced: a new leader has written others in
	// their place.
	Append(h *wal.HardState, entries []*pb.Entry) error
	// Read returns entries [lo, hi), at least one, stopping after maxBytes.
	Read(lo, hi, maxBytes uint64) ([]*pb.Entry, error)
	// Cut removes entries below index as far as that frees space.
	Cut(index uint64) error
	// Reset removes all entries; the next one is index+1, and index has this term. Nothing else is written meanwhile.
	Reset(index, term uint64) error
	Close() error
}

// confRun is a membership and the index from which it holds, up to the next run.
type confRun struct {
	index uint64
	conf  membership.Conf
}

// Log is the log as raft sees it: every entry that is durable on this server, and nothing that is still
// being written. (What raft has appended and the disk has not is in raft's own memory, its unstable log.) It
// answers raft's questions about old entries, and it is why most of them cost no read: raft asks for entries
// twice, to send them to others and to hand them over once they are committed, and both times they are young.
//
//	 first-1  first                inMemory            handed          last
//	    |       |                      |                  |              |
//	----+-------+----------------------+------------------+--------------+
//	    |       |   on the device only |          in memory as well      |
//	    |       |                      |  may be dropped  | must be kept |
//	    |       +-- the first entry that raft may ask for
//	    +-- its term is known: raft compares it before it appends behind it
//
// inMemory is last+1-len(entries). These always hold:
//
//   - first-1 <= handed <= last: what was handed over is durable here, and the term in front of the first
//     entry is known.
//   - runs cover first-1 to last without a gap, ascending in both fields.
//   - confs are ascending, and confs[0] holds at the checkpoint or before it. A membership is noted when its
//     entry is handed over, not when it is appended: until then a new leader may take it back.
//   - entries that are not handed over are in entries, whatever they weigh: raft would read them back at
//     once. Of the others trim keeps the youngest, up to maxBytes.
//
// A slice of entries that was returned is never written to afterwards, because raft and the goroutines that
// send may still read it: truncate and trim cut the slice, with its capacity, and never clear what is behind.
//
// Only the holder of the turn changes it. The lock is for the goroutine that begins a checkpoint, and asks
// at.
type Log struct {
	device Device
	// TakeSnapshot pins a checkpoint to be sent; nil if there is nobody to send it to.
	TakeSnapshot func() (*pb.Snapshot, error)
	maxBytes     int // of entries in memory that were handed over; negative: all stay

	mu      sync.Mutex
	hard    wal.HardState // as stored when it was opened; later ones go to the device past it
	known   uint64        // the commit index that raft begins with
	found   uint64        // the last entry of the log that was opened
	first   uint64
	last    uint64
	handed  uint64 // the last entry that the handler was given
	runs    []wal.Run
	confs   []confRun
	entries []*pb.Entry // the youngest, up to last
	bytes   int         // of entries
	damage  error       // the first error of the device: raft panics over it, and the loop finds it here
}

var _ raft.Storage = (*Log)(nil)

// New builds the log from what examine has found: entries are those behind the checkpoint c, runs
// cover first-1 to the last of them. They all have still to be handed over.
func New(device Device, maxBytes int, c datadir.Meta, h wal.HardState, first uint64, runs []wal.Run,
	entries []*pb.Entry) *Log {
	r := &Log{
		device: device, maxBytes: maxBytes, hard: h,
		first: first, last: c.Index, handed: c.Index,
		runs: runs, confs: []confRun{{index: c.Index, conf: c.Conf}},
	}
	r.hard.Commit = max(h.Commit, c.Index)
	r.hard.Term = max(h.Term, c.Term)
	for _, e := range entries {
		r.entries = append(r.entries, e)
		r.bytes += EntryBytes(e)
		r.last = e.GetIndex()
	}
	r.found = r.last
	r.known = datadir.KnownCommitted(r.hard.Commit, entries)
	return r
}

// EntryBytes returns the weight of an entry in memory.
func EntryBytes(e *pb.Entry) int { return len(e.GetData()) + overhead }

// InitialState implements raft.Storage.
func (r *Log) InitialState() (*pb.HardState, *pb.ConfState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	conf := r.confs[len(r.confs)-1].conf.ConfState()
	return &pb.HardState{Term: new(r.hard.Term), Vote: new(r.hard.Vote), Commit: new(r.known)}, conf,
		nil
}

// Entries implements raft.Storage.
func (r *Log) Entries(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lo < r.first {
		return nil, raft.ErrCompacted
	}
	if hi > r.last+1 || lo >= hi {
		return nil, raft.ErrUnavailable
	}
	inMemory := r.last + 1 - uint64(len(r.entries))
	if lo < inMemory {
		return r.readDevice(lo, min(hi, inMemory), maxSize)
	}
	from, to := lo-inMemory, lo-inMemory
	var size uint64
	for ; to < hi-inMemory; to++ {
		size += uint64(EntryBytes(r.entries[to]))
		if to > from && size > maxSize {
			break
		}
	}
	return r.entries[from:to:to], nil
}

func (r *Log) readDevice(lo, hi, maxSize uint64) ([]*pb.Entry, error) {
	entries, err := r.device.Read(lo, hi, maxSize)
	if err != nil && r.damage == nil {
		r.damage = err
	}
	return entries, err
}

// Term implements raft.Storage.
func (r *Log) Term(index uint64) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if index+1 < r.first {
		return 0, raft.ErrCompacted
	}
	if index > r.last {
		return 0, raft.ErrUnavailable
	}
	return r.termOf(index), nil
}

// termOf returns the term of an index, 0 if the runs do not cover it. The caller holds the lock.
func (r *Log) termOf(index uint64) uint64 { return datadir.TermAt(r.runs, index) }

// FirstIndex implements raft.Storage.
func (r *Log) FirstIndex() (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first, nil
}

// LastIndex implements raft.Storage.
func (r *Log) LastIndex() (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, nil
}

// Snapshot implements raft.Storage. Only a cluster of several members asks for one.
func (r *Log) Snapshot() (*pb.Snapshot, error) {
	if r.TakeSnapshot == nil {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	s, err := r.TakeSnapshot()
	if err != nil && !errors.Is(err, raft.ErrSnapshotTemporarilyUnavailable) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.damage == nil {
			r.damage = err
		}
	}
	return s, err
}

// Restore replaces everything by a checkpoint that another member has sent. There is no entry then, and the
// next is the one behind the checkpoint.
func (r *Log) Restore(c datadir.Meta) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first, r.last, r.handed = c.Index+1, c.Index, c.Index
	r.runs = []wal.Run{{Index: c.Index, Term: c.Term}}
	r.confs = []confRun{{c.Index, c.Conf}}
	r.entries, r.bytes = nil, 0
}

// Append adds entries that have become durable.
func (r *Log) Append(entries []*pb.Entry) {
	if len(entries) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if first := entries[0].GetIndex(); first <= r.last {
		r.truncate(first)
	}
	for _, e := range entries {
		if n := len(r.runs); n == 0 || r.runs[n-1].Term != e.GetTerm() {
			r.runs = append(r.runs, wal.Run{Index: e.GetIndex(), Term: e.GetTerm()})
		}
		r.bytes += EntryBytes(e)
		r.last = e.GetIndex()
	}
	r.entries = append(r.entries, entries...)
	r.trim()
}

// truncate removes the entries from index on, in whose place a new leader has written others. None of them
// was committed, so none was handed over. The caller holds the lock.
func (r *Log) truncate(index uint64) {
	keep := len(r.entries) - int(min(r.last+1-index, uint64(len(r.entries))))
	for _, e := range r.entries[keep:] {
		r.bytes -= EntryBytes(e)
	}
	r.entries = r.entries[:keep:keep]
	r.last = index - 1
	for n := len(r.runs); n > 0 && r.runs[n-1].Index >= index; n-- {
		r.runs = r.runs[:n-1]
	}
}

// trim drops from memory the oldest entries that were handed over, until the rest weighs maxBytes or less.
// The caller holds the lock.
func (r *Log) trim() {
	if r.maxBytes < 0 {
		return
	}
	drop := 0
	for r.bytes > r.maxBytes && drop < len(r.entries) && r.entries[drop].GetIndex() <= r.handed {
		r.bytes -= EntryBytes(r.entries[drop])
		drop++
	}
	r.entries = r.entries[drop:]
}

// SetHanded notes that the handler has been given the entries up to index.
func (r *Log) SetHanded(index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handed = index
	r.trim()
}

// SetConf notes a membership that holds from index on.
func (r *Log) SetConf(index uint64, conf membership.Conf) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confs = append(r.confs, confRun{index, conf})
}

// LastConf returns the membership as of the last entry handed over.
func (r *Log) LastConf() membership.Conf {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.confs[len(r.confs)-1].conf
}

// Origin returns the membership as of entry 0 as long as a new member can be given the log from entry 1 on.
// The log does not name the first members. Once there is a checkpoint, raft never asks for entry 1 (see compact and
// image.visible), and a new member gets the checkpoint.
func (r *Log) Origin() (membership.Conf, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.confs[0].conf, r.first == 1 && r.confs[0].index == 0
}

// Fresh reports whether there never was an entry.
func (r *Log) Fresh() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last <= 1 && len(r.entries) == 0
}

// At returns term and membership as of an index. ok is false if the handler has not been given the entry, or
// if nothing is known of it any more.
func (r *Log) At(index uint64) (term uint64, conf membership.Conf, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if index > r.handed || index+1 < r.first || index < r.confs[0].index {
		return 0, membership.Conf{}, false
	}
	for _, c := range r.confs {
		if c.index <= index {
			conf = c.conf
		}
	}
	return r.termOf(index), conf, true
}

// Compact forgets the entries before first. checkpoint is the index of the durable checkpoint: it has its
// membership, so nobody asks for an older one.
func (r *Log) Compact(first, checkpoint uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.confs) > 1 && r.confs[1].index <= checkpoint {
		r.confs = r.confs[1:]
	}
	if first <= r.first {
		return
	}
	r.first = first
	for len(r.runs) > 1 && r.runs[1].Index < first {
		r.runs = r.runs[1:]
	}
	drop := 0
	for drop < len(r.entries) && r.entries[drop].GetIndex() < first {
		r.bytes -= EntryBytes(r.entries[drop])
		drop++
	}
	r.entries = append([]*pb.Entry(nil), r.entries[drop:]...)
}

// Hard returns what was stored beside the entries when the log was opened.
func (r *Log) Hard() wal.HardState { return r.hard }

// Found returns the index of the last entry of the log that was opened.
func (r *Log) Found() uint64 { return r.found }

// InMemory returns the youngest entries. Only the holder of the turn calls it.
func (r *Log) InMemory() []*pb.Entry { return r.entries }

// Last returns the index of the last durable entry.
func (r *Log) Last() uint64 {
	last, _ := r.LastIndex()
	return last
}

// DeviceError returns the error that made raft unusable, if there is one.
func (r *Log) DeviceError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.damage
}
