package checkpoint

import (
	"cmp"
	"fmt"

	"github.com/coordd/coordd/raftstore/files"
)

// Options say where the checkpoints are, and in which pieces they are written. Zero sizes are the defaults.
type Options struct {
	FS  files.FS // nil is the operating system's
	Dir string   // which exists

	RunBytes   int // of rows that are gathered, sorted and written as one file
	StepBytes  int // of a write, which is synced
	MergeBytes int // younger files are not merged into the oldest because of their size below that

	Progress func(done, of uint64) // called for each row that Inspect reads; nil: nobody
}

const (
	runBytes   = 16 << 20
	stepBytes  = 1 << 20
	mergeBytes = 1 << 20
	// More runs than runsMax are merged with each other. A checkpoint waits for that once there are filesMax files.
	runsMax  = 8
	filesMax = 64
	// rowOverhead is an estimate of the memory that a row takes beside its bytes.
	rowOverhead = 32
)

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = files.Disk{}
	}
	o.RunBytes = cmp.Or(o.RunBytes, runBytes)
	o.StepBytes = cmp.Or(o.StepBytes, stepBytes)
	o.MergeBytes = cmp.Or(o.MergeBytes, mergeBytes)
	return o
}

const suffix = ".rows"

// FileName returns the name of the file with a number.
func FileName(sequence uint64) string { return fmt.Sprintf("%010d%s", sequence, suffix) }

// FileInfo is one file of a checkpoint, as the manifest has it.
type FileInfo struct {
	Sequence uint64 `json:"sequence"`
	Totals
}

// Name returns the name of the file.
func (f FileInfo) Name() string { return FileName(f.Sequence) }

// file is a file that is whole and open. Readers keep it, also once the manifest does not name it any more.
type file struct {
	FileInfo
	path    string
	open    files.File
	readers int // under the store's mutex
}

// FileWriter writes one file, in pieces of Options.StepBytes, each of which is synced.
type FileWriter struct {
	*Writer
	file *file
}

// syncedFile makes each write durable, so that the last one does not have to wait for all.
type syncedFile struct {
	f  files.File
	at int64
}

// Write implements io.Writer.
func (s *syncedFile) Write(p []byte) (int, error) {
	if err := files.WriteAll(s.f, p, s.at); err != nil {
		return 0, err
	}
	s.at += int64(len(p))
	return len(p), s.f.Sync()
}

// Complete ends the file. Its content is durable then; its name becomes so with the checkpoint.
func (w *FileWriter) Complete() (err error) {
	w.file.Totals, err = w.Finish(nil)
	return err
}

// drop writes the prefixes that the file drops, in front of its rows.
func (w *FileWriter) drop(prefixes Prefixes) error {
	for _, prefix := range prefixes.sorted {
		if err := w.seal(kindPrefix, []byte(prefix), nil); err != nil {
			return err
		}
	}
	return nil
}

// discard closes and removes a file.
func (o Options) discard(f *file) error {
	err := f.open.Close()
	if wrong := files.Remove(o.FS, f.path); wrong != nil {
		err = wrong
	}
	return err
}
