package checkpoint

import (
	"errors"
	"path/filepath"

	"github.com/coordd/coordd/raftstore/files"
)

// Image is a checkpoint that was found in a directory, and is sound.
type Image struct {
	Record []byte
	Files  []FileInfo
	Totals // of the checkpoint: its rows and the sum of their checksums

	o     Options
	m     manifest
	named []*file
}

// Inspect reads and verifies a checkpoint, and passes each row to add unless that is nil. It changes nothing. What add
// was given counts once Inspect has succeeded. Errors: those of package files, os.ErrNotExist without a manifest,
// and those of files and add.
func Inspect(o Options, add func(key, value []byte) error) (*Image, error) {
	i := &Image{o: o.withDefaults()}
	err := i.read(add)
	if err != nil {
		i.Close()
	}
	return i, err
}

func (i *Image) read(add func(key, value []byte) error) (err error) {
	if i.m, err = readManifest(i.o); err != nil {
		return err
	}
	i.Record, i.Files = i.m.Record, i.m.Files
	var of uint64
	for _, info := range i.Files {
		of += info.Rows
		f := &file{FileInfo: info, path: filepath.Join(i.o.Dir, info.Name())}
		if f.open, err = i.o.FS.Open(f.path); err != nil {
			return files.Damage(f.path, "the manifest has it: %v", err)
		}
		i.named = append(i.named, f)
	}
	m, err := newMerge(i.named)
	if err != nil {
		return err
	}
	for {
		key, stored, err := m.next()
		if i.Totals = m.totals; err != nil || key == nil {
			return err
		}
		if i.o.Progress != nil {
			i.o.Progress(i.Rows, of)
		}
		if add != nil {
			if err := add(key, Value(stored)); err != nil {
				return err
			}
		}
	}
}

// Close gives up an image that is not to be opened.
func (i *Image) Close() {
	for _, f := range i.named {
		_ = f.open.Close()
	}
}

// Open goes on with a checkpoint, under a record that may be another one. The manifest is written once more: its name
// may be in the page cache only, and what a sync that failed once has left behind is never trusted. Files that no
// manifest names are removed.
func (i *Image) Open(record []byte) (*Store, error) {
	s := &Store{o: i.o, named: i.named, record: i.Record, next: i.m.Next}
	unnamed, err := i.m.unnamed(i.o)
	if err == nil {
		err = s.publish(i.named, record)
	}
	for _, name := range unnamed {
		if err == nil {
			err = files.Remove(i.o.FS, filepath.Join(i.o.Dir, name))
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
