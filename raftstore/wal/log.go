package wal

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"github.com/coordd/coordd/raftstore/files"
)

const (
	zeroAheadBytes = 1 << 20
	keptBytes      = 1 << 20 // space that is kept from one batch to the next
)

var zeroBlock [zeroAheadBytes]byte

// Log is an open log. Append and Reset belong to one goroutine, Cut to the same or one other; anything else may be
// called at any time. After a failed write, sync or removal all of them fail: what is durable is not known any more.
type Log struct {
	options Options
	dir     string

	// of the goroutine that appends
	file     files.File // of the last segment
	zeroed   int64
	buffer   []byte
	sequence uint64

	mu       sync.RWMutex
	state    state      // changed by the goroutine that appends, and by Cut
	segments []*segment // the oldest first
	begun    *segment   // the youngest that has a batch; nil while the log is emptied, when nothing may be cut
	failed   error
}

// Image is a log as it was found. Nothing was changed.
type Image struct {
	First, Last uint64 // of the entries; Last is First-1 in an empty log
	Before      uint64 // the term of the entry in front of First, 0 if it is not known
	Runs        []Run
	Hard        HardState
	Files       []FileReport
	scan        *scan
	log         Log
}

// FileReport is a file of the log.
type FileReport struct {
	Name        string
	Bytes, Torn int64  // Torn: bytes of a write that was cut short; the next start drops them
	First, Last uint64 // of its entries that count; 0 in a file without
}

// Inspect verifies the log in dir, which exists, and changes nothing. Errors: those of package files, and those of
// the file system. With an error the image is filled as far as it got, and cannot be opened.
func Inspect(dir string, o Options) (*Image, error) {
	s := newScan(dir, o)
	err := s.run()
	found := s.state.clone()
	if s.doubtIn != nil {
		found.apply(s.change, s.doubtIn, s.doubt)
	}
	img := &Image{First: found.first, Last: found.last, Before: found.base, Runs: found.runs, Hard: found.hard, scan: s}
	img.log.options, img.log.dir, img.log.state = s.Options, dir, found
	for _, f := range s.found {
		report := FileReport{Name: filepath.Base(f.name), Bytes: f.size, Torn: f.torn}
		for _, ref := range found.refs {
			if ref.segment == f {
				report.First, report.Last = cmp.Or(report.First, ref.first), ref.last
			}
		}
		img.Files = append(img.Files, report)
	}
	return img, err
}

// Read is Log.Read.
func (i *Image) Read(lo, hi, maxBytes uint64) ([]Entry, error) { return i.log.Read(lo, hi, maxBytes) }

// Open verifies the log in dir, which exists, and makes everything in it durable that counts. Errors: those of Inspect.
func Open(dir string, o Options) (*Log, error) {
	img, err := Inspect(dir, o)
	if err != nil {
		return nil, err
	}
	return img.Open()
}

