package wal

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
)

// Format is the version of the files.
const Format = 1

const (
	fileMagic   = "coorddWL"
	headerBytes = 4096
	headerSum   = headerBytes - 4 // place of the header's checksum

	sectorBytes      = 512 // what a drive writes whole or not at all
	batchMagic       = 0x48544257
	batchHeaderBytes = 64 // and what batches are aligned to: a batch header lies in one sector
	recordBytes      = 28
	nextBatchBytes   = 2 * batchHeaderBytes // of the batch that names the next file
)

// indexMax bounds the indexes of entries, so that none overflows.
const indexMax = 1 << 62

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry is one raft entry.
type Entry struct {
	Index, Term uint64
	Type        byte
	Data        []byte
}

// HardState holds raft's term, vote and commit index, which it must not forget.
type HardState struct{ Term, Vote, Commit uint64 }

// header is the first block of a file. Its fields are exported for package binary.
type header struct {
	Magic                     [8]byte
	Format, Reset             uint32 // Reset 1: all earlier files are void
	Cluster, Member, Sequence uint64
	Salt                      salt
	Before                    link
	Last, LastTerm            uint64    // the entry in front of this file; its term is 0 if it is not known
	Hard                      HardState // as of the beginning of this file
	Size                      int64     // that the file has before anything is written behind the header
}

type salt [16]byte

// link is a place between two batches of a file.
type link struct {
	Sequence uint64
	Salt     salt
	End      int64
	Sum      uint32 // checksum in the header of the batch in front of End, 0 if there is no batch
}

func (h *header) encode() []byte {
	copy(h.Magic[:], fileMagic)
	h.Format = Format
	b := make([]byte, headerBytes)
	if _, err := binary.Encode(b, binary.LittleEndian, h); err != nil {
		panic(err) // its size is fixed
	}
	binary.LittleEndian.PutUint32(b[headerSum:], crc32.Checksum(b[:headerSum], castagnoli))
	return b
}

// decodeHeader reports whether b begins with an intact header, of whatever format.
func decodeHeader(b []byte) (h header, ok bool) {
	if len(b) < headerBytes || string(b[:len(fileMagic)]) != fileMagic ||
		binary.LittleEndian.Uint32(b[headerSum:]) != crc32.Checksum(b[:headerSum], castagnoli) {
		return header{}, false
	}
	_, err := binary.Decode(b, binary.LittleEndian, &h)
	return h, err == nil
}

// pad is XORed with what stands in a file behind the headers, at the same place of each sector.
type pad [sectorBytes]byte

func (s salt) pad() (p pad) {
	var seed [32]byte
	copy(seed[:], s[:])
	_, _ = rand.NewChaCha8(seed).Read(p[:]) // it never fails
	return p
}

func (p *pad) apply(b []byte, offset int64) {
	for len(b) > 0 {
		n := subtle.XORBytes(b, b, p[offset%sectorBytes:])
		b, offset = b[n:], offset+int64(n)
	}
}

// segment is a file of the log. first and the like of its header are fixed; the file is written by one goroutine.
type segment struct {
	header
	name  string
	pad   pad
	end   int64 // of the last batch that counts
	sum   uint32
	size  int64 // that was found
	begun bool  // with an intact batch, when it was found
	torn  int64 // bytes of a write that was cut short
}

func newSegment(name string, h header) *segment {
	return &segment{header: h, name: name, pad: h.Salt.pad(), end: headerBytes}
}

// here is the place behind the last batch.
func (s *segment) here() link { return link{s.Sequence, s.Salt, s.end, s.sum} }

func (s *segment) headerSum(head []byte, at int64) uint32 {
	var place [24]byte
	copy(place[:], s.Salt[:])
	binary.LittleEndian.PutUint64(place[16:], uint64(at))
	return crc32.Update(crc32.Checksum(place[:], castagnoli), castagnoli, head[8:batchHeaderBytes])
}

