// Package filestamp distinguishes the versions of a file that is read again when it changes.
package filestamp

import (
	"errors"
	"io/fs"
	"os"
)

// Stamp is one version of a file. The zero value is a file that is not there.
type Stamp struct {
	modified, size int64
	inode          uint64
}

// Of returns the stamp of the file as it is now. A file that is not there is no error.
func Of(path string) (Stamp, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Stamp{}, nil
	case err != nil:
		return Stamp{}, err
	}
	return Stamp{modified: info.ModTime().UnixNano(), size: info.Size(), inode: inodeOf(info)}, nil
}
