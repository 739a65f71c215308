//go:build unix

package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Lock implements FS.
func (d Disk) Lock(path string, shared bool) (io.Closer, error) {
	f, err := d.open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	if err = syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err == nil {
		return f, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
}
