package wal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"sync"
	"testing"

	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/rig"
)

// sound returns the files of some logs, and their options.
var sound = sync.OnceValue(func() (logs []*lives) {
	for seed := range uint64(8) {
		logs = append(logs, settled(&testing.B{}, seed))
	}
	return logs
})

// edited returns the files of a sound log with edits: three bytes place one, the fourth is XORed in. Checksums are
// made right again if the first byte is odd, so that what they cover is reached.
func edited(edits []byte) (*rig.Memory, Options) {
	g := sound()[int(edits[0]>>1)%len(sound())]
	m := g.fs.Clone()
	names := m.Paths()
	for e := edits[1:]; len(e) >= 4; e = e[4:] {
		content := m.Content(names[int(e[0])%len(names)])
		at := int(binary.LittleEndian.Uint16(e[1:])) % len(content)
		if e[0]&0x80 != 0 {
			at %= 512 // the header's fields, and the first batch
			if e[0]&0x40 != 0 {
				at = min(headerBytes+at, len(content)-1)
			}
		}
		content[at] ^= e[3]
	}
	if edits[0]&1 != 0 {
		for _, name := range names {
			reseal(name, m.Content(name))
		}
	}
	return m, g.o.in(m)
}

// reseal makes the checksums of a file right.
func reseal(name string, b []byte) {
	if len(b) < headerBytes {
		return
	}
	binary.LittleEndian.PutUint32(b[headerSum:], crc32.Checksum(b[:headerSum], castagnoli))
	h, ok := decodeHeader(b)
	f := newSegment(name, h)
	for at := int64(headerBytes); ok && at+batchHeaderBytes <= int64(len(b)); {
		found, _ := f.batchHeader(b, at)
		if found.end == at+batchHeaderBytes || found.end > int64(len(b)) {
			return
		}
		payload := b[at+batchHeaderBytes : found.end]
		f.pad.apply(payload, at+batchHeaderBytes)
		for rest := payload; len(rest) >= recordBytes && recordLength(rest) <= int64(len(rest)); {
			n := recordLength(rest)
			binary.LittleEndian.PutUint32(rest[8:], recordSum(rest[:n]))
			rest = rest[n:]
		}
		binary.LittleEndian.PutUint32(b[at+16:], crc32.Checksum(payload, castagnoli))
		f.pad.apply(payload, at+batchHeaderBytes)
		binary.LittleEndian.PutUint32(b[at+4:], f.headerSum(b[at:], at))
		at = found.end
	}
}

// A header with intact checksums whose numbers no log can have is refused.
func TestHugeIndex(t *testing.T) {
	for _, last := range []uint64{math.MaxUint64, math.MaxUint64 - 1, indexMax} {
		f := newSegment("", header{Cluster: 3, Member: 7, Sequence: 1, Reset: 1, Last: last})
		b := record{kindEntry, 0, last + 1, 0, nil}.appendTo(make([]byte, batchHeaderBytes))
		m := rig.New(dir)
		m.Put(dir+"/"+FileName(1), append(f.encode(), f.seal(b, 1, headerBytes)...))
		if _, err := Open(dir, small.in(m)); !errors.As(err, new(*files.DamageError)) {
			t.Errorf("%d: %v", last, err)
		}
	}
}

// FuzzOpen: whatever files there are, opening reads each byte a few times at most and does not panic. What it accepts
// can be read, was found by Inspect as well, and is there after a restart.
func FuzzOpen(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{2, 0x80, 40, 0, 1})
	f.Add([]byte{3, 0xc0, 12, 0, 7})
	f.Add([]byte{1, 0x81, 96, 0, 255, 0x81, 103, 0, 255})
	f.Add([]byte{255, 1, 2, 3})
	f.Fuzz(func(t *testing.T, edits []byte) {
		if len(edits) == 0 {
			return
		}
		m, o := rig.New(dir), small
		if edits[0] == 255 { // the content itself
			m.Put(dir+"/"+FileName(1), edits[1:])
			o = small.in(m)
			o.New = len(edits)%2 == 0
		} else {
			m, o = edited(edits)
		}
		size := int64(0)
		for _, name := range m.Paths() {
			size += int64(len(m.Content(name)))
		}
		s := newScan(dir, o)
		wrong := s.run()
		if s.work > 2*size+int64(len(s.found))*(headerBytes+batchHeaderBytes) {
			t.Fatalf("%d bytes read of %d", s.work, size)
		}
		report, err := Inspect(dir, o)
		if (err == nil) != (wrong == nil) {
			t.Fatalf("%v, then %v", wrong, err)
		}
		l, err := Open(dir, o)
		if (err == nil) != (wrong == nil) {
			t.Fatalf("the scan says %v, Open %v", wrong, err)
		}
		if err != nil {
			return
		}
		first, last := bounds(l)
		if report.Hard != l.state.hard && !o.New || report.First != first && !o.New || report.Last != last {
			t.Fatalf("the scan has found %+v, Open entries %d to %d", report, first, last)
		}
		if last >= first && last-first < 1<<20 {
			if got, err := l.Read(first, last+1, 1<<30); err != nil || uint64(len(got)) != last-first+1 {
				t.Fatal(len(got), err)
			}
		}
		again, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		if f, n := bounds(again); f != first || n != last || again.state.hard != l.state.hard {
			t.Fatalf("after a restart entries %d to %d", f, n)
		}
	})
}
