package raftstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft-wal/types"
)

// raft-wal's segment format, as far as the scan needs it: a file header, then frames of 8 bytes plus payload
// padded to 8. A batch is some entry frames, an index frame if it closes the segment, and a commit frame with
// the CRC32C of everything since the commit before (for the first batch: since the start of the file).
const (
	segmentHeaderLen = 32
	segmentMagic     = 0x58eb6b0d
	frameHeaderLen   = 8
	framePayloadMax  = 64 << 20

	frameEntry  = 1
	frameIndex  = 2
	frameCommit = 3
)

// frame is one decoded frame header with its place.
type frame struct {
	kind       byte
	start, end int // in the file; end is after the padding
	length     int // payload without padding; 0 for a commit
	crc        uint32
}

func (f frame) payload(b []byte) []byte {
	return b[f.start+frameHeaderLen : f.start+frameHeaderLen+f.length]
}

// readFrame decodes the frame at off; false if there is none that could have been written.
func readFrame(b []byte, off int) (frame, bool) {
	if off < 0 || off > len(b)-frameHeaderLen {
		return frame{}, false
	}
	f := frame{kind: b[off], start: off}
	if b[off+1] != 0 || b[off+2] != 0 || b[off+3] != 0 {
		return frame{}, false
	}
	word := binary.LittleEndian.Uint32(b[off+4:])
	switch f.kind {
	case frameEntry, frameIndex:
		if word > framePayloadMax {
			return frame{}, false
		}
		f.length = int(word)
	case frameCommit:
		f.crc = word
	default:
		return frame{}, false
	}
	f.end = off + frameHeaderLen + (f.length+frameHeaderLen-1)/frameHeaderLen*frameHeaderLen
	return f, f.end <= len(b)
}

// segmentWalk is what a segment holds up to the first thing that is not an intact batch.
type segmentWalk struct {
	entries    []frame
	end        int // after the last intact batch; 0 if there is none
	sealed     bool
	indexStart uint64 // offset of the index array, if sealed
}

// walkSegment reads intact batches from the start of a segment. It never fails: what follows end is judged by
// the caller, who knows whether the segment was finished.
func walkSegment(b []byte) segmentWalk {
	var w segmentWalk
	for !w.sealed {
		entries, index, end, ok := readBatch(b, w.end)
		if !ok {
			return w
		}
		all := append(w.entries, entries...)
		if index != nil {
			if !indexMatches(index.payload(b), all) {
				return w
			}
			w.sealed = true
			w.indexStart = uint64(index.start + frameHeaderLen)
		}
		w.entries, w.end = all, end
	}
	return w
}

// readBatch reads one batch that starts at start and checks its checksum.
func readBatch(b []byte, start int) (entries []frame, index *frame, end int, ok bool) {
	off := start
	if start == 0 {
		off = segmentHeaderLen
	}
	for {
		f, ok := readFrame(b, off)
		if !ok {
			return nil, nil, 0, false
		}
		off = f.end
		switch {
		case f.kind == frameCommit:
			return entries, index, f.end, crc32.Checksum(b[start:f.start], castagnoli) == f.crc
		case index != nil:
			return nil, nil, 0, false // nothing but the commit follows an index
		case f.kind == frameIndex:
			index = &f
		default:
			entries = append(entries, f)
		}
	}
}

// indexMatches compares a stored index with the places where the entries are.
func indexMatches(payload []byte, entries []frame) bool {
	if len(payload) != 4*len(entries) {
		return false
	}
	for i, e := range entries {
		if binary.LittleEndian.Uint32(payload[4*i:]) != uint32(e.start) {
			return false
		}
	}
	return true
}

// checkSegmentHeader compares the start of a segment with what the log's own description says about it.
func checkSegmentHeader(b []byte, info types.SegmentInfo) error {
	if len(b) < segmentHeaderLen {
		return fmt.Errorf("file of %d bytes is shorter than a segment header", len(b))
	}
	want := make([]byte, segmentHeaderLen)
	binary.LittleEndian.PutUint32(want, segmentMagic)
	binary.LittleEndian.PutUint64(want[8:], info.BaseIndex)
	binary.LittleEndian.PutUint64(want[16:], info.ID)
	binary.LittleEndian.PutUint64(want[24:], info.Codec)
	if !bytes.Equal(b[:segmentHeaderLen], want) {
		return fmt.Errorf("segment header is not that of segment %d from entry %d", info.ID, info.BaseIndex)
	}
	return nil
}

// firstNonZero returns the place of the first byte at or after from that is not zero; len(b) if there is
// none.
func firstNonZero(b []byte, from int) int {
	var zero [4096]byte
	for from < len(b) {
		n := min(len(zero), len(b)-from)
		if !bytes.Equal(b[from:from+n], zero[:n]) {
			for b[from] == 0 {
				from++
			}
			return from
		}
		from += n
	}
	return len(b)
}

// lastNonZero returns the end of the data in b, at least from.
func lastNonZero(b []byte, from int) int {
	end := len(b)
	for end > from && b[end-1] == 0 {
		end--
	}
	return end
}

