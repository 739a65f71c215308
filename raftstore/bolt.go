package raftstore

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
)

// openBolt opens a file that readBolt has found sound. The free list is not stored: it would be one more
// thing that can rot, and it is rebuilt while opening, which means that bbolt reads all of the file.
func openBolt(d *disk, path string, mapBytes int) (db *bbolt.DB, err error) {
	err = guardBolt(path, func() error {
		db, err = bbolt.Open(path, 0o600, &bbolt.Options{
			Timeout:         time.Second, // the directory's lock is ours; only a stranger can hold this one
			NoFreelistSync:  true,
			FreelistType:    bbolt.FreelistMapType,
			InitialMmapSize: mapBytes,
			OpenFile:        d.files.open,
			NoStatistics:    true,
		})
		return err
	})
	if err == nil {
		db.AllocSize = boltGrowBytes
	}
	return db, wrapStep("open", path, err)
}

// guardBolt runs fn, which works on a mapped bbolt file, and turns its panics and page faults into errors.
func guardBolt(path string, fn func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		if r := recover(); r != nil {
			err = corrupt(path, 0, "%v", r)
		}
	}()
	return fn()
}

// createBolt makes a bbolt file under a temporary name, has it filled and puts it in its place.
func createBolt(d *disk, path string, fill func(db *bbolt.DB) error) error {
	tmp := path + tmpSuffix
	if err := d.check("create", tmp); err != nil {
		return err
	}
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	db, err := openBolt(d, tmp, 0)
	if err != nil {
		return err
	}
	err = fill(db)
	if err = errors.Join(err, db.Close()); err != nil {
		return wrapStep("create", tmp, err)
	}
	return d.rename(tmp, path)
}

// commitBolt runs fn in a write transaction and commits it.
func commitBolt(d *disk, db *bbolt.DB, fn func(tx *bbolt.Tx) error) error {
	path := db.Path()
	return d.note(guardBolt(path, func() error {
		tx, err := db.Begin(true)
		if err != nil {
			return wrapStep("begin", path, err)
		}
		defer tx.Rollback()
		if err := fn(tx); err != nil {
			return wrapStep("write", path, err)
		}
		if err := d.check("commit", path); err != nil {
			return err
		}
		return wrapStep("commit", path, tx.Commit())
	}))
}

func mustBucket(tx *bbolt.Tx, name string) (*bbolt.Bucket, error) {
	b := tx.Bucket([]byte(name))
	if b == nil {
		return nil, corrupt(filepath.Clean(tx.DB().Path()), 0, "bucket %q is missing", name)
	}
	return b, nil
}

// missingValue and badValue report a stored value that cannot be used.
func missingValue(path, what string) error {
	return corrupt(path, 0, "%s is missing", what)
}

func badValue(path, what string, err error) error {
	return corrupt(path, 0, "%s: %v", what, err)
}
