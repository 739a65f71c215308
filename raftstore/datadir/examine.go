package datadir

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"sort"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/checkpoint"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/wal"
)

// The recovery rule. At a start nothing but the files is left of the time before, so the rule has to distinguish, by
// the files alone, the traces that a crash may leave from those that only damage leaves:
//
//   - A crash may cut the last write of the log short, or come between two steps of making or removing one of its
//     files. Package wal judges that.
//   - A crash may leave files of a checkpoint that no manifest names, and come between a checkpoint from elsewhere and
//     the emptying of the log.
//
// Everything else that is broken, missing or contradicts something is damage. The server then does not start:
// continuing with the rest might lose acknowledged data, and a cluster has other copies. examine changes nothing, so
// that `coordd check` can use it on any directory, and a damaged one stays as it is for an investigation.
// TestEveryBitFlipIsFoundOrHarmless flips bits all over a directory.

// Image holds the content of a data directory, as far as it was read.
type Image struct {
	Identity Identity
	Meta     Meta // of the checkpoint
	Hard     wal.HardState

	First, Last uint64 // entries in the log; Last < First in an empty log
	Runs        []wal.Run
	Entries     []*pb.Entry // those after the checkpoint
	Unfit       bool        // the checkpoint came from elsewhere and this log does not belong to it
	Learnt      Learnt
	Files       []FileReport

	rows  *checkpoint.Image
	log   *wal.Image
	confs []membership.Conf
}

// Close gives up an image of which nothing is opened.
func (img *Image) Close() {
	if img.rows != nil {
		img.rows.Close()
	}
}

// CheckpointRows returns the number of rows in the checkpoint.
func (img *Image) CheckpointRows() uint64 {
	if img.rows == nil {
		return 0
	}
	return img.rows.Rows
}

// FileReport is one file of a data directory as Check found it.
type FileReport struct {
	Name       string // relative to the directory
	Bytes      int64
	FirstIndex uint64 // first and last log entry; 0 if the file holds none
	LastIndex  uint64
	Rows       uint64 // checkpoint rows
	TornBytes  int64  // bytes of a write that a crash cut short; the next start drops them
}

// examiner reads a data directory without changing anything.
type examiner struct {
	dir          string
	reader       rowReader
	disk         *Disk
	segmentBytes int64
	img          Image
}

// Examine verifies everything in a data directory: identity, checkpoint, log. load, if it is not nil, gets each row of
// the checkpoint. When there is an error the image is filled as far as Examine has come. Errors: *CorruptionError,
// *FormatError, and those of reading files.
func Examine(dir string, load func(key, value []byte) error) (*Image, error) {
	return offline().Examine(dir, load)
}

// Examine is Examine on this disk.
func (d *Disk) Examine(dir string, load func(key, value []byte) error) (*Image, error) {
	x := &examiner{dir: dir, disk: d, reader: rowReader{add: load}}
	return &x.img, x.run()
}

func (x *examiner) run() error {
	id, err := readIdentity(x.disk, x.dir)
	if errors.Is(err, os.ErrNotExist) {
		return corrupt(filepath.Join(x.dir, IdentityFile), 0, "the file is missing")
	}
	if err != nil {
		return err
	}
	x.img.Identity = id
	x.file(IdentityFile, 0, 0, 0)
	if err := refuseFormer(x.disk, x.dir); err != nil {
		return err
	}
	if err := x.readState(); err != nil {
		return err
	}
	log := filepath.Join(x.dir, LogDir)
	if err := x.readLog(log); err != nil {
		return err
	}
	if err := x.checkLog(log); err != nil {
		return err
	}
	return x.img.readConfs(x.disk, x.dir)
}

func (x *examiner) file(name string, first, last, rows uint64) *FileReport {
	f := FileReport{Name: name, FirstIndex: first, LastIndex: last, Rows: rows}
	if file, err := x.disk.system().Open(filepath.Join(x.dir, name)); err == nil {
		f.Bytes, _ = file.Size()
		_ = file.Close()
	}
	x.img.Files = append(x.img.Files, f)
	return &x.img.Files[len(x.img.Files)-1]
}

// readState verifies the checkpoint.
func (x *examiner) readState() (err error) {
	err = x.img.loadRows(x.disk, x.dir, x.reader)
	if found := x.img.rows; found != nil {
		for _, f := range found.Files {
			x.file(filepath.Join(CheckpointDir, f.Name()), 0, 0, f.Rows)
		}
	}
	if err == nil {
		x.file(filepath.Join(CheckpointDir, checkpoint.ManifestName), 0, 0, x.img.CheckpointRows())
	}
	return err
}

