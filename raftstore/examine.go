package raftstore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft-wal/types"
	pb "go.etcd.io/raft/v3/raftpb"
)

// This file is the recovery rule. At a start nobody can be asked what the directory held before, so the rule
// has to tell, from the files alone, what a crash may leave behind from what only damage can:
//
//   - A crash may cut the last write short. It was never acknowledged, because acknowledgements come behind
//     fdatasync, so it is wiped and nothing is lost. It can only be the last batch of the last segment, with
//     nothing whole behind it.
//   - A crash may come between two steps of making a segment, or of removing one. Each step is known (see the
//     package's doc), so each state between two of them is known too, and the next start finishes the step.
//   - A crash may come between the rename of a checkpoint from elsewhere and the emptying of the log.
//
// Everything else that is broken, missing or contradicts something is damage. The server then does not start:
// to go on with what is left might lose what was acknowledged, and a cluster has other copies. examine
// changes nothing, so that `coordd check` can use it on any directory, and a damaged one stays as it is for
// whoever looks into it. TestEveryBitFlipIsFoundOrHarmless flips bits all over a directory.

// image is what a data directory holds, as examine has read it.
type image struct {
	identity identity
	state    stateImage
	meta     walMetaImage

	first, last uint64 // entries in the log; last < first if there are none
	runs        []termRun
	entries     []*pb.Entry // those after the checkpoint
	unfit       bool        // the checkpoint came from elsewhere and this log does not belong to it
	learnt      learntText  // of admission.json
	confs       []confRecord

	repair repairs
	files  []FileReport
}

// repairs is what a crash has left to be finished or wiped before raft-wal may open the log. None of it loses
// anything that was ever acknowledged.
type repairs struct {
	// tornFile is a segment in which a write was cut short: bytes tornFrom to tornTo are wiped. Empty if
	// there is none.
	tornFile         string
	tornFrom, tornTo int
	// sealedLast says that the last segment was closed, and the next one not begun. sealedMax is its last
	// entry, indexStart the place of its index.
	sealedLast bool
	sealedMax  uint64
	indexStart uint64
	// unfinishedFile is a last segment that does not have its full length yet, and so no entries. It is
	// removed, and the library makes it again. Empty if there is none.
	unfinishedFile string
}

// examiner reads a data directory without changing anything.
type examiner struct {
	dir    string
	reader rowReader
	codec  entryCodec
	img    image
}

// examine verifies everything in a data directory: identity, checkpoint, log. When there is an error the
// image is filled as far as examine has come. Errors: *CorruptionError, *FormatError, and those of reading
// files.
func examine(dir string) (*image, error) { return examineFor(dir, rowReader{}) }

// examineFor is examine, and passes the rows of the checkpoint to the reader. They are good only if there is
// no error.
func examineFor(dir string, reader rowReader) (*image, error) {
	x := &examiner{dir: dir, reader: reader}
	return &x.img, x.run()
}

func (x *examiner) run() error {
	id, err := readIdentity(x.dir)
	if errors.Is(err, os.ErrNotExist) {
		return corrupt(filepath.Join(x.dir, identityFile), 0, "the file is missing")
	}
	if err != nil {
		return err
	}
	x.img.identity, x.codec = id, newEntryCodec(id.Member)
	x.file(identityFile, 0, 0, 0)
	if x.img.state, err = loadState(x.dir, id, x.reader); err != nil {
		return err
	}
	x.file(stateFile, 0, 0, x.img.state.meta.Rows)
	wal := filepath.Join(x.dir, walDir)
	if x.img.meta, err = readWALMeta(wal); err != nil {
		return err
	}
	x.file(filepath.Join(walDir, walMetaFile), 0, 0, 0)
	if err := x.checkOrphans(wal); err != nil {
		return err
	}
	if err := x.readLog(wal); err != nil {
		return err
	}
	if err := x.checkLog(wal); err != nil {
		return err
	}
	return x.img.readConfs(x.dir)
}

func (x *examiner) file(name string, first, last, rows uint64) *FileReport {
	f := FileReport{Name: name, FirstIndex: first, LastIndex: last, Rows: rows}
	if info, err := os.Stat(filepath.Join(x.dir, name)); err == nil {
		f.Bytes = info.Size()
	}
	x.img.files = append(x.img.files, f)
	return &x.img.files[len(x.img.files)-1]
}

