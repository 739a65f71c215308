package raftstore

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"

	hraft "github.com/hashicorp/raft"
	pb "go.etcd.io/raft/v3/raftpb"
)

func envelope(c entryCodec, index, term uint64, typ pb.EntryType, data []byte) []byte {
	var buf bytes.Buffer
	if err := c.Encode(&hraft.Log{Index: index, Term: term, Type: hraft.LogType(typ), Data: data},
		&buf); err != nil {
		panic(err)
	}
	return buf.Bytes()
}

func TestEnvelope(t *testing.T) {
	c := newEntryCodec(5)
	b := envelope(c, 7, 3, pb.EntryConfChange, []byte("hello"))
	e, err := c.decode(b)
	if err != nil || e.GetIndex() != 7 || e.GetTerm() != 3 || e.GetType() != pb.EntryConfChange ||
		string(e.GetData()) != "hello" {
		t.Fatalf("%v %v", e, err)
	}
	var l hraft.Log
	if err := c.Decode(b, &l); err != nil || l.Index != 7 || l.Term != 3 ||
		l.Type != hraft.LogType(pb.EntryConfChange) {
		t.Fatalf("%v %v", l, err)
	}
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			if _, err := c.decode(b); err == nil {
				t.Fatalf("bit %d of byte %d is not covered", bit, i)
			}
			b[i] ^= 1 << bit
		}
	}
	for n := range b {
		if c.Decode(b[:n], &l) == nil {
			t.Fatalf("%d bytes are enough", n)
		}
	}
	if _, err := newEntryCodec(6).decode(b); err == nil {
		t.Error("the entry of another member is accepted")
	}
	reseal := func(b []byte) []byte {
		binary.LittleEndian.PutUint32(b[4:], c.checksum(b, b[entryHeaderLen:]))
		return b
	}
	newer, strange := bytes.Clone(b), bytes.Clone(b)
	newer[0], strange[1] = entryFormat+1, 9
	for _, bad := range [][]byte{newer, strange} {
		if _, err := c.decode(reseal(bad)); err == nil {
			t.Errorf("accepted format %d type %d", bad[0], bad[1])
		}
	}
}

func FuzzEnvelope(f *testing.F) {
	c := newEntryCodec(5)
	f.Add(envelope(c, 7, 3, pb.EntryNormal, []byte("hello")))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := c.decode(b)
		if err != nil {
			return
		}
		if again := envelope(c, e.GetIndex(), e.GetTerm(), e.GetType(), e.GetData()); !bytes.Equal(b, again) {
			t.Fatalf("%x was read, it is written as %x", b, again)
		}
	})
}

// imageCodec is of the member whose segments segmentImage builds.
var imageCodec = newEntryCodec(5)

// segmentImage builds a segment of batches with the given numbers of entries.
func segmentImage(batches ...int) (b []byte, ends []int) {
	b = make([]byte, segmentHeaderLen)
	start, index := 0, uint64(0)
	for n, entries := range batches {
		for i := range entries {
			index++
			payload := envelope(imageCodec, index, 3, pb.EntryNormal, bytes.Repeat([]byte{byte(n + 1)}, 5*i+n))
			h := make([]byte, frameHeaderLen)
			h[0] = frameEntry
			binary.LittleEndian.PutUint32(h[4:], uint32(len(payload)))
			b = append(append(b, h...), payload...)
			for len(b)%frameHeaderLen != 0 {
				b = append(b, 0)
			}
		}
		h := make([]byte, frameHeaderLen)
		h[0] = frameCommit
		binary.LittleEndian.PutUint32(h[4:], crc32.Checksum(b[start:], castagnoli))
		b = append(b, h...)
		start = len(b)
		ends = append(ends, start)
	}
	return append(b, make([]byte, 256)...), ends
}

// TestFindIntactBatch breaks one batch of a segment in every byte: whatever is broken, a whole batch behind
// it is found and one before it is not lost.
func TestFindIntactBatch(t *testing.T) {
	good, ends := segmentImage(1, 3, 2, 1)
	if w := walkSegment(good); w.end != ends[3] || len(w.entries) != 7 || w.sealed {
		t.Fatalf("%+v", w)
	}
	for at := ends[0]; at < ends[3]; at++ {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[at] ^= 1 << bit
			w := walkSegment(b)
			broken := slices.IndexFunc(ends, func(end int) bool { return at < end })
			if w.end != ends[broken-1] {
				t.Fatalf("byte %d: intact up to %d", at, w.end)
			}
			start, found := findIntactBatch(b, w.end, imageCodec, uint64(len(w.entries)+1))
			if found != (broken < 3) || found && start != ends[broken] {
				t.Fatalf("byte %d bit %d in batch %d: found %v at %d", at, bit, broken, found, start)
			}
		}
	}
}

