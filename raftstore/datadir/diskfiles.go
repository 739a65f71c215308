package datadir

import (
	"errors"
	"os"
	"time"

	"github.com/coordd/coordd/internal/histogram"
	"github.com/coordd/coordd/raftstore/files"
)

// diskFiles are files of one kind. Each change passes the disk's check first.
type diskFiles struct {
	files.FS
	disk  *Disk
	kind  string    // of the files, in the names of steps
	times *LogTimes // nil: not measured
	// After a failure no file of the store is changed any more.
	final bool
}

// LogTimes measures the writes and syncs of the log's files.
type LogTimes struct {
	Writes, Syncs    histogram.Histogram
	Writing, Syncing time.Duration // in sum; of the goroutine that appends
}

// Measure adds the time since begun.
func (t *LogTimes) Measure(h *histogram.Histogram, sum *time.Duration, begun time.Time) {
	took := time.Since(begun)
	h.Observe(took)
	*sum += took
}

// logFiles are the files of the log.
func (d *Disk) logFiles() diskFiles { return diskFiles{d.system(), d, " log", &d.Log, true} }

// smallFiles are files that are replaced as a whole.
func (d *Disk) smallFiles() diskFiles { return diskFiles{FS: d.system(), disk: d} }

// system returns the file system without the checks.
func (d *Disk) system() files.FS {
	if d.FS == nil {
		return files.Disk{OpenFile: d.files.open}
	}
	return d.FS
}

// change does a step that changes something.
func (f diskFiles) change(step, path string, do func() error) error {
	err := f.disk.check(step, path)
	if err == nil {
		err = wrapStep(step, path, do())
	}
	if f.final && !errors.Is(err, os.ErrNotExist) { // nothing was tried
		return f.disk.Note(err)
	}
	return err
}

// Create implements files.FS.
func (f diskFiles) Create(path string) (file files.File, err error) {
	err = f.change("create"+f.kind, path, func() error {
		file, err = f.FS.Create(path)
		return err
	})
	if err != nil {
		return nil, err
	}
	return diskFile{file, f, path}, nil
}

// Truncate implements files.FS.
func (f diskFiles) Truncate(path string, size int64) error {
	return f.change("truncate"+f.kind, path, func() error { return f.FS.Truncate(path, size) })
}

// Rename implements files.FS.
func (f diskFiles) Rename(from, to string) error {
	return f.change("rename", to, func() error { return f.FS.Rename(from, to) })
}

// Remove implements files.FS.
func (f diskFiles) Remove(path string) error {
	return f.change("remove", path, func() error { return f.FS.Remove(path) })
}

// MakeDir implements files.FS.
func (f diskFiles) MakeDir(path string) error {
	return f.change("make directory", path, func() error { return f.FS.MakeDir(path) })
}

// SyncDir implements files.FS.
func (f diskFiles) SyncDir(dir string) error {
	return f.change("sync directory", dir, func() error { return f.FS.SyncDir(dir) })
}

type diskFile struct {
	files.File
	of   diskFiles
	path string
}

// WriteAt implements io.WriterAt.
func (f diskFile) WriteAt(p []byte, off int64) (n int, err error) {
	if t := f.of.times; t != nil {
		defer t.Measure(&t.Writes, &t.Writing, time.Now())
	}
	err = f.of.change("write"+f.of.kind, f.path, func() error {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

// Allocate implements files.File.
func (f diskFile) Allocate(size int64) error {
	return f.of.change("allocate"+f.of.kind, f.path, func() error { return f.File.Allocate(size) })
}

// Sync implements files.File.
func (f diskFile) Sync() error {
	if t := f.of.times; t != nil {
		defer t.Measure(&t.Syncs, &t.Syncing, time.Now())
	}
	return f.of.change("sync"+f.of.kind, f.path, f.File.Sync)
}
