package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/coordd/coordd/raftstore/wal"
)

// fewDescriptors is a process that may have a number of files open; the test's own do not count.
type fewDescriptors struct {
	most int
	open []*os.File
}

func (f *fewDescriptors) openFile(name string, flag int, perm os.FileMode) (*os.File, error) {
	left := f.open[:0]
	for _, file := range f.open {
		if _, err := file.Stat(); err == nil {
			left = append(left, file)
		}
	}
	if f.open = left; len(f.open) >= f.most {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	file, err := os.OpenFile(name, flag, perm)
	f.open = append(f.open, file)
	return file, err
}

// TestNoDescriptorIsNoFailure begins segments of a log while the process has no descriptor left but the spare ones.
func TestNoDescriptorIsNoFailure(t *testing.T) {
	dir, few := t.TempDir(), &fewDescriptors{most: 1000}
	d := &Disk{}
	d.files.openFile = few.openFile
	files := d.logFiles()
	first, err := files.Create(filepath.Join(dir, wal.FileName(1)))
	if err != nil {
		t.Fatal(err)
	}
	few.most = len(few.open) // strangers have all others
	second, err := files.Create(filepath.Join(dir, wal.FileName(2)))
	if err != nil {
		t.Fatalf("with %d descriptors kept: %v", spareDescriptors, err)
	}
	rows, err := d.rowFiles().Create(filepath.Join(dir, "rows"))
	if err != nil {
		t.Fatalf("a checkpoint: %v", err)
	}
	if !d.files.short || d.failed.Load() != nil {
		t.Fatalf("short %v, failed %v", d.files.short, d.failed.Load())
	}
	few.most = 1000
	if err := d.syncDir(dir); err != nil || d.files.short || len(d.files.spare) != spareDescriptors {
		t.Fatalf("%v, still short: %v, %d are kept", err, d.files.short, len(d.files.spare))
	}
	d.files.close()
	if err := errors.Join(first.Close(), second.Close(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	if len(d.files.spare) != 0 {
		t.Error("the spares are not given back")
	}
}

// TestNoDescriptorForLong fails only when nobody has given a descriptor back for long.
func TestNoDescriptorForLong(t *testing.T) {
	few := &fewDescriptors{}
	d := &descriptors{openFile: few.openFile, patience: time.Millisecond}
	if _, err := d.open(filepath.Join(t.TempDir(), "file"), os.O_CREATE|os.O_RDWR, 0o600); !errors.Is(err,
		syscall.EMFILE) {
		t.Fatalf("got %v", err)
	}
}
