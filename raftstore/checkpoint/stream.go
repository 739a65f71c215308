package checkpoint

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/coordd/coordd/raftstore/files"
)

// This file is the one form in which rows leave a program: a stream, in which each row has its own checksum and all
// have one more. The files of this package, and backups, are such streams.
const (
	// Format is the version of a stream.
	Format = 1
	// KeyMax and StoredMax bound a row.
	KeyMax    = 32 << 10
	StoredMax = 64 << 20

	magic       = "coorddrw" // of a file, whose rows may be of all kinds
	magicBytes  = 8
	headBytes   = magicBytes + 4
	frameBytes  = 8
	storedBytes = 5 // kind, CRC32C over key and value
	readBytes   = 64 << 10
)

// What a stored row begins with. Only files have the two others.
const (
	kindDeleted byte = iota // the row is gone
	kindRow                 // the row is there
	kindPrefix              // the rows of older files whose key begins with this one are gone
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Totals sum up a stream: a checksum in each row does not show a row that is gone.
type Totals struct {
	Rows   uint64 `json:"rows"` // of all kinds
	Sum    uint64 `json:"sum"`  // of their checksums
	Bytes  int64  `json:"bytes"`
	Digest uint32 `json:"digest"` // CRC32C of everything in front of it
}

// Add counts a stored row.
func (t *Totals) Add(stored []byte) {
	t.Rows++
	t.Sum += uint64(binary.LittleEndian.Uint32(stored[1:]))
}

// Stored returns a row's value as a stream has it, with its checksum.
func Stored(key, value []byte) []byte { return seal(nil, kindRow, key, value) }

// seal appends a row as it is stored.
func seal(to []byte, kind byte, key, value []byte) []byte {
	at := len(to)
	to = append(append(to, kind, 0, 0, 0, 0), value...)
	binary.LittleEndian.PutUint32(to[at+1:], rowSum(key, to[at:]))
	return to
}

// rowSum begins with the key's length, so that a byte that moves from the key to the value shows. The kind is in it
// unless it is that of a row.
func rowSum(key, stored []byte) uint32 {
	head := binary.LittleEndian.AppendUint32(make([]byte, 0, 5), uint32(len(key)))
	if stored[0] != kindRow {
		head = append(head, stored[0])
	}
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, key)
	return crc32.Update(sum, castagnoli, stored[storedBytes:])
}

// Value returns the value of a stored row that is there.
func Value(stored []byte) []byte { return stored[storedBytes:] }

// CheckRow verifies a row that is there. The name stands in the error, a *files.DamageError.
func CheckRow(name string, key, stored []byte) error {
	return checkRow(name, key, stored, kindRow, kindRow)
}

// checkRow verifies a row of some kinds.
func checkRow(name string, key, stored []byte, lowest, highest byte) error {
	if len(stored) < storedBytes {
		return files.Damage(name, "row %q is too short", key)
	}
	sum, kind := binary.LittleEndian.Uint32(stored[1:]), stored[0]
	if got := rowSum(key, stored); got != sum {
		return files.Damage(name, "row %q has checksum %08x, stored %08x", key, got, sum)
	}
	if kind < lowest || kind > highest || kind != kindRow && len(stored) > storedBytes {
		return files.Damage(name, "row %q is of kind %d", key, kind)
	}
	return nil
}

// Writer writes a stream. The first error is returned by each later call.
type Writer struct {
	out    io.Writer
	buffer []byte
	limit  int    // of the buffer: out is written to in pieces of about this size
	stored []byte // of seal, used again
	totals Totals
	order  order
	err    error
}

// NewWriter begins a stream. The magic has eight bytes.
func NewWriter(out io.Writer, magic string, limit int) *Writer {
	w := &Writer{out: out, limit: limit}
	w.buffer = binary.LittleEndian.AppendUint32(append(w.buffer, magic...), Format)
	return w
}

// Row writes a row as it is stored. Rows come in the order of their keys.
func (w *Writer) Row(key, stored []byte) error {
	if w.err == nil {
		w.err = w.order.next(key, stored)
	}
	if w.err != nil {
		return w.err
	}
	w.totals.Add(stored)
	w.frame(key, stored)
	if len(w.buffer) >= w.limit {
		w.flush()
	}
	return w.err
}

// seal writes a row that is not stored yet.
func (w *Writer) seal(kind byte, key, value []byte) error {
	w.stored = seal(w.stored[:0], kind, key, value)
	return w.Row(key, w.stored)
}

func (w *Writer) frame(key, stored []byte) {
	w.buffer = binary.LittleEndian.AppendUint32(w.buffer, uint32(len(key)))
	w.buffer = binary.LittleEndian.AppendUint32(w.buffer, uint32(len(stored)))
	w.buffer = append(append(w.buffer, key...), stored...)
}

// Totals returns the rows so far and the sum of their checksums, and the bytes that were written.
func (w *Writer) Totals() Totals { return w.totals }

func (w *Writer) flush() {
	w.totals.Digest = crc32.Update(w.totals.Digest, castagnoli, w.buffer)
	w.put()
}

