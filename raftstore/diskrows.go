package raftstore

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/coordd/coordd/raftstore/checkpoint"
	"github.com/coordd/coordd/raftstore/peerpb"
)

// checkpointDir is where the checkpoint is in a data directory.
const checkpointDir = "checkpoint"

// Row is one row of a checkpoint: a key, of 1 to 32768 bytes, with its value as of the checkpoint's index, or the fact
// that it is gone.
type Row = checkpoint.Row

// received is a checkpoint that was collected: its file, which is whole and durable, and its record.
type received struct {
	file *checkpoint.FileWriter
	meta checkpointMeta
}

// rowDevice is where checkpoints become durable. Disk and memory implement it. For the exported methods see
// checkpoint.Store.
type rowDevice interface {
	Put(rows []Row)
	Drop(prefix []byte)
	Busy() bool
	Step() (durable bool, err error)
	Tidy(room bool) (more bool, err error)
	NewFile() (*checkpoint.FileWriter, error)
	Discard(*checkpoint.FileWriter)
	Close() error
	// finish ends the next checkpoint, which is as of mark: it has everything.
	finish(mark checkpointMark)
	// replace makes a received checkpoint the last.
	replace(r *received) error
	// rows calls fn for each row of the last durable checkpoint in the order of their keys.
	rows(fn func(key, value []byte) error) error
	// pin begins to read the last durable checkpoint from any goroutine. It returns nil in memory.
	pin() (*pinned, error)
}

// diskRows are checkpoints on disk.
type diskRows struct {
	*checkpoint.Store
	path string
	meta checkpointMeta // of the last checkpoint, or of the one that is being written
}

// rowOptions are those of the checkpoint in a data directory. d is nil where nothing may be changed.
func rowOptions(d *disk, dir string) checkpoint.Options {
	o := checkpoint.Options{Dir: filepath.Join(dir, checkpointDir)}
	if d != nil {
		o.RunBytes, o.StepBytes, o.MergeBytes = d.steps.run, d.steps.step, d.steps.merge
		o.FS = d.rowFiles()
	}
	return o
}

// rowFiles are the files of checkpoints.
func (d *disk) rowFiles() diskFiles {
	return diskFiles{FS: d.system(), disk: d, kind: " rows", final: true}
}

// stepLimits are the sizes of checkpoint.Options; 0 is the default.
type stepLimits struct{ run, step, merge int }

// createState makes the first checkpoint, which has no rows.
func createState(d *disk, dir string, first checkpointMeta) error {
	return checkpoint.New(rowOptions(d, dir)).Replace(nil, first.stored())
}

// stateImage is the checkpoint of a data directory, verified.
type stateImage struct {
	meta  checkpointMeta
	found *checkpoint.Image
}

// close gives up an image of which no store is opened.
func (i stateImage) close() {
	if i.found != nil {
		i.found.Close()
	}
}

// open goes on with a checkpoint, whose record may have been changed.
func (i stateImage) open(dir string) (rowDevice, error) {
	s, err := i.found.Open(i.meta.stored())
	if err != nil {
		return nil, rowError(err)
	}
	return &diskRows{s, filepath.Join(dir, checkpointDir), i.meta}, nil
}

// rowReader is given the rows of a checkpoint while they are verified, so that a start reads the files once.
type rowReader struct {
	add    func(key, value []byte) error // see Config.Load; nil if nobody wants them
	logger *slog.Logger                  // is told how far it is; nil: nobody
	period time.Duration                 // see progress
}

