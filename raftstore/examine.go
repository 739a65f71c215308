package raftstore

import (
	"errors"
	"math"
	"os"
	"path/filepath"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/checkpoint"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/wal"
)

// This file is the recovery rule. At a start nobody can be asked what the directory held before, so the rule
// has to tell, from the files alone, what a crash may leave behind from what only damage can:
//
//   - A crash may cut the last write of the log short, or come between two steps of making or removing one of its
//     files. Package wal judges that.
//   - A crash may leave files of a checkpoint that no manifest names, and come between a checkpoint from elsewhere and
//     the emptying of the log.
//
// Everything else that is broken, missing or contradicts something is damage. The server then does not start:
// to go on with what is left might lose what was acknowledged, and a cluster has other copies. examine
// changes nothing, so that `coordd check` can use it on any directory, and a damaged one stays as it is for
// whoever looks into it. TestEveryBitFlipIsFoundOrHarmless flips bits all over a directory.

// image is what a data directory holds, as examine has read it.
type image struct {
	identity identity
	state    stateImage
	hard     hardState
	log      *wal.Image

	first, last uint64 // entries in the log; last < first if there are none
	runs        []termRun
	entries     []*pb.Entry // those after the checkpoint
	unfit       bool        // the checkpoint came from elsewhere and this log does not belong to it
	learnt      learntText  // of admission.json
	confs       []membership.Conf

	files []FileReport
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
	disk         *disk // nil if nothing is to be opened for writing afterwards
	segmentBytes int64
	img          image
}

// examine verifies everything in a data directory: identity, checkpoint, log. When there is an error the
// image is filled as far as examine has come. Errors: *CorruptionError, *FormatError, and those of reading
// files.
func examine(dir string) (*image, error) {
	x := &examiner{dir: dir}
	return &x.img, x.run()
}

func (x *examiner) run() error {
	id, err := readIdentity(x.dir)
	if errors.Is(err, os.ErrNotExist) {
		return corrupt(filepath.Join(x.dir, identityFile), 0, "the file is missing")
	}
	if err != nil {
		return err
	}
	x.img.identity = id
	x.file(identityFile, 0, 0, 0)
	if err := refuseFormer(x.dir); err != nil {
		return err
	}
	if err := x.readState(); err != nil {
		return err
	}
	log := filepath.Join(x.dir, walDir)
	if err := x.readLog(log); err != nil {
		return err
	}
	if err := x.checkLog(log); err != nil {
		return err
	}
	return x.img.readConfs(x.dir)
}

func (x *examiner) file(name string, first, last, rows uint64) *FileReport {
	f := FileReport{Name: name, FirstIndex: first, LastIndex: last, Rows: rows}
	if info, err := os.Stat(filepath.Join(x.dir, name)); err == nil {
		f.Bytes = info.Size()
	}
	x.img.files = append(x.img.files, f)
	return &x.img.files[len(x.img.files)-1]
}

// readState verifies the checkpoint.
func (x *examiner) readState() (err error) {
	x.img.state, err = loadState(x.disk, x.dir, x.img.identity, x.reader)
	if found := x.img.state.found; found != nil {
		for _, f := range found.Files {
			x.file(filepath.Join(checkpointDir, f.Name), 0, 0, f.Rows)
		}
	}
	if err == nil {
		x.file(filepath.Join(checkpointDir, checkpoint.ManifestName), 0, 0, x.img.state.found.Rows)
	}
	return err
}

// readLog verifies the log and reads the entries after the checkpoint.
func (x *examiner) readLog(dir string) error {
	c := x.img.state.meta
	o := logOptions(x.disk, x.img.identity, c, x.segmentBytes)
	p := newProgress(x.reader.logger, x.reader.period, "reading the log", "files", 0)
	o.Progress = func(done, files int) {
		p.done, p.of = uint64(done), uint64(files)
		p.tell()
	}
	found, err := wal.Inspect(dir, o)
	for _, f := range found.Files {
		r := x.file(filepath.Join(walDir, f.Name), f.First, f.Last, 0)
		r.TornBytes = f.Torn
	}
	if err != nil {
		return logError(err)
	}
	x.img.log = found
	x.img.first, x.img.last = found.First, found.Last
	x.img.hard = hardState{term: found.Hard.Term, vote: found.Hard.Vote, commit: found.Hard.Commit}
	for _, r := range found.Runs {
		x.img.runs = append(x.img.runs, termRun{r.Index, r.Term})
	}
	if from := max(found.First, c.Index+1); from <= found.Last {
		entries, err := found.Read(from, found.Last+1, math.MaxUint64)
		if err != nil {
			return corruptAt(err, from)
		}
		x.img.entries = entriesOf(entries)
	}
	return nil
}

// checkLog compares the log with the checkpoint and with the stored term. The log must begin at the entry
// behind the checkpoint or before it, must reach as far as anything that is known to have been committed, and
// must agree with the checkpoint about the term of the entry that they share.
func (x *examiner) checkLog(dir string) error {
	img, c := &x.img, x.img.state.meta
	if c.Restored == c.Index && c.Index > 0 && x.replaced() {
		img.unfit = img.last >= img.first
		img.entries = nil
		return nil
	}
	if img.first > c.Index+1 {
		return corrupt(dir, c.Index+1, "the log begins at entry %d, the checkpoint in %s is as of entry %d",
			img.first, checkpointDir, c.Index)
	}
	durable := max(c.Index, img.hard.commit)
	if img.last < durable {
		return corrupt(dir, img.last+1, "the log ends at entry %d, entry %d is known to have been in it",
			img.last, durable)
	}
	if c.Index >= img.first && c.Index > 0 {
		if got := termAt(img.runs, c.Index); got != c.Term {
			return corrupt(dir, c.Index, "the entry has term %d, the checkpoint in %s says %d", got,
				checkpointDir, c.Term)
		}
	}
	return nil
}

// replaced reports whether the checkpoint, which came from elsewhere and is still the last one, stands
// without a log. Either the log was emptied after the installation, or a crash came between, and the log
// belongs to the state before. It is not so if an entry behind the checkpoint is known to be committed: that
// entry must be in the log.
func (x *examiner) replaced() bool {
	img, c := &x.img, x.img.state.meta
	if img.hard.commit > c.Index {
		return false
	}
	if img.last < img.first || img.last < c.Index {
		return true
	}
	if img.first > c.Index {
		return false
	}
	return termAt(img.runs, c.Index) != c.Term
}

// visible returns the first index that raft may ask for, and the terms from the one before it on. That one
// must be known, too, and if it is not in the checkpoint, the oldest entry is given up for it.
func (img *image) visible() (first uint64, runs []termRun) {
	c := img.state.meta
	if img.unfit || img.last < img.first && c.Restored == c.Index {
		return c.Index + 1, []termRun{{c.Index, c.Term}}
	}
	if img.first == c.Index+1 {
		return img.first, append([]termRun{{c.Index, c.Term}}, img.runs...)
	}
	return img.first + 1, img.runs
}

// newest returns the last entry of a store that is opened on this directory.
func (img *image) newest() (index, term uint64) {
	c := img.state.meta
	if img.unfit || img.last < img.first || img.last < c.Index {
		return c.Index, c.Term
	}
	return img.last, termAt(img.runs, img.last)
}