func (w *Writer) put() {
	if w.err == nil {
		_, w.err = w.out.Write(w.buffer)
		w.totals.Bytes += int64(len(w.buffer))
	}
	w.buffer = w.buffer[:0]
}

// Finish ends the stream, with a record of the caller.
func (w *Writer) Finish(record []byte) (Totals, error) {
	w.frame(nil, record)
	w.totals.Digest = crc32.Update(w.totals.Digest, castagnoli, w.buffer)
	w.buffer = binary.LittleEndian.AppendUint32(w.buffer, w.totals.Digest)
	w.put()
	return w.totals, w.err
}

// order is the rule of what may follow in a stream: dropped prefixes, then rows, both ascending.
type order struct {
	last []byte
	rows bool
}

func (o *order) next(key, stored []byte) error {
	rows := stored[0] != kindPrefix
	switch {
	case len(key) == 0 || len(key) > KeyMax || len(stored) > StoredMax:
		return fmt.Errorf("a row of %d and %d bytes, the limits are %d and %d", len(key), len(stored), KeyMax,
			StoredMax)
	case o.rows == rows && len(o.last) > 0 && bytes.Compare(o.last, key) >= 0 || o.rows && !rows:
		return fmt.Errorf("row %q comes behind row %q", key, o.last)
	}
	o.rows, o.last = rows, append(o.last[:0], key...)
	return nil
}

// Reader reads a stream and verifies it.
type Reader struct {
	name   string // for errors
	in     *bufio.Reader
	frame  []byte
	totals Totals
	order  order
	begun  bool
	magic  string

	// Key and Stored are the present row, valid until the next call.
	Key, Stored []byte
	// Record is the argument of Finish, once everything has been read.
	Record []byte
}

// NewReader begins to read a stream. The name stands in errors.
func NewReader(in io.Reader, magic, name string) *Reader {
	return &Reader{name: name, magic: magic, in: bufio.NewReaderSize(in, readBytes)}
}

// Next reads the next row. At the end it returns false, once all checksums were right.
func (r *Reader) Next() (bool, error) {
	more, err := r.next()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = files.Damage(r.name, "it ends too early")
	}
	return more, err
}

func (r *Reader) next() (bool, error) {
	if !r.begun {
		if err := r.head(); err != nil {
			return false, err
		}
	}
	if err := r.read(frameBytes); err != nil {
		return false, err
	}
	keyBytes, size := binary.LittleEndian.Uint32(r.frame), binary.LittleEndian.Uint32(r.frame[4:])
	if keyBytes > KeyMax || size > StoredMax {
		return false, files.Damage(r.name, "a row of %d and %d bytes", keyBytes, size)
	}
	if err := r.read(int(keyBytes + size)); err != nil {
		return false, err
	}
	if keyBytes == 0 {
		r.Key, r.Stored, r.Record = nil, nil, bytes.Clone(r.frame)
		return false, r.end()
	}
	r.Key, r.Stored = r.frame[:keyBytes:keyBytes], r.frame[keyBytes:]
	lowest, highest := kindRow, kindRow
	if r.magic == magic {
		lowest, highest = kindDeleted, kindPrefix
	}
	if err := checkRow(r.name, r.Key, r.Stored, lowest, highest); err != nil {
		return false, err
	}
	if err := r.order.next(r.Key, r.Stored); err != nil {
		return false, files.Damage(r.name, "%v", err)
	}
	r.totals.Add(r.Stored)
	return true, nil
}

func (r *Reader) head() error {
	r.begun = true
	if err := r.read(headBytes); err != nil && len(r.frame) < magicBytes {
		return files.Damage(r.name, "it is too short")
	} else if err != nil {
		return err
	}
	if string(r.frame[:magicBytes]) != r.magic {
		return files.Damage(r.name, "it begins with something else")
	}
	if found := int(binary.LittleEndian.Uint32(r.frame[magicBytes:])); found != Format {
		return &files.FormatError{File: r.name, Found: found, Known: Format}
	}
	return nil
}

// end compares the checksum.
func (r *Reader) end() error {
	want := r.totals.Digest
	if err := r.read(4); err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint32(r.frame); got != want {
		return files.Damage(r.name, "it has checksum %08x, stored %08x", want, got)
	}
	r.totals.Digest = want
	return nil
}

// read fills the frame. A large one grows as bytes come, so that a wrong length takes no memory.
func (r *Reader) read(size int) error {
	r.frame = r.frame[:0]
	for len(r.frame) < size {
		piece := min(size-len(r.frame), max(readBytes, len(r.frame)))
		r.frame = append(r.frame, make([]byte, piece)...)
		n, err := io.ReadFull(r.in, r.frame[len(r.frame)-piece:])
		if err != nil {
			r.frame = r.frame[:len(r.frame)-piece+n]
			return err
		}
	}
	r.totals.Bytes += int64(size)
	r.totals.Digest = crc32.Update(r.totals.Digest, castagnoli, r.frame)
	return nil
}

// Totals returns the rows so far and the sum of their checksums; behind the end the rest as well.
func (r *Reader) Totals() Totals { return r.totals }
