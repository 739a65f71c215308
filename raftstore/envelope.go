package raftstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	hraft "github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	pb "go.etcd.io/raft/v3/raftpb"
)

// The envelope of one log entry, little-endian; it is the payload of one raft-wal entry frame.
//
//	0       1       2               4               8
//	+-------+-------+---------------+---------------+
//	| format| type  | 0             | CRC32C        |
//	+-------+-------+---------------+---------------+
//	| index                                         |
//	+-----------------------------------------------+
//	| term                                          |
//	+-----------------------------------------------+
//	| data ...
//
// The checksum runs over the member id, then everything but itself. The member id is in it so that a file of
// another member does not fit, and so that findIntactBatch takes no data for an entry unless the client that sent
// it knows the id.
const (
	entryFormat    = 1
	entryHeaderLen = 24
)

// entryCodecID tells raft-wal, and our scan, that segments hold this envelope.
const entryCodecID = wal.FirstExternalCodecID + entryFormat

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entryCodec turns entries into envelopes and back. It is raft-wal's codec, so an entry is wrapped only once.
type entryCodec struct {
	seed uint32 // checksum of the member id
}

func newEntryCodec(member uint64) entryCodec {
	var id [8]byte
	binary.LittleEndian.PutUint64(id[:], member)
	return entryCodec{seed: crc32.Checksum(id[:], castagnoli)}
}

// ID implements wal.Codec.
func (c entryCodec) ID() uint64 { return entryCodecID }

// Encode implements wal.Codec. Log.Type carries raft's entry type.
func (c entryCodec) Encode(l *hraft.Log, w io.Writer) error {
	var envelope []byte
	if b, is := w.(*bytes.Buffer); is { // as the library has it: room is made once, and there
		b.Grow(entryHeaderLen + len(l.Data))
		envelope = b.AvailableBuffer()
	}
	_, err := w.Write(c.appendTo(envelope, l))
	return err
}

// appendTo appends the envelope of an entry.
func (c entryCodec) appendTo(b []byte, l *hraft.Log) []byte {
	var h [entryHeaderLen]byte
	h[0] = entryFormat
	h[1] = byte(l.Type)
	binary.LittleEndian.PutUint64(h[8:], l.Index)
	binary.LittleEndian.PutUint64(h[16:], l.Term)
	binary.LittleEndian.PutUint32(h[4:], c.checksum(h[:], l.Data))
	return append(append(b, h[:]...), l.Data...)
}

// Decode implements wal.Codec. The data is a copy.
func (c entryCodec) Decode(b []byte, l *hraft.Log) error {
	e, err := c.decode(b)
	if err != nil {
		return err
	}
	*l = hraft.Log{Index: e.GetIndex(), Term: e.GetTerm(), Type: hraft.LogType(e.GetType()),
		Data: e.GetData()}
	return nil
}

// check checks an envelope and returns the place of its entry.
func (c entryCodec) check(b []byte) (index, term uint64, err error) {
	if len(b) < entryHeaderLen {
		return 0, 0, fmt.Errorf("entry of %d bytes is shorter than its header", len(b))
	}
	if want, got := binary.LittleEndian.Uint32(b[4:]), c.checksum(b, b[entryHeaderLen:]); want != got {
		return 0, 0, fmt.Errorf("checksum %08x, stored %08x", got, want)
	}
	if err := checkKind(b); err != nil {
		return 0, 0, err
	}
	return binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), nil
}

// checkKind checks the format and the type in an envelope.
func checkKind(b []byte) error {
	if b[0] != entryFormat {
		return fmt.Errorf("unknown entry format %d", b[0])
	}
	if typ := pb.EntryType(b[1]); typ < pb.EntryNormal || typ > pb.EntryConfChangeV2 {
		return fmt.Errorf("unknown entry type %d", b[1])
	}
	return nil
}

// decode checks an envelope and copies the entry out of it.
func (c entryCodec) decode(b []byte) (*pb.Entry, error) {
	index, term, err := c.check(b)
	if err != nil {
		return nil, err
	}
	return entryIn(b, index, term), nil
}

// entryIn copies the entry out of an envelope that was checked.
func entryIn(b []byte, index, term uint64) *pb.Entry {
	e := &pb.Entry{Index: &index, Term: &term, Type: pb.EntryType(b[1]).Enum()}
	if data := b[entryHeaderLen:]; len(data) > 0 {
		e.Data = append([]byte(nil), data...)
	}
	return e
}

func (c entryCodec) checksum(header, data []byte) uint32 {
	sum := crc32.Update(c.seed, castagnoli, header[:4])
	sum = crc32.Update(sum, castagnoli, header[8:entryHeaderLen])
	return crc32.Update(sum, castagnoli, data)
}

// sealed puts a checksum in front of a small stored value; unseal checks and removes it.
func sealed(value []byte) []byte {
	out := make([]byte, 4, 4+len(value))
	binary.LittleEndian.PutUint32(out, crc32.Checksum(value, castagnoli))
	return append(out, value...)
}

func unseal(stored []byte) ([]byte, error) {
	if len(stored) < 4 {
		return nil, fmt.Errorf("value of %d bytes is too short", len(stored))
	}
	if want, got := binary.LittleEndian.Uint32(stored), crc32.Checksum(stored[4:], castagnoli); want != got {
		return nil, fmt.Errorf("checksum %08x, stored %08x", got, want)
	}
	return stored[4:], nil
}
