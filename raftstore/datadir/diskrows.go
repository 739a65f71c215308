package datadir

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/coordd/coordd/raftstore/checkpoint"
	"github.com/coordd/coordd/raftstore/membership"
)

// CheckpointDir is the folder of the checkpoint in a data directory.
const CheckpointDir = "checkpoint"

// Rows are the checkpoints of a data directory.
type Rows struct {
	*checkpoint.Store
	path string
	meta Meta // of the last checkpoint, or of the one that is being written
}

// rowOptions are those of the checkpoint in a data directory.
func rowOptions(d *Disk, dir string) checkpoint.Options {
	return checkpoint.Options{Dir: filepath.Join(dir, CheckpointDir), FS: d.rowFiles(), RunBytes: d.Steps.Run,
		StepBytes: d.Steps.Step, MergeBytes: d.Steps.Merge}
}

// rowFiles are the files of checkpoints.
func (d *Disk) rowFiles() diskFiles {
	return diskFiles{FS: d.system(), disk: d, kind: " rows", final: true}
}

// StepLimits are the sizes of checkpoint.Options; 0 is the default.
type StepLimits struct{ Run, Step, Merge int }

// createState makes the first checkpoint, which has no rows.
func createState(d *Disk, dir string, first Meta) error {
	return checkpoint.New(rowOptions(d, dir)).Replace(nil, first.stored())
}

// openRows goes on with the checkpoint of an image, whose record may have been changed.
func (img *Image) openRows(dir string) (*Rows, error) {
	s, err := img.rows.Open(img.Meta.stored())
	if err != nil {
		return nil, corruptAt(err, 0)
	}
	return &Rows{s, filepath.Join(dir, CheckpointDir), img.Meta}, nil
}

// rowReader is given the rows of a checkpoint while they are verified, so that a start reads the files once.
type rowReader struct {
	add    func(key, value []byte) error // see Options.Load; nil if nobody wants them
	logger *slog.Logger                  // gets the progress; nil: not logged
	period time.Duration                 // see progress
}

// loadRows reads and verifies the checkpoint in a data directory, and changes nothing. The reader receives the rows.
// It must drop them if there is an error.
func (img *Image) loadRows(d *Disk, dir string, reader rowReader) error {
	p := newProgress(reader.logger, d.Progress, reader.period, "reading the checkpoint", "rows")
	o := rowOptions(d, dir)
	o.Progress = func(_, of uint64) {
		p.of = of
		p.step()
	}
	manifest := filepath.Join(o.Dir, checkpoint.ManifestName)
	var err error
	img.rows, err = checkpoint.Inspect(o, reader.add)
	if errors.Is(err, os.ErrNotExist) {
		err = corrupt(manifest, 0, "the file is missing")
	}
	if err != nil {
		return corruptAt(err, 0)
	}
	if img.Meta, err = readMeta(manifest, img.rows.Record); err != nil {
		return err
	}
	if id := img.Identity; img.Meta.Cluster != id.Cluster || img.Meta.Member != id.Member {
		return corrupt(manifest, 0, "the file belongs to member %s of cluster %s, not to this directory",
			membership.IDText(img.Meta.Member), membership.IDText(img.Meta.Cluster))
	}
	return nil
}

// Step writes one piece of the checkpoint that was finished, see checkpoint.Store.
func (r *Rows) Step() (durable bool, err error) {
	durable, err = r.Store.Step()
	return durable, corruptAt(err, 0)
}

// Tidy does one step of a merge, see checkpoint.Store.
func (r *Rows) Tidy(room bool) (more bool, err error) {
	more, err = r.Store.Tidy(room)
	return more, corruptAt(err, 0)
}

// Finish ends the next checkpoint: it has everything, as of index.
func (r *Rows) Finish(index, term uint64, conf membership.Conf) {
	r.meta.Index, r.meta.Term, r.meta.Conf = index, term, conf
	r.Store.Finish(r.meta.stored())
}

// Replace makes a received checkpoint the last.
func (r *Rows) Replace(file *checkpoint.FileWriter, meta Meta) error {
	r.meta = meta
	return r.Store.Replace(file, meta.stored())
}

// Each calls fn for each row of the last durable checkpoint in the order of their keys.
func (r *Rows) Each(fn func(key, value []byte) error) error {
	p, err := r.Pin()
	if err != nil {
		return err
	}
	defer p.Release()
	return p.Each(func(key, stored []byte) (bool, error) { return true, fn(key, checkpoint.Value(stored)) })
}

// Pin begins to read the last durable checkpoint from any goroutine.
func (r *Rows) Pin() (*Pinned, error) {
	p := &Pinned{pin: r.Store.Pin()}
	var err error
	if p.Meta, err = readMeta(r.path, p.pin.Record); err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

// Pinned is a checkpoint that stays readable while later ones are written, until it is released. The files that it is
// read from stay on the disk meanwhile, so its reader needs a bound on the time. Nothing waits for a reader.
type Pinned struct {
	Meta Meta  // its record
	Read int64 // bytes read so far

	pin *checkpoint.Pinned
}

// Release ends the reading.
func (p *Pinned) Release() { p.pin.Release() }

// Each passes the rows that are left to fn, as they are stored, until it returns false. The slices are valid during
// the call.
func (p *Pinned) Each(fn func(key, stored []byte) (more bool, err error)) error {
	for {
		key, stored, err := p.pin.Next()
		if err != nil || key == nil {
			return corruptAt(err, 0)
		}
		p.Read += int64(len(key) + len(stored))
		if more, err := fn(key, stored); err != nil || !more {
			return err
		}
	}
}

// Sent returns the record of what was read.
func (p *Pinned) Sent() []byte {
	m, sent := p.Meta, p.pin.Totals()
	m.Rows, m.Sum, m.Restored = sent.Rows, sent.Sum, p.Meta.Index
	return m.Encode()
}