// loadState reads and verifies the checkpoint in a data directory, and changes nothing. The reader receives the rows.
// It must drop them if there is an error.
func loadState(d *disk, dir string, id identity, reader rowReader) (stateImage, error) {
	p := newProgress(reader.logger, reader.period, "reading the checkpoint", "rows", 0)
	o := rowOptions(d, dir)
	o.Progress = func(_, of uint64) {
		p.of = of
		p.step()
	}
	manifest := filepath.Join(o.Dir, checkpoint.ManifestName)
	found, err := checkpoint.Inspect(o, reader.add)
	if errors.Is(err, os.ErrNotExist) {
		err = corrupt(manifest, 0, "the file is missing")
	}
	if err != nil {
		return stateImage{found: found}, rowError(err)
	}
	img := stateImage{found: found}
	if img.meta, err = readCheckpointMeta(manifest, found.Record); err != nil {
		return img, err
	}
	if img.meta.Cluster != id.Cluster || img.meta.Member != id.Member {
		return img, corrupt(manifest, 0, "the file belongs to member %s of cluster %s, not to this directory",
			IDText(img.meta.Member), IDText(img.meta.Cluster))
	}
	return img, nil
}

// rowError returns an error of the checkpoint as one of this package.
func rowError(err error) error {
	var damage *checkpoint.DamageError
	var format *checkpoint.FormatError
	switch {
	case errors.As(err, &damage):
		return corrupt(damage.File, 0, "%s", damage.Reason)
	case errors.As(err, &format):
		return &FormatError{File: format.File, Found: format.Found, Known: checkpoint.Format}
	case errors.Is(err, os.ErrClosed):
		return ErrStopped
	}
	return err
}

// Step implements rowDevice.
func (r *diskRows) Step() (durable bool, err error) {
	durable, err = r.Store.Step()
	return durable, rowError(err)
}

// Tidy implements rowDevice.
func (r *diskRows) Tidy(room bool) (more bool, err error) {
	more, err = r.Store.Tidy(room)
	return more, rowError(err)
}

func (r *diskRows) finish(mark checkpointMark) {
	r.meta.Index, r.meta.Term, r.meta.Conf = mark.index, mark.term, mark.conf
	r.Finish(r.meta.stored())
}

func (r *diskRows) replace(received *received) error {
	r.meta = received.meta
	return r.Replace(received.file, r.meta.stored())
}

func (r *diskRows) rows(fn func(key, value []byte) error) error {
	p, err := r.pin()
	if err != nil {
		return err
	}
	defer p.Release()
	return p.each(func(key, stored []byte) (bool, error) {
		value, _, err := checkpoint.Value(p.path, key, stored)
		if err == nil {
			err = fn(key, value)
		}
		return true, err
	})
}

func (r *diskRows) pin() (*pinned, error) {
	p := &pinned{Pinned: r.Pin(), path: r.path}
	var err error
	if p.meta, err = readCheckpointMeta(r.path, p.Record); err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

// pinned is a checkpoint that stays readable while later ones are written. The files that it is read from stay on the
// disk meanwhile, so there is a bound on the time (snapshotTimeMax, backupTimeMax). Nothing waits for a reader.
type pinned struct {
	*checkpoint.Pinned
	path string
	meta checkpointMeta

	rows uint64 // rows read so far, and the sum of their checksums
	sum  uint64
	read int64 // bytes
}

// each passes the rows that are left to fn, as they are stored, until it returns false. The slices are valid during
// the call.
func (p *pinned) each(fn func(key, stored []byte) (more bool, err error)) error {
	for {
		key, stored, err := p.Next()
		if err != nil || key == nil {
			return rowError(err)
		}
		_, sum, err := checkpoint.Value(p.path, key, stored)
		if err != nil {
			return rowError(err)
		}
		p.rows, p.sum = p.rows+1, p.sum+uint64(sum)
		p.read += int64(len(key) + len(stored))
		if more, err := fn(key, stored); err != nil || !more {
			return err
		}
	}
}

// next returns the following rows, about snapshotChunkBytes of them; none at the end.
func (p *pinned) next() (rows []*peerpb.Row, err error) {
	until := p.read + snapshotChunkBytes
	err = p.each(func(key, stored []byte) (bool, error) {
		rows = append(rows, &peerpb.Row{Key: append([]byte(nil), key...), Stored: append([]byte(nil), stored...)})
		return p.read < until, nil
	})
	return rows, err
}

// record is the checkpoint record of what was read.
func (p *pinned) record() []byte {
	m := p.meta
	m.Rows, m.Sum, m.Restored = p.rows, p.sum, p.meta.Index
	return m.encode()
}