// checkOrphans looks at segment files that the list in wal-meta.db does not name. A segment that was taken
// off the list, to be removed, may survive a crash. One with a higher number than the list has given out
// cannot: then the list is an old copy.
func (x *examiner) checkOrphans(wal string) error {
	files, err := os.ReadDir(wal)
	if err != nil {
		return err
	}
	known := map[uint64]bool{}
	for _, s := range x.img.meta.state.Segments {
		known[s.ID] = true
	}
	for _, f := range files {
		if filepath.Ext(f.Name()) != segmentSuffix {
			continue
		}
		base, id, ok := parseSegmentName(f.Name())
		if !ok {
			return corrupt(filepath.Join(wal, f.Name()), 0, "this is not the name of a log segment")
		}
		if !known[id] && id >= x.img.meta.state.NextSegmentID {
			return corrupt(filepath.Join(wal, f.Name()), base, "the segment is younger than the list in %s",
				walMetaFile)
		}
	}
	return nil
}

// readLog reads all segments in order.
func (x *examiner) readLog(wal string) error {
	segments := x.img.meta.state.Segments
	x.img.first, x.img.last = 1, 0
	p := newProgress(x.reader.logger, x.reader.period, "reading the log", "files", uint64(len(segments)))
	for i, s := range segments {
		p.done = uint64(i)
		p.tell()
		path := filepath.Join(wal, segmentName(s.BaseIndex, s.ID))
		if s.Codec != entryCodecID {
			return &FormatError{File: path, Found: int(s.Codec - (entryCodecID - entryFormat)),
				Known: entryFormat}
		}
		if i == 0 {
			x.img.first, x.img.last = s.MinIndex, s.MinIndex-1
		} else if s.BaseIndex != x.img.last+1 {
			return corrupt(path, x.img.last+1,
				"the segment begins at entry %d, entries before it are missing", s.BaseIndex)
		}
		if s.MinIndex < s.BaseIndex {
			return corrupt(path, s.MinIndex, "the segment begins at entry %d", s.BaseIndex)
		}
		var err error
		if last := i == len(segments)-1; last && s.SealTime.IsZero() {
			err = x.readLast(path, s)
		} else {
			err = x.readSealed(path, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readSealed reads a finished segment. All of it was synced before the next one was begun, so every batch in
// it must be whole.
func (x *examiner) readSealed(path string, s types.SegmentInfo) error {
	if s.SealTime.IsZero() || s.MaxIndex+1 < s.MinIndex {
		return corrupt(path, s.BaseIndex, "a segment before the last one is not finished")
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return corrupt(path, s.MinIndex, "the segment is missing")
	}
	if err != nil {
		return err
	}
	if err := checkSegmentHeader(b, s); err != nil {
		return corrupt(path, s.BaseIndex, "%v", err)
	}
	w := walkSegment(b)
	if !w.sealed || w.indexStart != s.IndexStart || s.BaseIndex+uint64(len(w.entries)) < s.MaxIndex+1 {
		return corrupt(path, s.BaseIndex+uint64(len(w.entries)),
			"a batch of a finished segment is broken at byte %d", w.end)
	}
	return x.addSegment(path, b, s, w.entries[:s.MaxIndex+1-s.BaseIndex])
}

// readLast reads the segment that was being written when the server ended. Its last write may be torn, and
// the segment itself may be half made: as long as the mark tail-made does not name it, nothing has been
// appended to it.
func (x *examiner) readLast(path string, s types.SegmentInfo) error {
	made := x.img.meta.hasTail && x.img.meta.tailMade == s.ID
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if made {
			return corrupt(path, s.BaseIndex, "the segment is missing")
		}
		return nil
	}
	if err != nil {
		return err
	}
	if len(b) < int(s.SizeLimit) || !made {
		if made {
			return corrupt(path, s.BaseIndex, "the segment was cut to %d bytes", len(b))
		}
		if at := firstNonZero(b, 0); at < len(b) {
			return corrupt(path, s.BaseIndex, "a segment that was never begun has data at byte %d", at)
		}
		x.img.repair.unfinishedFile = path
		return nil
	}
	w := walkSegment(b)
	if w.end > 0 {
		if err := checkSegmentHeader(b, s); err != nil {
			return corrupt(path, s.BaseIndex, "%v", err)
		}
	}
	if err := x.judgeEnd(path, s, b, w); err != nil {
		return err
	}
	if s.BaseIndex+uint64(len(w.entries)) < s.MinIndex {
		return corrupt(path, s.MinIndex, "the entry is missing")
	}
	return x.addSegment(path, b, s, w.entries)
}

// judgeEnd decides what it is that follows the last whole batch of the last segment: nothing, a torn write,
// or damage. Segments are made full of zeros, so nothing is zeros up to the end. Anything else is the
// beginning of a write that was cut short, unless there is a whole batch behind it: batches are synced one
// after the other, so then the one before was whole once.
func (x *examiner) judgeEnd(path string, s types.SegmentInfo, b []byte, w segmentWalk) error {
	next := s.BaseIndex + uint64(len(w.entries))
	junk := firstNonZero(b, w.end)
	if w.sealed {
		x.img.repair.sealedLast = true
		x.img.repair.sealedMax, x.img.repair.indexStart = next-1, w.indexStart
		if junk < len(b) {
			return corrupt(path, next, "there is data at byte %d behind the end of a finished segment", junk)
		}
		return nil
	}
	if junk == len(b) {
		return nil
	}
	if at, found := findIntactBatch(b, w.end, x.codec, next); found {
		return corrupt(path, next, "the batch at byte %d is broken but a later one at byte %d is whole",
			w.end, at)
	}
	x.img.repair.tornFile, x.img.repair.tornFrom, x.img.repair.tornTo = path, w.end, lastNonZero(b, w.end)
	return nil
}

// addSegment checks the entries of one segment and appends them to the log.
func (x *examiner) addSegment(path string, b []byte, s types.SegmentInfo, frames []frame) error {
	for i, f := range frames {
		index := s.BaseIndex + uint64(i)
		if index < s.MinIndex {
			continue
		}
		got, term, err := x.codec.check(f.payload(b))
		if err != nil {
			return corrupt(path, index, "%v", err)
		}
		if got != index {
			return corrupt(path, index, "entry %d is in its place", got)
		}
		if err := x.noteTerm(path, index, term); err != nil {
			return err
		}
		if index > x.img.state.meta.Index {
			x.img.entries = append(x.img.entries, entryIn(f.payload(b), index, term))
		}
	}
	r := x.file(filepath.Join(walDir, filepath.Base(path)), s.MinIndex, x.img.last, 0)
	if x.img.repair.tornFile == path {
		r.TornBytes = int64(x.img.repair.tornTo - x.img.repair.tornFrom)
	}
	return nil
}

// noteTerm notes the term of the next entry. Terms never go down from one entry to the next.
func (x *examiner) noteTerm(path string, index, term uint64) error {
	n := len(x.img.runs)
	switch {
	case n > 0 && term < x.img.runs[n-1].term:
		return corrupt(path, index, "term %d after term %d", term, x.img.runs[n-1].term)
	case n == 0 || term != x.img.runs[n-1].term:
		x.img.runs = append(x.img.runs, termRun{index, term})
	}
	x.img.last = index
	return nil
}

// checkLog compares the log with the checkpoint and with the stored term. The log must begin at the entry
// behind the checkpoint or before it, must reach as far as anything that is known to have been committed, and
// must agree with the checkpoint about the term of the entry that they share.
func (x *examiner) checkLog(wal string) error {
	img, c := &x.img, x.img.state.meta
	if err := x.checkTerm(wal); err != nil {
		return err
	}
	if c.Restored == c.Index && c.Index > 0 && x.replaced() {
		img.unfit = img.last >= img.first
		img.entries = nil
		return nil
	}
	if img.first > c.Index+1 {
		return corrupt(wal, c.Index+1, "the log begins at entry %d, the checkpoint in %s is as of entry %d",
			img.first, stateFile, c.Index)
	}
	durable := max(c.Index, img.meta.hard.commit)
	if img.last < durable {
		where := wal
		if n := len(img.meta.state.Segments); n > 0 {
			s := img.meta.state.Segments[n-1]
			where = filepath.Join(wal, segmentName(s.BaseIndex, s.ID))
		}
		return corrupt(where, img.last+1, "the log ends at entry %d, entry %d is known to have been in it",
			img.last, durable)
	}
	if c.Index >= img.first && c.Index > 0 {
		if got := termAt(img.runs, c.Index); got != c.Term {
			return corrupt(wal, c.Index, "the entry has term %d, the checkpoint in %s says %d", got,
				stateFile, c.Term)
		}
	}
	return nil
}

// checkTerm compares the log with the stored term.
func (x *examiner) checkTerm(wal string) error {
	if n := len(x.img.runs); n > 0 && x.img.runs[n-1].term > x.img.meta.hard.term {
		return corrupt(filepath.Join(wal, walMetaFile), x.img.last, "the stored term is %d, the log is at %d",
			x.img.meta.hard.term, x.img.runs[n-1].term)
	}
	return nil
}

// replaced reports whether the checkpoint, which came from elsewhere and is still the last one, stands
// without a log. Either the log was emptied after the installation, or a crash came between, and the log
// belongs to the state before. It is not so if an entry behind the checkpoint is known to be committed: that
// entry must be in the log.
func (x *examiner) replaced() bool {
	img, c := &x.img, x.img.state.meta
	if img.meta.hard.commit > c.Index {
		return false
	}
	if img.last < img.first || img.last < c.Index {
		return true
	}
	if img.first > c.Index {
		return false
	}
	return termAt(img.runs, c.Index) != c.Term
}

// visible returns the first index that raft may ask for, and the terms from the one before it on. That one
// must be known, too, and if it is not in the checkpoint, the oldest entry is given up for it.
func (img *image) visible() (first uint64, runs []termRun) {
	c := img.state.meta
	if img.unfit || img.last < img.first && c.Restored == c.Index {
		return c.Index + 1, []termRun{{c.Index, c.Term}}
	}
	if img.first == c.Index+1 {
		return img.first, append([]termRun{{c.Index, c.Term}}, img.runs...)
	}
	return img.first + 1, img.runs
}

// newest returns the last entry of a store that is opened on this directory.
func (img *image) newest() (index, term uint64) {
	c := img.state.meta
	if img.unfit || img.last < img.first || img.last < c.Index {
		return c.Index, c.Term
	}
	return img.last, termAt(img.runs, img.last)
}

// apply wipes and finishes what the repairs say. The caller holds the lock of the directory.
func (r repairs) apply(d *disk, wal string) error {
	if r.unfinishedFile != "" {
		if err := d.remove(r.unfinishedFile); err != nil {
			return err
		}
		if err := d.syncDir(wal); err != nil {
			return err
		}
	}
	if r.tornFile != "" {
		if err := wipe(d, r.tornFile, r.tornFrom, r.tornTo); err != nil {
			return err
		}
	}
	if r.sealedLast {
		return r.beginNextSegment(d, wal)
	}
	return nil
}

// wipe zeroes a torn write. raft-wal would write over it; but a shorter write would leave frames of the torn
// one behind it, and after a second crash the library would take the last but one commit frame that it sees
// without checking it.
func wipe(d *disk, path string, from, to int) error {
	if err := d.check("wipe torn write", path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(bytes.Repeat([]byte{0}, to-from), int64(from))
	if err == nil {
		err = d.check("sync wiped segment", path)
	}
	if err == nil {
		err = f.Sync()
	}
	return wrapStep("wipe torn write", path, errors.Join(err, f.Close()))
}

// beginNextSegment puts the segment behind the closed one on the list, as raft-wal's background step would
// have done. Without it the library opens the closed segment for writing, and refuses every append.
func (r repairs) beginNextSegment(d *disk, wal string) error {
	meta, err := openWALMeta(d, wal)
	if err != nil {
		return err
	}
	state, err := meta.Load(wal)
	if err == nil {
		old := &state.Segments[len(state.Segments)-1]
		old.MaxIndex, old.IndexStart, old.SealTime = r.sealedMax, r.indexStart, old.CreateTime
		state.Segments = append(state.Segments, types.SegmentInfo{
			ID: state.NextSegmentID, BaseIndex: r.sealedMax + 1, MinIndex: r.sealedMax + 1,
			Codec: old.Codec, CreateTime: old.CreateTime, SizeLimit: old.SizeLimit,
		})
		state.NextSegmentID++
		err = meta.CommitState(state)
	}
	return errors.Join(err, meta.Close())
}
