package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/coordd/coordd/raftstore/files"
)

const tmpSuffix = files.Suffix

// Disk reads and changes the files of a data directory. Its zero value is ready for use.
type Disk struct {
	// Before is called before each step that changes what is on disk: tests inject errors, and take pictures of the
	// directory "as after a crash here".
	Before func(step, path string) error
	Slow   func(step string) // is called before each step, see raftstore.Config
	FS     files.FS          // nil for the operating system's
	Steps  StepLimits
	Log    LogTimes
	// Progress is called while a directory is examined: so many of so many rows or files are done. May be nil.
	Progress func(what, unit string, done, of uint64)

	files  descriptors
	failed atomic.Pointer[error] // the first failure after which nothing more may be written
}

// offline returns the disk of a command on the directory of a stopped member.
func offline() *Disk { return &Disk{FS: files.Disk{}} }

// check runs before a step that changes what is on disk. An error is wrapped with the step and the file.
func (d *Disk) check(step, path string) error {
	if err := d.Failed(); err != nil {
		return wrapStep(step, path, fmt.Errorf("not tried after a failure: %w", err))
	}
	if d.Slow != nil {
		d.Slow(step)
	}
	if d.Before == nil {
		return nil
	}
	return wrapStep(step, path, d.Before(step, path))
}

// Note remembers the first failure of a write and returns err. From then on what is in memory and what is on
// disk may differ, so another goroutine's write, correct as it looks there, could turn a crash into damage.
func (d *Disk) Note(err error) error {
	if err != nil {
		d.failed.CompareAndSwap(nil, &err)
	}
	return err
}

// Failed returns the first failure that was noted, nil as long as every write has succeeded.
func (d *Disk) Failed() error {
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// wrapStep adds operation and file to an error of the operating system or a library.
func wrapStep(step, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", step, path, err)
}

func (d *Disk) syncDir(dir string) error { return d.smallFiles().SyncDir(dir) }

// makeDir makes dir with its missing parents and makes the new names durable. A process that was killed may have made
// a directory without the latter; so the name of one that exists is synced too, as far as its parent allows that.
func (d *Disk) makeDir(dir string) error {
	parent, fs := filepath.Dir(dir), d.smallFiles()
	err := fs.MakeDir(dir)
	if errors.Is(err, os.ErrNotExist) && parent != dir {
		if err = d.makeDir(parent); err == nil {
			err = fs.MakeDir(dir)
		}
	}
	if errors.Is(err, os.ErrExist) {
		_ = d.syncDir(parent)
		_, err = fs.List(dir) // which fails if it is no directory
		return err
	}
	if err != nil {
		return err
	}
	return d.syncDir(parent)
}

// writeFile replaces path by data in one step: after a crash there is the old file or the new one.
func (d *Disk) writeFile(path string, data []byte) error {
	return files.Write(d.smallFiles(), path, data)
}

func (d *Disk) remove(path string) error { return files.Remove(d.smallFiles(), path) }

func (d *Disk) read(path string) ([]byte, error) { return files.Read(d.system(), path) }

func (d *Disk) exists(path string) (bool, error) { return files.Exists(d.system(), path) }
