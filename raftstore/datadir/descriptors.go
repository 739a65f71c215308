package datadir

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// spareDescriptors are kept open for the store's own files alone, in case connections and others use up the
	// process's limit: a new segment, its directory, a checkpoint, a received one and a backup, twice.
	spareDescriptors = 10
	// descriptorPatience limits the attempts to open a file when even these are gone, and descriptorPause separates
	// them.
	descriptorPatience = 30 * time.Second
	descriptorPause    = 50 * time.Millisecond
)

// descriptors opens files also when the process has no descriptor left: that is a matter of time and of who
// has them, and no failure of the disk. Its zero value is ready for use.
type descriptors struct {
	logger *slog.Logger // nil: none

	mutex sync.Mutex
	spare []*os.File
	// spares have been used, and not replaced since
	short    bool
	openFile func(name string, flag int, perm os.FileMode) (*os.File, error) // os.OpenFile, but for tests
	// descriptorPatience, but for tests
	patience time.Duration
}

// open is os.OpenFile.
func (d *descriptors) open(name string, flag int, perm os.FileMode) (*os.File, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.openFile == nil {
		d.openFile = os.OpenFile
	}
	if d.patience == 0 {
		d.patience = descriptorPatience
	}
	file, err := d.openFile(name, flag, perm)
	for until := time.Now().Add(d.patience); noDescriptor(err) && time.Now().Before(until); {
		d.tell(name)
		if last := len(d.spare) - 1; last >= 0 {
			_ = d.spare[last].Close() // another goroutine may be faster to take its place
			d.spare = d.spare[:last]
		} else {
			time.Sleep(descriptorPause)
		}
		file, err = d.openFile(name, flag, perm)
	}
	if err == nil {
		d.refill()
	}
	return file, err
}

// It logs once that the spares are being used. The mutex is held.
func (d *descriptors) tell(name string) {
	if !d.short && d.logger != nil {
		d.logger.Error("the process has no descriptor left: files are opened with those kept for them",
			"file", name, "kept", len(d.spare))
	}
	d.short = true
}

// refill opens as many spares as are missing. The mutex is held.
func (d *descriptors) refill() {
	for len(d.spare) < spareDescriptors {
		file, err := d.openFile(os.DevNull, os.O_RDONLY, 0)
		if err != nil {
			return
		}
		d.spare = append(d.spare, file)
	}
	if d.short && d.logger != nil {
		d.logger.Info("there are descriptors again")
	}
	d.short = false
}

// close gives the spares back.
func (d *descriptors) close() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, file := range d.spare {
		_ = file.Close()
	}
	d.spare = nil
}

func noDescriptor(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
