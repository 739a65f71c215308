//go:build unix

package trace

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// File is a file that a trace is written to without any effect on what is traced: it is mapped into memory, so that
// nothing is allocated, and no hook of the disk is called. What is written is in the file even if the program crashes,
// with zeros behind it.
type File struct {
	file   *os.File
	memory []byte
	length int
}

// mostBytes bounds a trace.
const mostBytes = 1 << 30

// Create makes a file, or empties it.
func Create(name string) (*File, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err = file.Truncate(mostBytes); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	memory, err := syscall.Mmap(int(file.Fd()), 0, mostBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &File{file: file, memory: memory}, nil
}

// Write appends to the file.
func (f *File) Write(text []byte) (int, error) {
	n := copy(f.memory[f.length:], text)
	f.length += n
	if n < len(text) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// Close truncates the file to its content.
func (f *File) Close() error {
	return errors.Join(syscall.Munmap(f.memory), f.file.Truncate(int64(f.length)), f.file.Close())
}
