package raftstore

import (
	"bytes"
	"fmt"

	"go.etcd.io/bbolt"
)

// rowAppender fills the rows of a new state.db, which come in key order, in transactions of bounded size.
// Each is synced before the next begins. Until its record is written the file is no checkpoint.
type rowAppender struct {
	db    *bbolt.DB
	steps stepLimits
	disk  *disk

	keys, values [][]byte // not yet written
	bytes        int
	last         []byte
}

// add takes a row; both slices belong to the appender.
func (a *rowAppender) add(key, stored []byte) error {
	if a.last != nil && bytes.Compare(a.last, key) >= 0 {
		return fmt.Errorf("row %q comes behind row %q", key, a.last)
	}
	if size := len(key) + len(stored); a.steps.full(len(a.keys), a.bytes, size) {
		if err := a.flush(); err != nil {
			return err
		}
	}
	a.keys, a.values, a.last = append(a.keys, key), append(a.values, stored), key
	a.bytes += len(key) + len(stored)
	return nil
}

// flush writes what was taken.
func (a *rowAppender) flush() error {
	if len(a.keys) == 0 {
		return nil
	}
	if err := a.disk.check("commit", a.db.Path()); err != nil {
		return err
	}
	err := guardBolt(a.db.Path(), func() error {
		return a.db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(rowsBucket))
			b.FillPercent = stateFillPercent
			for i, key := range a.keys {
				if err := b.Put(key, a.values[i]); err != nil {
					return err
				}
			}
			return nil
		})
	})
	a.keys, a.values, a.bytes = a.keys[:0], a.values[:0], 0
	return wrapStep("write", a.db.Path(), err)
}

// stepLimits bound what a checkpoint takes of memory, and one transaction of the disk.
type stepLimits struct {
	rows  int // of one transaction, dropped prefixes as well
	bytes int // of one transaction; a single row may have more
	pages int // of one transaction of the file, where there is no hurry; a single row may change more
	run   int // bytes of rows that are gathered and sorted before they are written
}

var defaultSteps = stepLimits{rows: stepRowsMax, bytes: stepBytesMax, pages: stepPagesMax, run: runBytesMax}

// full reports whether a transaction that has rows of this many bytes takes no further one of size bytes.
func (l stepLimits) full(rows, bytes, size int) bool {
	return rows >= l.rows || rows > 0 && bytes+size > l.bytes
}
