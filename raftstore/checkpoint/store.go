package checkpoint

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"

	"github.com/coordd/coordd/raftstore/files"
)

// Store keeps the last checkpoint and writes the next. One goroutine calls its methods; others may call NewFile,
// Discard and Pin at any time.
type Store struct {
	o Options

	mu      sync.Mutex
	named   []*file // of the checkpoint, oldest first
	record  []byte
	next    uint64 // the number of the next file
	garbage []*file

	draft  draft
	merged *merged // nil unless files are being merged
}

// Row is a key with its value, or without one from now on.
type Row struct {
	Key    []byte // 1 to KeyMax bytes
	Value  []byte
	Delete bool // Value is ignored
}

// Bytes returns the weight of a row.
func (r Row) Bytes() int { return len(r.Key) + len(r.Value) + rowOverhead }

// draft is the next checkpoint, which is not durable yet.
type draft struct {
	rows     []Row // given and not sorted yet
	bytes    int   // of rows and drops
	drops    []string
	dropped  Prefixes    // those of runs that were begun
	run      *FileWriter // being written
	sorted   []Row       // which it has yet to get
	written  []*file     // runs that are whole
	finished bool        // it has everything
	record   []byte
}

// merged is a file that takes the place of the named files from first to end-1 once it has their rows.
type merged struct {
	*FileWriter
	from       *merge
	first, end int
}

// New returns a store without a checkpoint, for an empty directory. Replace gives it the first.
func New(o Options) *Store { return &Store{o: o.withDefaults(), next: 1} }

// NewFile begins a file that Replace may make the checkpoint. Rows come in the order of their keys.
func (s *Store) NewFile() (*FileWriter, error) {
	s.mu.Lock()
	f := &file{FileInfo: FileInfo{Sequence: s.next}}
	s.next++
	s.mu.Unlock()
	f.path = filepath.Join(s.o.Dir, f.Name())
	var err error
	if f.open, err = s.o.FS.Create(f.path); err != nil {
		return nil, err
	}
	return &FileWriter{NewWriter(&syncedFile{f: f.open}, magic, s.o.StepBytes), f}, nil
}

// Discard gives up a file that Replace was not given. Tidy removes it. It may be called by any goroutine.
func (s *Store) Discard(w *FileWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.garbage = append(s.garbage, w.file)
}

// Replace makes a file that was completed the checkpoint, or one without rows if it is nil. Rows that were put and are
// not durable are given up.
func (s *Store) Replace(w *FileWriter, record []byte) error {
	s.giveUp()
	if w == nil {
		return s.publish(nil, record)
	}
	return s.publish([]*file{w.file}, record)
}

// giveUp forgets the next checkpoint and a merge.
func (s *Store) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.garbage = append(s.garbage, s.unfinished()...)
	s.draft, s.merged = draft{}, nil
}

// unfinished returns the files that no manifest has had yet.
func (s *Store) unfinished() []*file {
	unfinished := slices.Clone(s.draft.written)
	if s.draft.run != nil {
		unfinished = append(unfinished, s.draft.run.file)
	}
	if s.merged != nil {
		unfinished = append(unfinished, s.merged.file)
	}
	return unfinished
}

// publish makes these files the checkpoint. Their names are durable before the manifest has them.
func (s *Store) publish(named []*file, record []byte) error {
	s.mu.Lock()
	m := manifest{Format: Format, Next: s.next, Record: record, Files: []FileInfo{}}
	s.mu.Unlock()
	for _, f := range named {
		m.Files = append(m.Files, f.FileInfo)
	}
	if len(named) > 0 {
		if err := s.o.FS.SyncDir(s.o.Dir); err != nil {
			return err
		}
	}
	if err := files.Write(s.o.FS, filepath.Join(s.o.Dir, ManifestName), files.Seal(m)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.named {
		if !slices.Contains(named, f) {
			s.garbage = append(s.garbage, f)
		}
	}
	s.named, s.record = named, record
	return nil
}

// Close closes all files. What was not finished is given up, and readers get os.ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := slices.Concat(s.named, s.garbage, s.unfinished())
	var errs []error
	for _, f := range open {
		errs = append(errs, f.open.Close())
	}
	return errors.Join(errs...)
}

// Pinned is a checkpoint that stays readable while later ones are written. It is for one goroutine at a time.
type Pinned struct {
	Record []byte
	s      *Store
	files  []*file
	rows   *merge // nil before the first row
}

// Pin keeps the last checkpoint for a reader. It reads nothing, and may be called by any goroutine.
func (s *Store) Pin() *Pinned {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.named {
		f.readers++
	}
	return &Pinned{Record: s.record, s: s, files: s.named}
}

// Next returns the next row, valid until the next call; a nil key at the end, once everything was right.
func (p *Pinned) Next() (key, stored []byte, err error) {
	if p.rows == nil {
		if p.rows, err = newMerge(p.files); err != nil {
			return nil, nil, err
		}
	}
	return p.rows.next()
}

// Totals returns the number of the rows so far and the sum of their checksums.
func (p *Pinned) Totals() Totals {
	if p.rows == nil {
		return Totals{}
	}
	return p.rows.totals
}

// Release ends the reading.
func (p *Pinned) Release() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	for _, f := range p.files {
		f.readers--
	}
	p.files = nil
}
