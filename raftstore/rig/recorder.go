package rig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/coordd/coordd/raftstore/files"
)

// Recorder is a directory of the operating system whose changes a Memory records as well, for programs that read it
// past this package. Nothing is synced there: what is durable, the Memory knows.
type Recorder struct {
	files.Disk
	Memory *Memory
	Dir    string
}

// Record begins to record a directory, whose files are durable. It may be missing; its parent exists.
func Record(dir string) (*Recorder, error) {
	r := &Recorder{Memory: New(filepath.Dir(dir)), Dir: dir}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			d := &file{dir: true}
			r.Memory.names[path], r.Memory.durable[path] = d, d
			return nil
		}
		content, err := os.ReadFile(path)
		r.Memory.put(path, content)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return r, err
}

// Save writes the files of an image, which were recorded in a directory, to another one that does not exist.
func (m *Memory) Save(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path, f := range m.names {
		below, is := strings.CutPrefix(path, from)
		if !is {
			continue
		}
		place := to + below
		if f.dir {
			if err := os.MkdirAll(place, 0o700); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(place, f.content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// both does a recorded step on the disk. A step that a test has fail is not done there; in all others both agree.
func both(recorded error, onDisk func() error) error {
	if recorded != nil && !errors.Is(recorded, fs.ErrNotExist) && !errors.Is(recorded, fs.ErrExist) {
		return recorded
	}
	err := onDisk()
	if (recorded == nil) != (err == nil) {
		panic(fmt.Sprintf("in memory: %v, on the disk: %v", recorded, err))
	}
	return err
}

// Create implements files.FS.
func (r *Recorder) Create(path string) (files.File, error) {
	recorded, err := r.Memory.Create(path)
	if err != nil {
		return nil, err
	}
	f, err := r.Disk.Create(path)
	return &recordedFile{f, recorded}, err
}

// Truncate implements files.FS.
func (r *Recorder) Truncate(path string, size int64) error {
	return both(r.Memory.Truncate(path, size), func() error { return r.Disk.Truncate(path, size) })
}

// Rename implements files.FS.
func (r *Recorder) Rename(from, to string) error {
	return both(r.Memory.Rename(from, to), func() error { return r.Disk.Rename(from, to) })
}

// Remove implements files.FS.
func (r *Recorder) Remove(path string) error {
	return both(r.Memory.Remove(path), func() error { return r.Disk.Remove(path) })
}

// MakeDir implements files.FS.
func (r *Recorder) MakeDir(path string) error {
	return both(r.Memory.MakeDir(path), func() error { return r.Disk.MakeDir(path) })
}

// SyncDir implements files.FS.
func (r *Recorder) SyncDir(dir string) error { return r.Memory.SyncDir(dir) }

type recordedFile struct {
	files.File
	recorded files.File
}

// WriteAt implements io.WriterAt.
func (f *recordedFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.recorded.WriteAt(b, at)
	if written, wrong := f.File.WriteAt(b[:n], at); wrong != nil {
		return written, wrong
	}
	return n, err
}

// Allocate implements files.File.
func (f *recordedFile) Allocate(size int64) error {
	return both(f.recorded.Allocate(size), func() error { return f.File.Allocate(size) })
}

// Sync implements files.File.
func (f *recordedFile) Sync() error { return f.recorded.Sync() }
