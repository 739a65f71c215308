package raftstore

import (
	"os"
	"syscall"
)

// dataSync makes written data durable without a journal write for the file's times.
func dataSync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err != syscall.EINTR {
			return err
		}
	}
}

// allocate gives a new file its final size, with blocks behind it where the file system can.
func allocate(f *os.File, size int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
	if err == syscall.EOPNOTSUPP || err == syscall.ENOSYS || err == syscall.EINTR {
		return f.Truncate(size)
	}
	return err
}
