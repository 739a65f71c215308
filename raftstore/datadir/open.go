package datadir

import (
	"errors"
	"io"
	"log/slog"
	"time"
)

// Options say how a data directory is opened.
type Options struct {
	Dir          string
	Disk         *Disk
	SegmentBytes int
	Logger       *slog.Logger
	// Origin returns the content of a new directory.
	Origin func() (Origin, error)
	// Load gets each row of the checkpoint while it is verified; what it got counts only if Open succeeds. Its error,
	// wrapped, ends Open. Nil: nobody wants the rows.
	Load func(key, value []byte) error
	// Progress is the time between two lines of the log about a long start; 0 is progressPeriod.
	Progress time.Duration
}

// Dir is a data directory that this process has opened.
type Dir struct {
	Image
	Log  *Log
	Rows *Rows

	path string
	disk *Disk
	lock io.Closer
}

// Open takes a data directory for this process, makes it if it is missing, verifies everything in it without changing
// anything, and opens it. Errors: ErrLocked, ErrHalfRestored, *CorruptionError, *FormatError, *CondemnedError, those of
// Options and of the operating system.
func Open(o Options) (*Dir, error) {
	o.Disk.files.logger = o.Logger
	d := &Dir{path: o.Dir, disk: o.Disk}
	if err := d.open(o); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Dir) open(o Options) error {
	if made, err := d.disk.HasData(d.path); !made || err != nil {
		if err := d.disk.makeDir(d.path); err != nil {
			return err
		}
	}
	var err error
	if d.lock, err = d.disk.system().Lock(d.path, false); err != nil {
		return err
	}
	if err := condemned(d.disk, d.path); err != nil {
		return err
	}
	if err := halfRestored(d.disk, d.path); err != nil {
		return err
	}
	if err := d.disk.prepare(d.path, o.Origin); err != nil {
		return err
	}
	x := &examiner{dir: d.path, disk: d.disk, segmentBytes: int64(o.SegmentBytes),
		reader: rowReader{add: o.Load, logger: o.Logger, period: o.Progress}}
	if err := x.run(); err != nil {
		x.img.Close()
		return err
	}
	d.Image = x.img
	for _, f := range d.Files {
		if f.TornBytes > 0 {
			o.Logger.Warn("dropping a log write that a crash cut short", "file", f.Name, "bytes", f.TornBytes,
				"last entry", d.Last)
		}
	}
	if d.Log, err = openLog(d.log); err != nil {
		d.Image.Close()
		return err
	}
	if d.Rows, err = d.openRows(d.path); err != nil {
		return err
	}
	if d.Unfit || d.Last < d.Meta.Index {
		o.Logger.Warn("emptying a log that a received checkpoint has replaced", "checkpoint", d.Meta.Index)
		if err := d.Log.Reset(d.Meta.Index, d.Meta.Term); err != nil {
			return err
		}
	}
	return nil
}

// Close closes what is open, the lock last.
func (d *Dir) Close() error {
	var errs []error
	if d.Log != nil {
		errs = append(errs, d.Log.Close())
	}
	if d.Rows != nil {
		errs = append(errs, d.Rows.Close())
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
	}
	d.disk.files.close()
	return errors.Join(errs...)
}

// SaveLearnt makes what the member has learnt durable. Without a directory there is nothing to be written.
func (d *Dir) SaveLearnt(t Learnt) error {
	if d == nil {
		return nil
	}
	return d.disk.Note(saveLearnt(d.disk, d.path, d.Identity, t))
}
