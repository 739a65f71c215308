package raftstore

import (
	"errors"
	"os"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/wal"
)

// diskLog is the log on package wal. append and reset are called by one goroutine, cut by another.
type diskLog struct {
	dir  string
	held *os.File // the directory, locked: see probeLog
	log  *wal.Log
	flat []wal.Entry // of append, used again
}

// openDiskLog opens a log as it was found.
func openDiskLog(dir string, found *wal.Image) (*diskLog, error) {
	held, err := os.Open(dir)
	if err == nil {
		if err = flock(held, false); err != nil {
			err = errors.Join(err, held.Close())
		}
	}
	if err != nil {
		return nil, wrapStep("lock", dir, err)
	}
	log, err := found.Open()
	if err != nil {
		return nil, errors.Join(logError(err), held.Close())
	}
	return &diskLog{dir: dir, held: held, log: log}, nil
}

func (l *diskLog) append(h *hardState, entries []*pb.Entry) error {
	l.flat = l.flat[:0]
	for _, e := range entries {
		l.flat = append(l.flat, wal.Entry{Index: e.GetIndex(), Term: e.GetTerm(), Type: byte(e.GetType()),
			Data: e.GetData()})
	}
	var hard *wal.HardState
	if h != nil {
		hard = &wal.HardState{Term: h.term, Vote: h.vote, Commit: h.commit}
	}
	err := l.log.Append(hard, l.flat)
	if clear(l.flat); cap(l.flat) > spareEntriesMax {
		l.flat = nil
	}
	return logError(err)
}

func (l *diskLog) read(lo, hi, maxBytes uint64) ([]*pb.Entry, error) {
	entries, err := l.log.Read(lo, hi, maxBytes)
	if err != nil {
		return nil, corruptAt(err, lo)
	}
	return entriesOf(entries), nil
}

func (l *diskLog) cut(index uint64) error { return logError(l.log.Cut(index)) }

func (l *diskLog) reset(index, term uint64) error { return logError(l.log.Reset(index, term)) }

func (l *diskLog) close() error { return errors.Join(l.log.Close(), l.held.Close()) }

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
