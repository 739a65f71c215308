package files

import (
	"os"
	"syscall"
)

// Sync implements File. It saves the journal's write for the file's times.
func (f diskFile) Sync() error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// Allocate implements File. Where the file system can, blocks stand behind the size.
func (f diskFile) Allocate(size int64) error {
	switch err := syscall.Fallocate(int(f.Fd()), 0, 0, size); err {
	case syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EINTR:
		return f.Truncate(size)
	default:
		return os.NewSyscallError("fallocate", err)
	}
}