// seal completes a batch that is to be written at a place: room for the header, then count records. The records are
// padded, and unreadable afterwards.
func (s *segment) seal(batch []byte, count int, at int64) []byte {
	for len(batch)%batchHeaderBytes != 0 {
		batch = append(batch, 0)
	}
	head, payload := batch[:batchHeaderBytes], batch[batchHeaderBytes:]
	binary.LittleEndian.PutUint32(head, batchMagic)
	binary.LittleEndian.PutUint32(head[8:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(head[12:], uint32(count))
	binary.LittleEndian.PutUint32(head[16:], crc32.Checksum(payload, castagnoli))
	binary.LittleEndian.PutUint32(head[4:], s.headerSum(head, at))
	s.pad.apply(payload, at+batchHeaderBytes)
	return batch
}

// batch is a batch as it is read.
type batch struct {
	at, end int64
	count   int
	sum     uint32
	payload []byte
}

// batchHeader reports whether an intact batch header stands in b at a place, and how long the batch is.
func (s *segment) batchHeader(b []byte, at int64) (found batch, ok bool) {
	if at+batchHeaderBytes > int64(len(b)) {
		return batch{}, false
	}
	head := b[at : at+batchHeaderBytes]
	found = batch{at: at, sum: binary.LittleEndian.Uint32(head[4:]), count: int(binary.LittleEndian.Uint32(head[12:]))}
	found.end = at + batchHeaderBytes + int64(binary.LittleEndian.Uint32(head[8:]))
	return found, binary.LittleEndian.Uint32(head) == batchMagic && found.sum == s.headerSum(head, at)
}

// batch returns the batch that stands in b, the file, at a place. It removes the pad from an intact one.
func (s *segment) batch(b []byte, at int64) (found batch, ok bool) {
	if found, ok = s.batchHeader(b, at); !ok || found.end > int64(len(b)) {
		return batch{}, false
	}
	found.payload = b[at+batchHeaderBytes : found.end]
	s.pad.apply(found.payload, at+batchHeaderBytes)
	if crc32.Checksum(found.payload, castagnoli) != binary.LittleEndian.Uint32(b[at+16:]) {
		s.pad.apply(found.payload, at+batchHeaderBytes)
		return batch{}, false
	}
	return found, true
}

// judge decides about the bytes of b, the file, from a place on at which no intact batch stands: nothing, a torn write,
// or damage. It returns the end of a torn write.
func (s *segment) judge(b []byte, at int64) (torn int64, err error) {
	rest := bytes.TrimRight(b[min(at, int64(len(b))):], "\x00")
	torn = at + int64(len(rest))
	if len(rest) <= batchHeaderBytes { // no batch is so short; an error has cut one within its header
		return torn, nil
	}
	for probe := at + batchHeaderBytes; probe < torn; probe += batchHeaderBytes {
		if _, ok := s.batchHeader(b, probe); ok {
			return 0, fmt.Errorf("the batch is broken, and another one follows at %d", probe)
		}
	}
	if zeros(b, at, sectorEnd(at)) {
		return torn, nil
	}
	found, ok := s.batchHeader(b, at)
	if !ok {
		return 0, errors.New("the header of the batch is broken")
	}
	if torn > found.end {
		return 0, fmt.Errorf("the batch is broken, and data follows behind its end %d", found.end)
	}
	for from := sectorEnd(at); from < found.end; from += sectorBytes {
		if zeros(b, from, min(from+sectorBytes, found.end)) {
			return torn, nil
		}
	}
	if zeros(b, found.end-8, found.end) { // an error has cut the write short within a sector
		return torn, nil
	}
	return 0, errors.New("the checksum of the batch is wrong")
}

func sectorEnd(at int64) int64 { return (at/sectorBytes + 1) * sectorBytes }

// zeros reports whether a part of b is zeros. Behind the end of b everything is.
func zeros(b []byte, from, to int64) bool {
	from, to = min(from, int64(len(b))), min(to, int64(len(b)))
	return len(bytes.TrimLeft(b[from:to], "\x00")) == 0
}

type kind byte

const (
	kindEntry kind = 1 + iota
	kindHard       // index and term are commit and term, the data is the vote
	kindNext       // index is the sequence of the next file, the data its salt
)

// record is a record of a batch.
type record struct {
	kind        kind
	typ         byte
	index, term uint64
	data        []byte
}

func (r record) appendTo(b []byte) []byte {
	at := len(b)
	b = append(b, byte(r.kind), r.typ, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.data)))
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, r.index)
	b = binary.LittleEndian.AppendUint64(b, r.term)
	b = append(b, r.data...)
	binary.LittleEndian.PutUint32(b[at+8:], recordSum(b[at:]))
	return b
}

func recordSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:8], castagnoli), castagnoli, b[12:])
}

// recordLength is the length of the record that begins with head.
func recordLength(head []byte) int64 {
	return recordBytes + int64(binary.LittleEndian.Uint32(head[4:]))
}

// decodeRecord decodes b, which is one record. The data is not copied.
func decodeRecord(b []byte) (record, error) {
	if recordSum(b) != binary.LittleEndian.Uint32(b[8:]) {
		return record{}, errors.New("the checksum of a record is wrong")
	}
	return record{kind(b[0]), b[1], binary.LittleEndian.Uint64(b[12:]), binary.LittleEndian.Uint64(b[20:]),
		b[recordBytes:]}, nil
}

// records yields the records of a payload. What follows the last one has to be zeros.
func records(payload []byte, count int, yield func(record) error) error {
	for range count {
		if len(payload) < recordBytes || recordLength(payload) > int64(len(payload)) {
			return errors.New("a record does not fit into its batch")
		}
		n := recordLength(payload)
		r, err := decodeRecord(payload[:n])
		if err == nil {
			err = yield(r)
		}
		if err != nil {
			return err
		}
		payload = payload[n:]
	}
	if !zeros(payload, 0, int64(len(payload))) {
		return errors.New("data follows behind the last record of a batch")
	}
	return nil
}
