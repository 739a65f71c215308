package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/coordd/coordd/raftstore/files"
)

// These attacks broke a first sketch of this log, which named files by their first entry, repeated the hard state by a
// write of its own, wiped what was torn, and had no salt. They go through the operating system's files.

func onDisk(t *testing.T) (string, Options) {
	return t.TempDir(), Options{Cluster: 3, Member: 7, SegmentBytes: 8 << 10, New: true}
}

// filled returns a closed log with entries of some size, and what it holds.
func filled(t *testing.T, dir string, o Options, n uint64, size int) (Options, model) {
	t.Helper()
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	var m model
	for i := uint64(1); i <= n; i++ {
		m = appended(t, l, m, HardState{Term: 9, Vote: 2, Commit: i - 1}, ent(i, 9, size))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	o.New = false
	return o, m
}

func ent(i, term uint64, n int) Entry { return Entry{i, term, 0, bytes.Repeat([]byte{byte(i)}, n)} }

func appended(t *testing.T, l *Log, m model, hard HardState, entries ...Entry) model {
	t.Helper()
	if err := l.Append(&hard, entries); err != nil {
		t.Fatal(err)
	}
	return m.append(&hard, entries)
}

// reopened wants the log to be what the model is.
func reopened(t *testing.T, dir string, o Options, m model) *Log {
	t.Helper()
	l, err := Open(dir, o)
	if err == nil {
		t.Cleanup(func() { l.Close() })
		err = m.differs(l, o.Checkpoint)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func refused(t *testing.T, dir string, o Options) {
	t.Helper()
	if l, err := Open(dir, o); !errors.As(err, new(*files.DamageError)) {
		first, last := bounds(l)
		t.Fatalf("opened with %v, entries %d to %d", err, first, last)
	}
}

func filesIn(t *testing.T, dir string) []string {
	names, err := filepath.Glob(filepath.Join(dir, "*"+Suffix))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	return names
}

// A new leader replaces nearly everything, over several files.
func TestAttackReplacedFiles(t *testing.T) {
	dir, o := onDisk(t)
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	var m model
	for i := uint64(1); i <= 30; i++ {
		m = appended(t, l, m, HardState{Term: 1}, ent(i, 1, 600))
	}
	for i := uint64(3); i <= 40; i++ {
		m = appended(t, l, m, HardState{Term: 2}, ent(i, 2, 600))
	}
	l.Close()
	reopened(t, dir, o, m)
}

// A crash between the header of a file and its first batch, then the older files go: the vote is still there.
func TestAttackForgottenVote(t *testing.T) {
	dir, o := onDisk(t)
	o, m := filled(t, dir, o, 1, 3000)
	l := reopened(t, dir, o, m) // with a new file, which has a header only
	m = appended(t, l, m, HardState{Term: 9, Vote: 2, Commit: 1}, ent(2, 9, 100))
	o.Checkpoint = 1
	if err := l.Cut(2); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if names := filesIn(t, dir); len(names) != 1 {
		t.Errorf("%v are left", names)
	}
	reopened(t, dir, o, m)
}

// The youngest file with entries is lost, the youngest of all, or every file.
func TestAttackLostFiles(t *testing.T) {
	for _, which := range []string{"last", "last with entries", "all"} {
		dir, o := onDisk(t)
		o, _ = filled(t, dir, o, 12, 900)
		names := filesIn(t, dir)
		switch which {
		case "last":
			names = names[len(names)-1:]
		case "last with entries":
			report, err := Inspect(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range report.Files {
				if f.Last == report.Last {
					names = []string{filepath.Join(dir, f.Name)}
				}
			}
		}
		for _, name := range names {
			os.Remove(name)
		}
		refused(t, dir, o)
	}
}

// A flipped bit of the last acknowledged batch is found, wherever it is, also of data that is zeros but for one bit.
func TestAttackFlippedBit(t *testing.T) {
	dir, o := onDisk(t)
	o, m := filled(t, dir, o, 2, 10)
	l := reopened(t, dir, o, m)
	sparse := make([]byte, 2000)
	for i := 100; i < len(sparse); i += 512 {
		sparse[i] = 1
	}
	appended(t, l, m, m.hard, Entry{3, 9, 0, sparse})
	l.Close()
	f := l.current()
	whole, err := os.ReadFile(f.name)
	if err != nil {
		t.Fatal(err)
	}
	for at := int64(headerBytes); at < f.end; at += 1 + at/4500*6 {
		flipped := bytes.Clone(whole)
		flipped[at] ^= 1 << (at % 8)
		if err := os.WriteFile(f.name, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, o)
	}
}

// Data of a client is full of batch headers, and the write is torn: the scan stays linear, and finds a torn write.
// A write that an error has cut short after any of its words is dropped.
func TestAttackShortWrite(t *testing.T) {
	for _, size := range []int{0, 8, 24, 100, 700} {
		dir, o := onDisk(t)
		o, m := filled(t, dir, o, 3, 50)
		l := reopened(t, dir, o, m)
		m = appended(t, l, m, HardState{Term: 9, Vote: 2, Commit: 3}, ent(4, 9, 50))
		file, from := l.current().name, l.current().end
		appended(t, l, m, HardState{Term: 9, Vote: 2, Commit: 4}, ent(5, 9, size))
		to := l.current().end
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		for cut := from; cut < to; cut += 8 {
			torn := t.TempDir()
			if err := os.CopyFS(torn, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(filepath.Join(torn, filepath.Base(file)), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteAt(make([]byte, to-cut), cut)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			again, err := Open(torn, o)
			if err == nil {
				err = errors.Join(m.differs(again, o.Checkpoint), again.Close())
			}
			if err != nil {
				t.Errorf("%d of %d bytes of the last batch: %v", cut-from, to-from, err)
			}
		}
	}
}

func TestAttackHeadersInData(t *testing.T) {
	dir, o := onDisk(t)
	o, m := filled(t, dir, o, 1, 100)
	l := reopened(t, dir, o, m)
	data := make([]byte, 1<<20)
	for i := 0; i+8 <= len(data); i += 8 {
		binary.LittleEndian.PutUint32(data[i:], batchMagic)
		binary.LittleEndian.PutUint32(data[i+4:], uint32(max(8, len(data)-i-16)))
	}
	appended(t, l, m, m.hard, Entry{2, 9, 0, data})
	l.Close()
	whole, err := os.ReadFile(l.current().name)
	if err != nil {
		t.Fatal(err)
	}
	clear(whole[headerBytes : headerBytes+sectorBytes])
	if err := os.WriteFile(l.current().name, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newScan(dir, o)
	if err := s.run(); err != nil || s.work > 2*int64(len(whole))+headerBytes+batchHeaderBytes {
		t.Fatalf("%d bytes read, %v", s.work, err)
	}
	reopened(t, dir, o, m)
}

// Data of a client would be zeros as written, or a batch header, if the client knew the salt.
func TestAttackKnownPad(t *testing.T) {
	dir, o := onDisk(t)
	o, m := filled(t, dir, o, 1, 100)
	l := reopened(t, dir, o, m)
	known := salt{}.pad()
	data := make([]byte, 8192)
	known.apply(data, l.current().end+batchHeaderBytes+recordBytes)
	appended(t, l, m, m.hard, Entry{2, 9, 0, data})
	l.Close()
	f := l.current()
	whole, err := os.ReadFile(f.name)
	if err != nil {
		t.Fatal(err)
	}
	whole[headerBytes+batchHeaderBytes+7] ^= 1
	if err := os.WriteFile(f.name, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, o)
}

// A batch counts only in its file, and at its place.
func TestBatchIsTiedToItsPlace(t *testing.T) {
	f, other := newSegment("", header{Salt: salt{1}}), newSegment("", header{Salt: salt{2}})
	b := make([]byte, headerBytes, 2*headerBytes)
	b = append(b, f.seal(record{kindEntry, 0, 1, 1, nil}.appendTo(make([]byte, batchHeaderBytes)), 1, headerBytes)...)
	if _, ok := f.batchHeader(b, headerBytes); !ok {
		t.Error("the batch is broken")
	}
	if _, ok := other.batchHeader(b, headerBytes); ok {
		t.Error("it counts in another file")
	}
	if _, ok := f.batchHeader(b[batchHeaderBytes:], headerBytes-batchHeaderBytes); ok {
		t.Error("it counts elsewhere")
	}
}

// A byte changes after the start: Read finds it.
func TestAttackReadChecks(t *testing.T) {
	dir, o := onDisk(t)
	o, m := filled(t, dir, o, 1, 100)
	l := reopened(t, dir, o, m)
	r := l.state.refs[0]
	file, err := os.OpenFile(r.segment.name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	for at := r.at; at < r.at+recordBytes+100; at++ {
		var b [1]byte
		file.ReadAt(b[:], at)
		file.WriteAt([]byte{b[0] ^ 4}, at)
		if got, err := l.Read(1, 2, 1<<20); !errors.As(err, new(*files.DamageError)) {
			t.Errorf("byte %d: %v, %v", at, got, err)
		}
		file.WriteAt(b[:], at)
	}
	file.Close()
	if _, err := l.Read(1, 2, 1<<20); err != nil {
		t.Error(err)
	}
}

// Files of an earlier life come back in front of a log that was emptied.
func TestAttackStaleFiles(t *testing.T) {
	dir, o := onDisk(t)
	o, m := filled(t, dir, o, 5, 50)
	old := map[string][]byte{}
	for _, name := range filesIn(t, dir) {
		old[name], _ = os.ReadFile(name)
	}
	l := reopened(t, dir, o, m)
	o.Checkpoint = 8
	if err := l.Reset(8, 9); err != nil {
		t.Fatal(err)
	}
	m = appended(t, l, m.reset(8, 9), HardState{Term: 11, Vote: 3, Commit: 8}, ent(9, 11, 50))
	l.Close()
	for name, content := range old {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l = reopened(t, dir, o, m)
	if first, _ := bounds(l); first != 9 {
		t.Errorf("begins at %d", first)
	}
	if _, err := l.Read(1, 10, 100); !errors.Is(err, ErrCut) {
		t.Error(err)
	}
}

// What contradicts the log is refused, and the log goes on.
func TestRefusedWrites(t *testing.T) {
	dir, o := onDisk(t)
	o, m := filled(t, dir, o, 5, 50)
	l := reopened(t, dir, o, m)
	for name, call := range map[string]func() error{
		"a gap":                   func() error { return l.Append(nil, []Entry{ent(7, 9, 1)}) },
		"a gap between entries":   func() error { return l.Append(nil, []Entry{ent(6, 9, 1), ent(8, 9, 1)}) },
		"a committed entry":       func() error { return l.Append(nil, []Entry{ent(4, 9, 1)}) },
		"a lower term":            func() error { return l.Append(nil, []Entry{ent(6, 8, 1)}) },
		"a term above the state":  func() error { return l.Append(nil, []Entry{ent(6, 10, 1)}) },
		"a lower stored term":     func() error { return l.Append(&HardState{8, 2, 4}, nil) },
		"another vote":            func() error { return l.Append(&HardState{9, 3, 4}, nil) },
		"a lower commit":          func() error { return l.Append(&HardState{9, 2, 3}, nil) },
		"a commit behind the end": func() error { return l.Append(&HardState{9, 2, 6}, nil) },
		"a reset below a commit":  func() error { return l.Reset(3, 9) },
	} {
		if call() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	m = appended(t, l, m, HardState{9, 2, 6}, ent(6, 9, 1))
	l.Close()
	reopened(t, dir, o, m)
}
