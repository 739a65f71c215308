// Package files is the store's access to the file system: every step that changes what is on disk is a method of FS or
// File. Disk is the operating system's; package rig has one in memory, which makes images of what a crash may leave.
package files

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// FS is a file system. Names are durable after SyncDir of their directory, content after File.Sync; neither before.
type FS interface {
	// List returns the names in a directory.
	List(dir string) ([]string, error)
	// Create makes a file that does not exist yet, for reading and writing.
	Create(path string) (File, error)
	// Open opens a file for reading.
	Open(path string) (File, error)
	// Truncate cuts a file to a size. It need not be durable.
	Truncate(path string, size int64) error
	// Rename gives a file another name in the same directory. A file that has the name is replaced.
	Rename(from, to string) error
	// Remove removes a file's name.
	Remove(path string) error
	// MakeDir makes a directory whose parent exists.
	MakeDir(path string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Lock holds a file or directory for this process until it is closed: alone, or together with others that share
	// it. It returns ErrLocked instead of waiting.
	Lock(path string, shared bool) (io.Closer, error)
}

// ErrLocked is returned for a file that another process holds.
var ErrLocked = errors.New("the data directory is in use by another process")

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	// Allocate gives a new file its size, filled with zeros.
	Allocate(size int64) error
	// Sync makes content and size durable. After an error it is not known what is: the file must not be written again.
	Sync() error
}

// Suffix marks a file that is renamed once it is complete.
const Suffix = ".tmp"

// Write gives a file this content in one step: after a crash there is the old file or the new one. The new one is
// durable when Write returns.
func Write(fs FS, path string, content []byte) error {
	tmp := path + Suffix
	if err := Remove(fs, tmp); err != nil {
		return err
	}
	f, err := fs.Create(tmp)
	if err != nil {
		return err
	}
	if err = WriteAll(f, content, 0); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(tmp, path); err != nil {
		return err
	}
	return fs.SyncDir(filepath.Dir(path))
}

// Exists reports whether there is a file or directory.
func Exists(fs FS, path string) (bool, error) {
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// Read returns the content of a file.
func Read(fs FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	b := make([]byte, size)
	if err == nil && size > 0 {
		if n, wrong := f.ReadAt(b, 0); n < len(b) {
			err = wrong
		}
	}
	return b, errors.Join(err, f.Close())
}

// WriteAll writes b at a place, all of it.
func WriteAll(f File, b []byte, at int64) error {
	n, err := f.WriteAt(b, at)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// Remove removes a file if it exists.
func Remove(fs FS, path string) error {
	if err := fs.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
