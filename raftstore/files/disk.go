package files

import (
	"errors"
	"os"
	"runtime"
)

// Disk is the operating system's file system.
type Disk struct {
	// OpenFile opens files and directories, nil for os.OpenFile.
	OpenFile func(name string, flag int, perm os.FileMode) (*os.File, error)
}

type diskFile struct{ *os.File }

func (d Disk) open(path string, flag int) (*os.File, error) {
	if d.OpenFile == nil {
		return os.OpenFile(path, flag, 0o600)
	}
	return d.OpenFile(path, flag, 0o600)
}

// List implements FS.
func (d Disk) List(dir string) ([]string, error) {
	f, err := d.open(dir, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

// Create implements FS.
func (d Disk) Create(path string) (File, error) {
	f, err := d.open(path, os.O_CREATE|os.O_EXCL|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

// Open implements FS.
func (d Disk) Open(path string) (File, error) {
	f, err := d.open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

// Truncate implements FS.
func (d Disk) Truncate(path string, size int64) error {
	f, err := d.open(path, os.O_RDWR)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// Rename implements FS.
func (Disk) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements FS.
func (Disk) Remove(path string) error { return os.Remove(path) }

// MakeDir implements FS.
func (Disk) MakeDir(path string) error { return os.Mkdir(path, 0o700) }

// SyncDir implements FS. Windows cannot.
func (d Disk) SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := d.open(dir, os.O_RDONLY)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Size implements File.
func (f diskFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
