package datadir

import (
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/wal"
)

// Log is the log on package wal, with entries as raft has them. Append and Reset are called by one goroutine, Cut by
// another.
type Log struct {
	log  *wal.Log
	flat []wal.Entry // of append, used again
}

// spareEntries bounds the entries of one write for which the space is kept.
const spareEntries = 4096

// openLog opens a log as it was found.
func openLog(found *wal.Image) (*Log, error) {
	log, err := found.Open()
	if err != nil {
		return nil, corruptAt(err, 0)
	}
	return &Log{log: log}, nil
}

// Append makes entries durable and with them hard, unless it is nil: both or neither.
func (l *Log) Append(hard *wal.HardState, entries []*pb.Entry) error {
	l.flat = l.flat[:0]
	for _, e := range entries {
		l.flat = append(l.flat, wal.Entry{Index: e.GetIndex(), Term: e.GetTerm(), Type: byte(e.GetType()),
			Data: e.GetData()})
	}
	err := l.log.Append(hard, l.flat)
	if clear(l.flat); cap(l.flat) > spareEntries {
		l.flat = nil
	}
	return corruptAt(err, 0)
}

// Read returns entries [lo, hi), at least one, stopping after maxBytes.
func (l *Log) Read(lo, hi, maxBytes uint64) ([]*pb.Entry, error) {
	entries, err := l.log.Read(lo, hi, maxBytes)
	if err != nil {
		return nil, corruptAt(err, lo)
	}
	return entriesOf(entries), nil
}

// Cut removes entries below index as far as that frees space.
func (l *Log) Cut(index uint64) error { return corruptAt(l.log.Cut(index), 0) }

// Reset removes all entries; the next one is index+1, and index has this term.
func (l *Log) Reset(index, term uint64) error { return corruptAt(l.log.Reset(index, term), 0) }

// Close closes the files.
func (l *Log) Close() error { return l.log.Close() }

// entriesOf returns entries as raft has them.
func entriesOf(entries []wal.Entry) []*pb.Entry {
	out := make([]*pb.Entry, len(entries))
	for i, e := range entries {
		out[i] = &pb.Entry{Index: &e.Index, Term: &e.Term, Type: pb.EntryType(e.Type).Enum()}
		if len(e.Data) > 0 {
			out[i].Data = e.Data
		}
	}
	return out
}
