package raftstore

import (
	"bytes"

	"go.etcd.io/bbolt"
)

// pairs gives the pairs of a bucket in key order, and a nil key behind the last. The slices are valid until
// the next call.
type pairs interface {
	following() (key, stored []byte)
}

// cursorPairs are those of a bucket that bbolt reads.
type cursorPairs struct {
	cursor *bbolt.Cursor
	begun  bool
}

func (c *cursorPairs) following() (key, stored []byte) {
	if c.begun {
		return c.cursor.Next()
	}
	c.begun = true
	return c.cursor.First()
}

// noPairs is an empty bucket.
type noPairs struct{}

func (noPairs) following() (key, stored []byte) { return nil, nil }

// overlay gives the rows of a checkpoint in key order: those of rows, except where next has another or a
// tombstone.
type overlay struct {
	path       string // for errors
	rows, next pairs

	begun            bool
	row, rowStored   []byte // the next one of rows, and of next
	over, overStored []byte
}

// step returns the following row; key is nil behind the last.
func (o *overlay) step() (key, stored []byte, err error) {
	if !o.begun {
		o.begun = true
		o.row, o.rowStored = o.rows.following()
		o.over, o.overStored = o.next.following()
	} else {
		o.advance()
	}
	for o.over != nil && (o.row == nil || bytes.Compare(o.over, o.row) <= 0) {
		_, _, gone, err := decodeNext(o.path, o.over, o.overStored)
		if err != nil {
			return nil, nil, err
		}
		if !gone {
			return o.over, o.overStored, nil
		}
		o.advance()
	}
	return o.row, o.rowStored, nil
}

// advance passes over the row at which the overlay stands. It is called once that is not used any more.
func (o *overlay) advance() {
	switch order := o.compare(); {
	case order == 0:
		o.row, o.rowStored = o.rows.following()
		o.over, o.overStored = o.next.following()
	case order < 0:
		o.row, o.rowStored = o.rows.following()
	default:
		o.over, o.overStored = o.next.following()
	}
}

// compare tells which comes first: rows (below 0), next (above 0), or both are of the same row.
func (o *overlay) compare() int {
	switch {
	case o.over == nil:
		return -1
	case o.row == nil:
		return 1
	}
	return bytes.Compare(o.row, o.over)
}
