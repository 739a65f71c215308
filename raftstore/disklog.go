package raftstore

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	hraft "github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	pb "go.etcd.io/raft/v3/raftpb"
)

// diskLog is the log on raft-wal. append and setHardState are called by one goroutine, cut by another; the
// library keeps them apart.
type diskLog struct {
	dir  string
	meta *walMeta
	fs   *segmentFS
	wal  *wal.WAL
	log  *walLogger
	last uint64 // last index on disk; the appending goroutine's

	flat []hraft.Log  // of append, used again
	logs []*hraft.Log // the same
}

// openDiskLog opens a log which examine has found sound and repair has tidied, and checks that the library
// sees the same entries as the scan did. fail is told about failures the library does not return.
func openDiskLog(d *disk, dir string, img *image, cfg Config, fail func(error)) (*diskLog, error) {
	meta, err := openWALMeta(d, dir)
	if err != nil {
		return nil, err
	}
	l := &diskLog{dir: dir, meta: meta, last: img.last}
	l.log = &walLogger{Logger: hclog.NewNullLogger(), out: cfg.Logger, dir: dir, fail: fail}
	l.fs = &segmentFS{disk: d, made: meta.setTailMade}
	l.wal, err = wal.Open(dir,
		wal.WithCodec(newEntryCodec(img.identity.Member)),
		wal.WithMetaStore(meta),
		wal.WithSegmentFiler(segmentFiler{segment.NewFiler(dir, l.fs)}),
		wal.WithLogger(l.log),
		wal.WithSegmentSize(cfg.SegmentBytes))
	if err != nil {
		return nil, errors.Join(wrapStep("open log", dir, err), meta.Close())
	}
	if err := l.compare(img); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *diskLog) compare(img *image) error {
	first, err := l.wal.FirstIndex()
	if err != nil {
		return err
	}
	last, err := l.wal.LastIndex()
	if err != nil {
		return err
	}
	if img.last < img.first { // no entries
		if last != 0 {
			return corrupt(l.dir, last, "the log library finds entries %d to %d in an empty log", first, last)
		}
		return nil
	}
	if first != img.first || last != img.last {
		return corrupt(l.dir, img.last, "the log library finds entries %d to %d, the scan found %d to %d",
			first, last, img.first, img.last)
	}
	return nil
}

func (l *diskLog) append(entries []*pb.Entry) error {
	first := entries[0].GetIndex()
	if first <= l.last {
		if err := l.wal.DeleteRange(first, l.last); err != nil {
			return l.wrap("cut the end of the log", err)
		}
	}
	if err := l.wal.StoreLogs(l.translate(entries)); err != nil {
		return l.wrap("append to the log", err)
	}
	clear(l.flat) // the library has copied the data
	l.last = entries[len(entries)-1].GetIndex()
	return nil
}

// translate has the entries as the library wants them, until it is called again.
func (l *diskLog) translate(entries []*pb.Entry) []*hraft.Log {
	if cap(l.flat) < len(entries) || cap(l.flat) > spareEntriesMax {
		l.flat, l.logs = make([]hraft.Log, len(entries)), make([]*hraft.Log, len(entries))
	}
	l.flat, l.logs = l.flat[:len(entries)], l.logs[:len(entries)]
	for i, e := range entries {
		l.flat[i] = hraft.Log{Index: e.GetIndex(), Term: e.GetTerm(), Type: hraft.LogType(e.GetType()),
			Data: e.GetData()}
		l.logs[i] = &l.flat[i]
	}
	return l.logs
}

func (l *diskLog) wrap(step string, err error) error { return wrapStep(step, l.dir, err) }

func (l *diskLog) setHardState(h hardState) error {
	return l.meta.SetStable([]byte(hardStateKey), h.encode())
}

func (l *diskLog) read(lo, hi, maxBytes uint64) ([]*pb.Entry, error) {
	var out []*pb.Entry
	var size uint64
	for index := lo; index < hi; index++ {
		var log hraft.Log
		if err := l.wal.GetLog(index, &log); err != nil {
			return nil, corrupt(l.dir, index, "read entry: %v", err)
		}
		if log.Index != index {
			return nil, corrupt(l.dir, index, "found entry %d in its place", log.Index)
		}
		e := &pb.Entry{Index: new(log.Index), Term: new(log.Term), Type: pb.EntryType(log.Type).Enum(),
			Data: log.Data}
		size += uint64(entryBytes(e))
		if len(out) > 0 && size > maxBytes {
			break
		}
		out = append(out, e)
	}
	return out, nil
}

func (l *diskLog) cut(index uint64) error {
	first, err := l.wal.FirstIndex()
	if err != nil {
		return l.wrap("cut the log", err)
	}
	keep := l.fs.cutPoint(index)
	if first == 0 || keep <= first {
		return nil
	}
	return l.wrap("cut the log", l.wal.DeleteRange(first, keep-1))
}

// reset empties the log. The library makes the next segment begin at whatever entry is appended next.
func (l *diskLog) reset(index uint64) error {
	first, err := l.wal.FirstIndex()
	if err != nil {
		return l.wrap("empty the log", err)
	}
	last, err := l.wal.LastIndex()
	if err != nil {
		return l.wrap("empty the log", err)
	}
	l.last = index
	if last == 0 {
		return nil
	}
	return l.wrap("empty the log", l.wal.DeleteRange(first, last))
}

// close waits for a change of segments that is under way, then closes all files.
func (l *diskLog) close() error {
	last, err := l.wal.LastIndex()
	if err == nil {
		err = l.wal.DeleteRange(last+1, last+1) // deletes nothing, but waits
	}
	return wrapStep("close", filepath.Clean(l.dir), errors.Join(err, l.wal.Close()))
}

// segmentFiler marks new segments with our codec. raft-wal v0.4.2 marks every new segment as its own format
// whatever codec it was given, and then refuses to open the log again; walMeta.CommitState corrects the list
// in the same way.
type segmentFiler struct{ *segment.Filer }

// Create implements types.SegmentFiler.
func (f segmentFiler) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	info.Codec = entryCodecID
	return f.Filer.Create(info)
}

// walLogger keeps raft-wal quiet and passes on the one failure that the library reports nowhere else: after a
// failed change of segments the next append would fail, for a reason that says nothing.
type walLogger struct {
	hclog.Logger
	out  *slog.Logger
	dir  string
	fail func(error)
}

// Error implements hclog.Logger.
func (l *walLogger) Error(msg string, args ...any) {
	if msg == "rotate error" {
		l.fail(wrapStep("begin the next segment", l.dir, fmt.Errorf("%v", args[1:])))
		return
	}
	l.out.Warn("log: "+msg, args...)
}
