package raftstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft-wal/types"
)

const segmentSuffix = ".wal"

// segmentFS is the file system raft-wal writes its segments to. It differs from the library's own in four
// points: a sync is fdatasync; zeros are written ahead of the entries; a new file and its name are durable
// before the first append, and that fact is recorded, so that a lost or shortened last segment can be told
// from one that was never finished; and errors can be injected.
type segmentFS struct {
	disk *disk
	// made records durably that the segment exists in full length.
	made func(id uint64) error

	mu    sync.Mutex
	bases []uint64 // first index of each segment file, ascending; decides where the log can be cut
}

// ListDir implements types.VFS.
func (s *segmentFS) ListDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bases = nil
	for _, name := range names {
		if base, _, ok := parseSegmentName(name); ok {
			s.bases = append(s.bases, base)
		}
	}
	slices.Sort(s.bases)
	return names, nil
}

// Create implements types.VFS.
func (s *segmentFS) Create(dir, name string, size uint64) (types.WritableFile, error) {
	path := filepath.Join(dir, name)
	base, id, ok := parseSegmentName(name)
	if !ok {
		return nil, fmt.Errorf("create %s: not a segment name", path)
	}
	f, err := s.createSized(path, int64(size))
	if err != nil {
		return nil, s.disk.note(wrapStep("create segment", path, err))
	}
	if err := s.register(dir, base, id); err != nil {
		return nil, s.disk.note(errors.Join(err, f.Close()))
	}
	return &segmentFile{f: f, disk: s.disk, size: int64(size)}, nil
}

// register makes the name of a new segment durable and records that it is.
func (s *segmentFS) register(dir string, base, id uint64) error {
	if err := s.disk.syncDir(dir); err != nil {
		return err
	}
	if err := s.made(id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at, _ := slices.BinarySearch(s.bases, base)
	s.bases = slices.Insert(s.bases, at, base)
	return nil
}

func (s *segmentFS) createSized(path string, size int64) (*os.File, error) {
	if err := s.disk.check("create segment", path); err != nil {
		return nil, err
	}
	f, err := s.disk.files.open(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := allocate(f, size); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := s.disk.check("sync new segment", path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Delete implements types.VFS.
func (s *segmentFS) Delete(dir, name string) error {
	if base, _, ok := parseSegmentName(name); ok {
		s.mu.Lock()
		if at, found := slices.BinarySearch(s.bases, base); found {
			s.bases = slices.Delete(s.bases, at, at+1)
		}
		s.mu.Unlock()
	}
	if err := s.disk.remove(filepath.Join(dir, name)); err != nil {
		return err
	}
	return s.disk.syncDir(dir)
}

// OpenReader implements types.VFS.
func (s *segmentFS) OpenReader(dir, name string) (types.ReadableFile, error) {
	return s.disk.files.open(filepath.Join(dir, name), os.O_RDONLY, 0)
}

// OpenWriter implements types.VFS.
func (s *segmentFS) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := s.disk.files.open(filepath.Join(dir, name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &segmentFile{f: f, disk: s.disk, size: info.Size()}, nil
}

// cutPoint returns the first index of the youngest segment that begins at or below index; 0 if there is none.
// Cutting inside a segment would cost a transaction and free nothing.
func (s *segmentFS) cutPoint(index uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, found := slices.BinarySearch(s.bases, index)
	if found {
		return s.bases[at]
	}
	if at == 0 {
		return 0
	}
	return s.bases[at-1]
}

// segmentFile is one open segment.
type segmentFile struct {
	f      *os.File
	disk   *disk
	size   int64 // of the file when it was made, or opened
	zeroed int64 // up to where zeros were written, or entries over them
}

// WriteAt implements io.WriterAt. The library only appends.
func (s *segmentFile) WriteAt(p []byte, off int64) (int, error) {
	if err := s.disk.check("write log", s.f.Name()); err != nil {
		return 0, s.disk.note(err)
	}
	n, err := s.f.WriteAt(p, off)
	if err == nil {
		err = s.zeroAhead(off + int64(n))
	}
	return n, s.disk.note(wrapStep("write log", s.f.Name(), err))
}

// zeroAheadBytes is how much of a segment is zeroed at a time.
const zeroAheadBytes = 1 << 20

var zeros [zeroAheadBytes]byte

// zeroAhead writes zeros behind the entries where these have come to the end of the last zeros. Blocks that
// were only allocated have to be put to use by the file system's journal when the first entry in them is
// synced; that takes more than half as long again as the write. So there is one such sync for many. A reader
// sees no difference: behind the last entry a segment is empty, and what a torn write had left there was
// wiped.
func (s *segmentFile) zeroAhead(end int64) error {
	until := min(end+zeroAheadBytes, s.size)
	if end <= s.zeroed || until <= end {
		return nil
	}
	if _, err := s.f.WriteAt(zeros[:until-end], end); err != nil {
		return err
	}
	s.zeroed = until
	return nil
}

// Sync makes everything written durable.
func (s *segmentFile) Sync() error {
	if err := s.disk.check("sync log", s.f.Name()); err != nil {
		return s.disk.note(err)
	}
	begun := time.Now()
	err := dataSync(s.f)
	s.disk.syncs.Observe(time.Since(begun))
	return s.disk.note(wrapStep("sync log", s.f.Name(), err))
}

// ReadAt implements io.ReaderAt.
func (s *segmentFile) ReadAt(p []byte, off int64) (int, error) { return s.f.ReadAt(p, off) }

// Close implements io.Closer.
func (s *segmentFile) Close() error { return s.f.Close() }

// segmentName is raft-wal's name for a segment.
func segmentName(base, id uint64) string {
	return fmt.Sprintf("%020d-%016x%s", base, id, segmentSuffix)
}

func parseSegmentName(name string) (base, id uint64, ok bool) {
	if !strings.HasSuffix(name, segmentSuffix) {
		return 0, 0, false
	}
	if n, err := fmt.Sscanf(name, "%d-%x"+segmentSuffix, &base, &id); n != 2 || err != nil {
		return 0, 0, false
	}
	return base, id, segmentName(base, id) == name
}