// TestClientDataIsNoBatch tears a write whose data looks like whole batches, at each alignment. A start takes it for a
// torn write all the same.
func TestClientDataIsNoBatch(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string]func(codec entryCodec, last uint64) []byte{
		"frames only":        func(entryCodec, uint64) []byte { return []byte("whatever") },
		"of another member":  func(_ entryCodec, last uint64) []byte { return envelope(imageCodec, last+2, 3, 0, nil) },
		"an entry of before": func(c entryCodec, last uint64) []byte { return envelope(c, last, 1, 0, nil) },
		"an index only":      func(entryCodec, uint64) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Dir: filepath.Join(t.TempDir(), "data"), Logger: noLog}
			s := open(t, cfg)
			r := start(t, s)
			term := r.lead(t)
			propose(t, r, term, "first")
			batch := make([]byte, frameHeaderLen)
			batch[0] = frameIndex
			if data := payload(newEntryCodec(s.Member()), r.last()); data != nil {
				batch[0] = frameEntry
				binary.LittleEndian.PutUint32(batch[4:], uint32(len(data)))
				batch = append(batch, data...)
			}
			batch = append(batch, frameCommit, 0, 0, 0)
			batch = binary.LittleEndian.AppendUint32(batch, crc32.Checksum(batch[:len(batch)-4], castagnoli))
			data := bytes.Repeat(append(batch, 0), 1000) // the next one is at another alignment
			propose(t, r, term, string(data))
			stop(t, s)
			files, err := filepath.Glob(filepath.Join(cfg.Dir, walDir, "*"+segmentSuffix))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			b, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			clear(b[bytes.LastIndex(b, data)+len(data)/2:])
			if err := os.WriteFile(files[0], b, 0o600); err != nil {
				t.Fatal(err)
			}
			s = open(t, cfg)
			r = start(t, s)
			r.lead(t)
			if got := r.commands(); !slices.Equal(got, []string{"first"}) {
				t.Errorf("%d commands are left", len(got))
			}
			stop(t, s)
		})
	}
}

func TestCRCShift(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewSource(seed))
	for range 200 {
		a, b := make([]byte, rng.Intn(3000)), make([]byte, rng.Intn(3000))
		rng.Read(a)
		rng.Read(b)
		want := crc32.Checksum(slices.Concat(a, b), castagnoli)
		if got := crcShift(crc32.Checksum(a, castagnoli), len(b)) ^ crc32.Checksum(b,
			castagnoli); got != want {
			t.Fatalf("seed %d: %d and %d bytes: %08x, want %08x", seed, len(a), len(b), got, want)
		}
	}
}

func FuzzScan(f *testing.F) {
	good, ends := segmentImage(1, 3, 2)
	f.Add(good)
	f.Add(good[:ends[1]+12])
	f.Add([]byte{frameEntry, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		w := walkSegment(b)
		if w.end > len(b) {
			t.Fatalf("end %d of %d", w.end, len(b))
		}
		for _, e := range w.entries {
			e.payload(b)
		}
		if start, found := findIntactBatch(b, w.end, imageCodec, uint64(len(w.entries)+1)); found {
			if _, _, _, ok := readBatch(b, start); start != 0 && !ok {
				t.Fatalf("batch at %d is not whole", start)
			}
		}
	})
}

// FuzzStateFile changes bytes of a real state.db: reading it gives an error or the same rows, and never
// panics.
func FuzzStateFile(f *testing.F) {
	dir, want, _ := damagedDir(f)
	good, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(16), byte(1), uint32(4096*3+10), byte(3))
	f.Add(uint32(4096*2+12), byte(255), uint32(0), byte(0))
	path := filepath.Join(f.TempDir(), stateFile)
	f.Fuzz(func(t *testing.T, at1 uint32, x1 byte, at2 uint32, x2 byte) {
		b := bytes.Clone(good)
		b[int(at1)%len(b)] ^= x1
		b[int(at2)%len(b)] ^= x2
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		img, err := loadState(filepath.Dir(path), want.identity, rowReader{})
		if err == nil && (img.meta.Index != want.state.Index || img.meta.Sum != want.state.Sum) {
			t.Fatalf("silently read %+v", img.meta)
		}
	})
}

func TestPrefixSet(t *testing.T) {
	s := newPrefixSet([]string{"b/", "a/", "d"})
	for key, want := range map[string]bool{"a": false, "a/": true, "a/x": true, "b/": true, "c": false,
		"dd": true, "": false, "e": false} {
		if s.covers([]byte(key)) != want {
			t.Errorf("%q covered: %v", key, !want)
		}
	}
	if got := newPrefixSet([]string{"ab", "aa", "b"}).with("c", "a", "bb"); !slices.Equal(got.sorted,
		[]string{"a", "b", "c"}) {
		t.Errorf("with shorter ones: %v", got)
	}
	if s = s.without("a/").without("zz"); s.covers([]byte("a/x")) {
		t.Error("still covered")
	}
	if first, ok := s.first(); !ok || first != "b/" {
		t.Errorf("first %q", first)
	}
}
