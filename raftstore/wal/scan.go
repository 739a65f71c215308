package wal

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coordd/coordd/raftstore/files"
)

// Options describe a log.
type Options struct {
	Cluster, Member uint64
	// SegmentBytes is the size of a file, which it takes from the start. A larger batch gets a larger file.
	SegmentBytes int64
	// Checkpoint is the last entry of the durable checkpoint, and CheckpointTerm its term: the log may begin behind
	// it, not later.
	Checkpoint, CheckpointTerm uint64
	// New allows that there is no log yet: then one begins behind the checkpoint. It must not be set any more once
	// Open has returned one.
	New bool
	// Files is the file system, nil for the operating system's.
	Files files.FS
	// Progress is called when another file of so many has been read, unless it is nil.
	Progress func(done, files int)
}

func damage(s *segment, at int64, format string, args ...any) error {
	return files.Damage(s.name, "byte %d: %s", at, fmt.Sprintf(format, args...))
}

// scan reads a log without changing anything.
type scan struct {
	Options
	dir     string
	found   []*segment // all files by sequence; an invalid header is zero but for the sequence
	chain   []*segment // those that count, the oldest first; the last one is the head
	garbage []*segment
	highest uint64 // sequence
	work    int64  // bytes that were read

	state       // in front of the batch in doubt
	doubt       batch
	change      change
	doubtIn     *segment // nil if there is no batch
	beforeDoubt link
}

// Suffix is that of the files' names.
const Suffix = ".log"

// FileName returns the name of a file. Creating a log makes the first two; each later start makes further ones.
func FileName(sequence uint64) string { return fmt.Sprintf("%020d%s", sequence, Suffix) }

func newScan(dir string, o Options) *scan {
	if o.Files == nil {
		o.Files = files.Disk{}
	}
	return &scan{Options: o, dir: dir}
}

func (s *scan) run() error {
	names, err := s.Files.List(s.dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := s.find(name); err != nil {
			return err
		}
	}
	if err := s.link(); err != nil || len(s.chain) == 0 {
		return err
	}
	for i, f := range s.chain {
		if err := s.replay(f, i); err != nil {
			return err
		}
		if s.Progress != nil {
			s.Progress(i+1, len(s.chain))
		}
	}
	return s.checkEnd()
}

// read returns the content of a file.
func (s *scan) read(name string) (b []byte, err error) {
	b, err = files.Read(s.Files, name)
	s.work += int64(len(b))
	return b, err
}

// beginning returns the first bytes of a file.
func (s *scan) beginning(file files.File, size int64) ([]byte, error) {
	b := make([]byte, size)
	n, err := file.ReadAt(b, 0)
	s.work += int64(n)
	if n == len(b) {
		err = nil
	}
	return b, err
}

// find reads the header of a file, and whether an intact batch follows, which makes it the head so far. A file whose
// header is broken was never begun: nothing follows then. The rest of a file is read once, when it is known to belong
// to the log.
func (s *scan) find(name string) error {
	if !strings.HasSuffix(name, Suffix) {
		return nil
	}
	f := newSegment(filepath.Join(s.dir, name), header{})
	if n, err := fmt.Sscanf(name, "%d"+Suffix, &f.Sequence); n != 1 || err != nil || FileName(f.Sequence) != name {
		return damage(f, 0, "this is not the name of a file of the log")
	}
	file, err := s.Files.Open(f.name)
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return err
	}
	b, err := s.beginning(file, min(size, headerBytes+batchHeaderBytes))
	if err != nil {
		return err
	}
	h, ok := decodeHeader(b)
	switch {
	case !ok:
		if b, err = s.beginning(file, size); err == nil && !zeros(b, headerBytes, size) {
			err = damage(f, 0, "the header is broken, and data follows")
		}
	case h.Format != Format:
		err = &files.FormatError{File: f.name, Found: int(h.Format), Known: Format}
	case h.Cluster != s.Cluster || h.Member != s.Member || h.Sequence != f.Sequence:
		err = damage(f, 0, "the file is number %d of member %x of cluster %x", h.Sequence, h.Member, h.Cluster)
	default:
		f = newSegment(f.name, h)
		if first, ok := f.batchHeader(b, headerBytes); ok && first.end <= size {
			if b, err = s.beginning(file, first.end); err == nil {
				_, f.begun = f.batch(b, headerBytes)
			}
		}
	}
	if err != nil {
		return err
	}
	if f.begun {
		s.chain = []*segment{f}
	}
	f.size = size
	s.found, s.highest = append(s.found, f), f.Sequence
	return nil
}

func (s *scan) bySequence(sequence uint64) *segment {
	i, ok := slices.BinarySearchFunc(s.found, sequence, func(f *segment, n uint64) int {
		return cmp.Compare(f.Sequence, n)
	})
	if !ok {
		return nil
	}
	return s.found[i]
}