// Open makes everything durable that counts. It may be called once, if nothing has changed since.
func (i *Image) Open() (*Log, error) {
	s := i.scan
	l := &Log{options: s.Options, dir: s.dir, state: s.state, segments: s.chain, sequence: s.highest}
	if err := l.recover(s); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// recover begins a bridge that repeats the batch in doubt, and removes what is void by then.
func (l *Log) recover(s *scan) error {
	h, payload, count := l.header(s.beforeDoubt), s.doubt.payload, s.doubt.count
	if len(s.chain) == 0 {
		h = header{Reset: 1, Last: s.Checkpoint, LastTerm: s.CheckpointTerm,
			Hard: HardState{Term: s.CheckpointTerm, Commit: s.Checkpoint}}
		l.state = stateBefore(h)
	}
	if s.doubtIn == nil || s.change.next != nil {
		payload, count = h.Hard.record().appendTo(nil), 1
	}
	return l.bridge(h, payload, count, func() error {
		if n := len(s.chain); n > 0 && s.chain[n-1].size > s.beforeDoubt.End {
			if err := s.Files.Truncate(s.chain[n-1].name, s.beforeDoubt.End); err != nil {
				return err
			}
		}
		slices.Reverse(s.garbage)
		return l.remove(s.garbage)
	})
}

// Append makes entries durable and with them, if it is given, a hard state: both or neither, with one write and one
// sync. Entries are consecutive. From the first of them on they replace those that are there. What contradicts the log
// is refused, and changes nothing.
func (l *Log) Append(hard *HardState, entries []Entry) error {
	if err := l.err(); err != nil {
		return err
	}
	b, count := l.room(), len(entries)
	for _, e := range entries {
		b = record{kindEntry, e.Type, e.Index, e.Term, e.Data}.appendTo(b)
	}
	if hard != nil {
		b, count = hard.record().appendTo(b), count+1
	}
	if count == 0 {
		return nil
	}
	c, err := l.change(b[batchHeaderBytes:], count)
	if err != nil {
		return fmt.Errorf("append to the log: %w", err)
	}
	if l.current().end+int64(len(b))+batchHeaderBytes+nextBatchBytes > l.current().Size {
		if err := l.changeFiles(int64(len(b))); err != nil {
			return l.fail("begin the next file", err)
		}
	}
	at, err := l.write(b, count)
	if err != nil {
		return l.fail("write", err)
	}
	l.take(c, at)
	return nil
}

// Reset removes all entries; the next one is index+1, and index has this term. It is durable when it returns; a crash
// in the middle leaves the log as it was or empty.
func (l *Log) Reset(index, term uint64) error {
	if err := l.err(); err != nil {
		return err
	}
	h := l.header(l.current().here())
	if index < h.Hard.Commit {
		return fmt.Errorf("empty the log up to entry %d: it has %+v", index, h.Hard)
	}
	if term > h.Hard.Term {
		h.Hard = HardState{Term: term}
	}
	h.Reset, h.Last, h.LastTerm, h.Hard.Commit = 1, index, term, index
	l.mu.Lock()
	old := l.segments
	l.state, l.segments, l.begun = stateBefore(h), nil, nil
	l.mu.Unlock()
	return l.fail("empty", l.bridge(h, h.Hard.record().appendTo(nil), 1, func() error { return l.remove(old) }))
}

// Cut removes the oldest files whose entries are all below index.
func (l *Log) Cut(index uint64) error {
	l.mu.Lock()
	gone := make(map[*segment]bool)
	var old []*segment
	for _, f := range l.segments {
		if f == l.begun || l.begun == nil || l.failed != nil || slices.ContainsFunc(l.state.refs, func(r ref) bool {
			return r.segment == f && r.last >= index
		}) {
			break
		}
		gone[f], old = true, append(old, f)
	}
	l.segments = l.segments[len(old):]
	l.state.cut(gone)
	err := l.failed
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return l.fail("cut", l.remove(old))
}

// Read returns entries lo to hi-1, at least one, up to maxBytes of data.
func (l *Log) Read(lo, hi, maxBytes uint64) ([]Entry, error) {
	l.mu.RLock()
	refs, err := l.state.find(lo, hi)
	l.mu.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("read entries %d to %d: %w", lo, hi-1, err)
	}
	var out []Entry
	for _, r := range refs {
		more, err := l.readBatch(r, lo+uint64(len(out)), min(hi, r.last+1), &maxBytes, len(out) > 0)
		out = append(out, more...)
		if err != nil {
			l.mu.RLock()
			defer l.mu.RUnlock()
			if lo < l.state.first {
				err = ErrCut
			}
			return nil, err
		}
		if out[len(out)-1].Index != r.last {
			break
		}
	}
	return out, nil
}

// readBatch reads entries lo to hi-1 of a batch as far as maxBytes, which it lowers, allows; the first of all in any
// case.
func (l *Log) readBatch(r ref, lo, hi uint64, maxBytes *uint64, some bool) (out []Entry, err error) {
	f, err := l.options.Files.Open(r.segment.name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(&padReader{f, &r.segment.pad, r.at}, 64<<10)
	at := r.at
	for index := r.first; index < hi; index++ {
		head, err := in.Peek(recordBytes)
		if err != nil {
			return nil, damage(r.segment, at, "read entry %d: %v", index, err)
		}
		n := recordLength(head)
		if n > r.end-at {
			return nil, damage(r.segment, at, "entry %d does not fit into its batch", index)
		}
		at += n
		if index < lo {
			if _, err := in.Discard(int(n)); err != nil {
				return nil, damage(r.segment, at-n, "read entry %d: %v", index, err)
			}
			continue
		}
		if size := uint64(n - recordBytes); size <= *maxBytes {
			*maxBytes -= size
		} else if *maxBytes = 0; some || len(out) > 0 {
			break
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, damage(r.segment, at-n, "read entry %d: %v", index, err)
		}
		e, err := decodeRecord(b)
		if err != nil || e.kind != kindEntry || e.index != index {
			return nil, damage(r.segment, at-n, "entry %d is not what was written: %v", index, err)
		}
		out = append(out, Entry{e.index, e.term, e.typ, e.data})
	}
	return out, nil
}

// padReader reads a file from a place on, and removes the pad.
type padReader struct {
	file files.File
	pad  *pad
	at   int64
}

// Read implements io.Reader.
func (p *padReader) Read(b []byte) (int, error) {
	n, err := p.file.ReadAt(b, p.at)
	p.pad.apply(b[:n], p.at)
	p.at += int64(n)
	return n, err
}

// Close closes the log. Nothing has to be written for that.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

func (h HardState) record() record {
	return record{kindHard, 0, h.Commit, h.Term, binary.LittleEndian.AppendUint64(nil, h.Vote)}
}

// current returns the last file. Cut never removes it.
func (l *Log) current() *segment {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.segments[len(l.segments)-1]
}

// change decodes a batch and checks that it may follow. Cut may run meanwhile, and takes nothing away that this needs.
func (l *Log) change(payload []byte, count int) (change, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.state.change(payload, count)
}

// room returns the space for a batch, with room for its header.
func (l *Log) room() []byte {
	if cap(l.buffer) == 0 || cap(l.buffer) > keptBytes {
		l.buffer = make([]byte, batchHeaderBytes, sectorBytes)
	}
	clear(l.buffer[:batchHeaderBytes])
	return l.buffer[:batchHeaderBytes]
}

func (l *Log) err() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.failed
}

