package raftstore

import (
	"os"
	"time"

	"github.com/coordd/coordd/raftstore/wal"
)

// logFiles are the log's files. Each change passes the disk's check first, and after a failed one no file of the store
// is changed any more.
type logFiles struct {
	wal.Disk
	disk *disk
}

type logFile struct {
	wal.File
	disk *disk
	path string
}

// Create implements wal.Files.
func (l logFiles) Create(path string) (wal.File, error) {
	return l.open("create segment", path, os.O_CREATE|os.O_EXCL|os.O_RDWR)
}

// Open implements wal.Files.
func (l logFiles) Open(path string) (wal.File, error) { return l.open("", path, os.O_RDONLY) }

func (l logFiles) open(step, path string, flag int) (wal.File, error) {
	if step != "" {
		if err := l.disk.note(l.disk.check(step, path)); err != nil {
			return nil, err
		}
	}
	f, err := l.disk.files.open(path, flag, 0o600)
	if step != "" {
		err = l.disk.note(wrapStep(step, path, err))
	}
	if err != nil {
		return nil, err
	}
	return logFile{wal.FileOf(f), l.disk, path}, nil
}

// Truncate implements wal.Files.
func (l logFiles) Truncate(path string, size int64) error {
	return l.disk.change("truncate log", path, func() error { return l.Disk.Truncate(path, size) })
}

// Remove implements wal.Files.
func (l logFiles) Remove(path string) error {
	return l.disk.change("remove", path, func() error { return l.Disk.Remove(path) })
}

// SyncDir implements wal.Files.
func (l logFiles) SyncDir(dir string) error { return l.disk.note(l.disk.syncDir(dir)) }

// WriteAt implements io.WriterAt.
func (f logFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.disk.change("write log", f.path, func() error {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

// Allocate implements wal.File.
func (f logFile) Allocate(size int64) error {
	return f.disk.change("allocate log", f.path, func() error { return f.File.Allocate(size) })
}

// Sync implements wal.File.
func (f logFile) Sync() error {
	return f.disk.change("sync log", f.path, func() error {
		begun := time.Now()
		defer func() { f.disk.syncs.Observe(time.Since(begun)) }()
		return f.File.Sync()
	})
}

// change does a step that changes the log, and remembers a failure.
func (d *disk) change(step, path string, do func() error) error {
	err := d.check(step, path)
	if err == nil {
		err = wrapStep(step, path, do())
	}
	return d.note(err)
}