// findIntactBatch looks behind a broken place for a whole batch with a matching checksum: proof that the
// broken place was followed by a later, completed write and is not the torn end of the log. raft-wal's frames
// are 8-byte aligned but a broken length hides where the next one begins, so every aligned place is tried.
// Data of clients may lie at any of them, and may look like frames. So a batch counts only if it consists of entries
// of this member, each with a matching checksum of its own, that have consecutive indexes after broken, the first
// index of the broken place. The index frame of a closed segment alone proves nothing.
// All that stays linear in the number of frames because a checksum is computed from two running checksums instead
// of from its bytes.
func findIntactBatch(b []byte, from int, codec entryCodec, broken uint64) (start int, found bool) {
	from -= from % frameHeaderLen
	end := lastNonZero(b, from)
	slots := (end - from + frameHeaderLen - 1) / frameHeaderLen
	if slots <= 0 {
		return 0, false
	}
	running := newRunningSums(b, from, slots)
	commitOf := make([]int32, slots) // slot of the commit the frames from here lead to, or -1
	for i := slots - 1; i >= 0; i-- {
		commitOf[i] = -1
		f, ok := readFrame(b, from+i*frameHeaderLen)
		if !ok {
			continue
		}
		if f.kind == frameCommit {
			commitOf[i] = int32(i)
			continue
		}
		next := (f.end - from) / frameHeaderLen
		if next >= slots || commitOf[next] < 0 {
			continue
		}
		switch follows := b[f.end]; {
		case f.kind == frameIndex && follows != frameCommit,
			f.kind == frameEntry && !running.holdsEntry(f, codec, broken),
			f.kind == frameEntry && follows == frameEntry && indexIn(b, f.end) != indexIn(b, f.start)+1:
		default:
			commitOf[i] = commitOf[next]
		}
	}
	for i := range slots {
		at := int(commitOf[i])
		if at < 0 || b[from+i*frameHeaderLen] != frameEntry {
			continue
		}
		stored := binary.LittleEndian.Uint32(b[from+at*frameHeaderLen+4:])
		if running.sum(i, at) == stored {
			return from + i*frameHeaderLen, true
		}
	}
	return 0, false
}

// runningSums are the checksums of a file from one place to each aligned place behind it.
type runningSums struct {
	b    []byte
	from int
	sums []uint32
}

func newRunningSums(b []byte, from, slots int) runningSums {
	r := runningSums{b, from, make([]uint32, slots+1)}
	padded := b[from:min(len(b), from+slots*frameHeaderLen)]
	for i := range slots {
		r.sums[i+1] = crc32.Update(r.sums[i], castagnoli,
			padded[i*frameHeaderLen:min(len(padded), (i+1)*frameHeaderLen)])
	}
	return r
}

// sum is the checksum of the bytes between two aligned places.
func (r runningSums) sum(slot, end int) uint32 {
	return r.sums[end] ^ crcShift(r.sums[slot], (end-slot)*frameHeaderLen)
}

// holdsEntry is codec.check for the entry in a frame. The entry has to be one that can follow entry broken here.
func (r runningSums) holdsEntry(f frame, codec entryCodec, broken uint64) bool {
	if f.length < entryHeaderLen {
		return false
	}
	envelope := f.payload(r.b)
	if index := indexIn(r.b, f.start); checkKind(envelope) != nil || index <= broken ||
		index-broken > uint64(len(r.sums)) {
		return false
	}
	const checked = frameHeaderLen // of the envelope: the checksum, and the format before it
	slot := (f.start+frameHeaderLen-r.from)/frameHeaderLen + 1
	end := slot + (f.length-checked)/frameHeaderLen
	rest := crc32.Update(r.sum(slot, end), castagnoli, envelope[checked+(end-slot)*frameHeaderLen:])
	head := crc32.Update(codec.seed, castagnoli, envelope[:4])
	return crcShift(head, f.length-checked)^rest == binary.LittleEndian.Uint32(envelope[4:])
}

// indexIn is the index of the entry in a frame that holds one.
func indexIn(b []byte, frame int) uint64 {
	return binary.LittleEndian.Uint64(b[frame+frameHeaderLen+8:])
}

// crcShift returns what a CRC32C becomes when n zero bytes worth of message follow, without the conditioning
// of those bytes: crc(ab) = crcShift(crc(a), len(b)) ^ crc(b).
func crcShift(crc uint32, n int) uint32 {
	for bit := 0; n > 0; bit, n = bit+1, n>>1 {
		if n&1 != 0 {
			crc = crcShiftTables[bit].apply(crc)
		}
	}
	return crc
}

// crcOperator is a linear map on checksums, one row for each bit.
type crcOperator [32]uint32

func (m *crcOperator) apply(v uint32) uint32 {
	var out uint32
	for i := 0; v != 0; i, v = i+1, v>>1 {
		if v&1 != 0 {
			out ^= m[i]
		}
	}
	return out
}

// crcShiftTables[k] shifts by 2^k bytes.
var crcShiftTables = func() (tables [32]crcOperator) {
	var bit crcOperator // shift by one zero bit
	bit[0] = crc32.Castagnoli
	for i := 1; i < 32; i++ {
		bit[i] = 1 << (i - 1)
	}
	square := func(m crcOperator) (out crcOperator) {
		for i := range m {
			out[i] = m.apply(m[i])
		}
		return out
	}
	tables[0] = square(square(square(bit)))
	for k := 1; k < len(tables); k++ {
		tables[k] = square(tables[k-1])
	}
	return tables
}()