// fail makes the log unusable if err is one.
func (l *Log) fail(step string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s the log in %s: %w", step, l.dir, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
	return err
}

// header returns the header of a file that follows a place, which has the present state in front of it.
func (l *Log) header(before link) header {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return header{Before: before, Last: l.state.last, LastTerm: l.state.lastTerm(), Hard: l.state.hard}
}

// take takes a batch that is durable into the state.
func (l *Log) take(c change, at batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = l.segments[len(l.segments)-1]
	l.state.apply(c, l.begun, at)
}

// write makes a batch durable in the last file: room for a header, then records.
func (l *Log) write(b []byte, count int) (batch, error) {
	f := l.current()
	l.buffer = f.seal(b, count, f.end)
	at := batch{at: f.end, end: f.end + int64(len(l.buffer)), sum: binary.LittleEndian.Uint32(l.buffer[4:])}
	if err := files.WriteAll(l.file, l.buffer, at.at); err != nil {
		return at, err
	}
	// The first sync of a block that was only allocated waits for the file system's journal. So there is one for many.
	if until := min(at.end+zeroAheadBytes, f.Size); at.end > l.zeroed && until > at.end {
		if err := files.WriteAll(l.file, zeroBlock[:until-at.end], at.end); err != nil {
			return at, err
		}
		l.zeroed = until
	}
	if err := l.file.Sync(); err != nil {
		return at, err
	}
	f.end, f.sum = at.end, at.sum
	return at, nil
}

// begin makes the next file, with room for so many bytes of batches besides the one that names the file after it.
func (l *Log) begin(h header, room int64) (*segment, files.File, error) {
	l.sequence++
	h.Cluster, h.Member, h.Sequence = l.options.Cluster, l.options.Member, l.sequence
	h.Size = headerBytes + room + nextBatchBytes
	_, _ = rand.Read(h.Salt[:]) // it never fails
	f := newSegment(filepath.Join(l.dir, FileName(h.Sequence)), h)
	file, err := l.options.Files.Create(f.name)
	if err != nil {
		return nil, nil, err
	}
	err = files.WriteAll(file, f.encode(), 0)
	if err == nil {
		err = file.Allocate(f.Size)
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = l.options.Files.SyncDir(l.dir)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return f, file, nil
}

// changeFiles begins the next file, which has room for a batch of so many bytes, and names it in the present one.
func (l *Log) changeFiles(bytes int64) error {
	room := max(l.options.SegmentBytes-headerBytes-nextBatchBytes, bytes+batchHeaderBytes)
	next, file, err := l.begin(l.header(l.current().here()), room)
	if err != nil {
		return err
	}
	name := record{kindNext, 0, next.Sequence, 0, next.Salt[:]}
	if _, err := l.write(name.appendTo(make([]byte, batchHeaderBytes, nextBatchBytes)), 1); err != nil {
		return errors.Join(err, file.Close())
	}
	err = l.file.Close()
	l.open(next, file)
	return err
}

// open makes a new file the last one.
func (l *Log) open(f *segment, file files.File) {
	l.file, l.zeroed = file, headerBytes
	l.mu.Lock()
	defer l.mu.Unlock()
	l.segments = append(l.segments, f)
}

// bridge begins a file with one batch, and the file behind it. In between, when the batch is durable, tidy removes what
// is void by then, so that the disk has room for the latter.
func (l *Log) bridge(h header, payload []byte, count int, tidy func() error) error {
	c, err := l.change(payload, count)
	if err != nil {
		return err
	}
	f, file, err := l.begin(h, int64(len(payload))+2*batchHeaderBytes)
	if err != nil {
		return err
	}
	if l.file != nil {
		err = l.file.Close()
	}
	l.open(f, file)
	if err != nil {
		return err
	}
	at, err := l.write(append(l.room(), payload...), count)
	if err != nil {
		return err
	}
	l.take(c, at)
	if err := tidy(); err != nil {
		return err
	}
	return l.changeFiles(0)
}

// remove removes files in this order. Each removal is durable before the next one.
func (l *Log) remove(old []*segment) error {
	for _, f := range old {
		if err := files.Remove(l.options.Files, f.name); err != nil {
			return err
		}
		if err := l.options.Files.SyncDir(l.dir); err != nil {
			return err
		}
	}
	return nil
}
