package wal

import (
	"errors"
	"io"
	"os"
	"runtime"
)

// Files is a log's access to the file system. Tests record what goes through it, and make it fail.
type Files interface {
	// List returns the names in a directory.
	List(dir string) ([]string, error)
	// Create makes a file that does not exist yet, for reading and writing.
	Create(path string) (File, error)
	// Open opens a file for reading.
	Open(path string) (File, error)
	// Truncate cuts a file to a size. It need not be durable.
	Truncate(path string, size int64) error
	// Remove removes a file's name. SyncDir makes that durable.
	Remove(path string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	// Allocate gives a new file its size, filled with zeros.
	Allocate(size int64) error
	// Sync makes content and size durable.
	Sync() error
}

// Disk is the operating system's file system.
type Disk struct{}

type diskFile struct{ *os.File }

// FileOf returns an open file of the operating system as a File.
func FileOf(f *os.File) File { return diskFile{f} }

// List implements Files.
func (Disk) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Create implements Files.
func (Disk) Create(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

// Open implements Files.
func (Disk) Open(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

// Truncate implements Files.
func (Disk) Truncate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// Remove implements Files.
func (Disk) Remove(path string) error { return os.Remove(path) }

// SyncDir implements Files. Windows cannot.
func (Disk) SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Size implements File.
func (f diskFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
