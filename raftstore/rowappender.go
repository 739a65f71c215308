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