// link follows the headers from the head to the oldest file, and checks that no other file may belong to the log.
func (s *scan) link() error {
	if len(s.chain) == 0 {
		return s.noLog()
	}
	for s.chain[0].Reset == 0 {
		f := s.chain[0]
		before := s.bySequence(f.Before.Sequence)
		if before == nil {
			break
		}
		if before.Salt != f.Before.Salt || before.Sequence >= f.Sequence {
			return damage(before, 0, "the file is not the one that %s follows", f.name)
		}
		s.chain = slices.Insert(s.chain, 0, before)
	}
	first, head := s.chain[0], s.chain[len(s.chain)-1]
	for _, f := range s.found {
		switch {
		case slices.Contains(s.chain, f):
			continue
		case f.Sequence > head.Sequence: // never begun, or not acknowledged
			if err := s.unbegun(f); err != nil {
				return err
			}
		case f.Sequence < first.Sequence && first.Reset == 0:
			return damage(first, 0, "the file before it is missing, older ones are there")
		case f.Sequence > first.Sequence:
			if f.begun { // a bridge has left it aside
				return damage(f, headerBytes, "no file follows it, and there are younger ones")
			}
		}
		s.garbage = append(s.garbage, f)
	}
	return nil
}

func (s *scan) noLog() error {
	for _, f := range s.found {
		if err := s.unbegun(f); err != nil {
			return err
		}
	}
	s.garbage = s.found
	if !s.New {
		return files.Damage(s.dir, "the log is missing")
	}
	return nil
}

// unbegun checks that a file without an intact batch, younger than the head, has no acknowledged one.
func (s *scan) unbegun(f *segment) error {
	if f.Magic == [8]byte{} {
		return nil
	}
	if before := s.bySequence(f.Before.Sequence); f.Before.Sequence != 0 && before == nil {
		return damage(f, 0, "the file before it is missing")
	}
	b, err := s.read(f.name)
	if err != nil {
		return err
	}
	return s.judge(f, b)
}

// replay verifies a file of the chain up to the place where it ends, and takes its batches into the state.
func (s *scan) replay(f *segment, i int) error {
	b, err := s.read(f.name)
	if err != nil {
		return err
	}
	if i == 0 {
		s.state, s.beforeDoubt = stateBefore(f.header), f.here()
	}
	s.settle()
	if known := f.LastTerm != 0 && s.lastTerm() != 0; f.Last >= indexMax || f.Last != s.last || f.Hard != s.hard ||
		known && f.LastTerm != s.lastTerm() {
		return damage(f, 0, "the header says entry %d of term %d and %+v, the files before it end with %d, %d and %+v",
			f.Last, f.LastTerm, f.Hard, s.last, s.lastTerm(), s.hard)
	}
	end := int64(len(b))
	if i+1 < len(s.chain) {
		end = s.chain[i+1].Before.End
	}
	for f.end < end {
		found, ok := f.batch(b, f.end)
		if !ok {
			break
		}
		s.settle()
		if s.change, err = s.state.change(found.payload, found.count); err != nil {
			return damage(f, f.end, "%v", err)
		}
		s.doubt, s.doubtIn, s.beforeDoubt = found, f, f.here()
		f.end, f.sum = found.end, found.sum
	}
	if i+1 < len(s.chain) {
		if f.here() != s.chain[i+1].Before {
			return damage(f, f.end, "a batch is broken, and the file goes on to byte %d", end)
		}
		return nil
	}
	if f.size < f.Size {
		return damage(f, f.size, "the file was cut, it had %d bytes", f.Size)
	}
	return s.judge(f, b)
}

// judge decides about what follows the last batch of a file.
func (s *scan) judge(f *segment, b []byte) error {
	end, err := f.judge(b, f.end)
	if err != nil {
		return damage(f, f.end, "%v", err)
	}
	f.torn = end - f.end
	return nil
}

// settle takes the batch in doubt into the state.
func (s *scan) settle() {
	if s.doubtIn != nil {
		s.apply(s.change, s.doubtIn, s.doubt)
		s.doubtIn = nil
	}
}

// checkEnd checks that the log reaches back to the checkpoint, and looks for the file that the last record of the head
// names.
func (s *scan) checkEnd() error {
	first := s.first
	if s.change.first != 0 {
		first = min(first, s.change.first)
	}
	if first > s.Checkpoint+1 {
		return damage(s.chain[0], 0, "the log begins with entry %d, the checkpoint is as of entry %d", first,
			s.Checkpoint)
	}
	if s.change.next == nil {
		return nil
	}
	next := s.bySequence(s.change.next.Sequence)
	if next == nil || next.Salt != s.change.next.Salt || next.Before != s.beforeDoubt || next.size < next.Size {
		return damage(s.doubtIn, s.doubt.at, "the file that follows, number %d, is missing or was cut",
			s.change.next.Sequence)
	}
	return nil
}