// readLog verifies the log and reads the entries after the checkpoint.
func (x *examiner) readLog(dir string) error {
	c := x.img.Meta
	o := logOptions(x.disk, x.img.Identity, c, x.segmentBytes)
	p := newProgress(x.reader.logger, x.disk.Progress, x.reader.period, "reading the log", "files")
	o.Progress = func(done, files int) {
		p.done, p.of = uint64(done), uint64(files)
		p.tell()
	}
	found, err := wal.Inspect(dir, o)
	for _, f := range found.Files {
		r := x.file(filepath.Join(LogDir, f.Name), f.First, f.Last, 0)
		r.TornBytes = f.Torn
	}
	if err != nil {
		return corruptAt(err, 0)
	}
	x.img.log = found
	x.img.First, x.img.Last = found.First, found.Last
	x.img.Hard, x.img.Runs = found.Hard, found.Runs
	if from := max(found.First, c.Index+1); from <= found.Last {
		entries, err := found.Read(from, found.Last+1, math.MaxUint64)
		if err != nil {
			return corruptAt(err, from)
		}
		x.img.Entries = entriesOf(entries)
	}
	return nil
}

// checkLog compares the log with the checkpoint and with the stored term. The log must begin at the entry
// behind the checkpoint or before it, must reach as far as anything that is known to have been committed, and
// must agree with the checkpoint about the term of the entry that they share.
func (x *examiner) checkLog(dir string) error {
	img, c := &x.img, x.img.Meta
	if c.Restored == c.Index && c.Index > 0 && x.replaced() {
		img.Unfit = img.Last >= img.First
		img.Entries = nil
		return nil
	}
	if img.First > c.Index+1 {
		return corrupt(dir, c.Index+1, "the log begins at entry %d, the checkpoint in %s is as of entry %d",
			img.First, CheckpointDir, c.Index)
	}
	durable := max(c.Index, img.Hard.Commit)
	if img.Last < durable {
		return corrupt(dir, img.Last+1, "the log ends at entry %d, entry %d is known to have been in it",
			img.Last, durable)
	}
	if c.Index >= img.First && c.Index > 0 {
		if got := TermAt(img.Runs, c.Index); got != c.Term {
			return corrupt(dir, c.Index, "the entry has term %d, the checkpoint in %s says %d", got,
				CheckpointDir, c.Term)
		}
	}
	return nil
}

// replaced reports whether the checkpoint, which came from elsewhere and is still the last one, stands
// without a log. Either the log was emptied after the installation, or a crash came between, and the log
// belongs to the state before. It is not so if an entry behind the checkpoint is known to be committed: that
// entry must be in the log.
func (x *examiner) replaced() bool {
	img, c := &x.img, x.img.Meta
	if img.Hard.Commit > c.Index {
		return false
	}
	if img.Last < img.First || img.Last < c.Index {
		return true
	}
	if img.First > c.Index {
		return false
	}
	return TermAt(img.Runs, c.Index) != c.Term
}

// Visible returns the first index that raft may ask for, and the terms from the one before it on. That one
// must be known, too, and if it is not in the checkpoint, the oldest entry is given up for it.
func (img *Image) Visible() (first uint64, runs []wal.Run) {
	c := img.Meta
	if img.Unfit || img.Last < img.First && c.Restored == c.Index {
		return c.Index + 1, []wal.Run{{Index: c.Index, Term: c.Term}}
	}
	if img.First == c.Index+1 {
		return img.First, append([]wal.Run{{Index: c.Index, Term: c.Term}}, img.Runs...)
	}
	return img.First + 1, img.Runs
}

// newest returns the last entry of a store that is opened on this directory.
func (img *Image) newest() (index, term uint64) {
	c := img.Meta
	if img.Unfit || img.Last < img.First || img.Last < c.Index {
		return c.Index, c.Term
	}
	return img.Last, TermAt(img.Runs, img.Last)
}

// TermAt returns the term of an index, 0 if the runs do not cover it.
func TermAt(runs []wal.Run, index uint64) uint64 {
	at := sort.Search(len(runs), func(i int) bool { return runs[i].Index > index })
	if at == 0 {
		return 0
	}
	return runs[at-1].Term
}
