package wal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/rig"
)

const dir = "log"

var small = Options{Cluster: 3, Member: 7, SegmentBytes: 16 << 10}

// in returns the options of a log in a file system.
func (o Options) in(m files.FS) Options { o.Files = m; return o }

// model is the content that a log should have.
type model struct {
	base, baseTerm uint64 // the entry in front of the first since the log was emptied
	entries        []Entry
	hard           HardState
}

func (m model) last() uint64 { return m.base + uint64(len(m.entries)) }

func (m model) term(index uint64) uint64 {
	if index == m.base {
		return m.baseTerm
	}
	return m.entries[index-m.base-1].Term
}

func (m model) append(hard *HardState, entries []Entry) model {
	if len(entries) > 0 {
		m.entries = slices.Concat(m.entries[:entries[0].Index-m.base-1], entries)
	}
	if hard != nil {
		m.hard = *hard
	}
	return m
}

func (m model) reset(index, term uint64) model {
	if term > m.hard.Term {
		m.hard = HardState{Term: term}
	}
	m.hard.Commit = index
	return model{base: index, baseTerm: term, hard: m.hard}
}

func same(a, b Entry) bool {
	return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && bytes.Equal(a.Data, b.Data)
}

// bounds returns the first entry and the last one, which is first-1 if the log is empty.
func bounds(l *Log) (first, last uint64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.state.first, l.state.last
}

// differs returns in what a log differs from the model. The log may begin later, but not behind checkpoint+1.
func (m model) differs(l *Log, checkpoint uint64) error {
	first, last := bounds(l)
	switch {
	case l.state.hard != m.hard:
		return fmt.Errorf("hard state %+v, should be %+v", l.state.hard, m.hard)
	case last != m.last():
		return fmt.Errorf("ends at entry %d, should at %d", last, m.last())
	case first <= m.base || first > max(checkpoint, m.base)+1:
		return fmt.Errorf("begins at entry %d, reset at %d, checkpoint %d", first, m.base, checkpoint)
	case first > last:
		return nil
	}
	for index := first; index <= last; {
		got, err := l.Read(index, last+1, 3000)
		if err != nil {
			return err
		}
		for _, e := range got {
			if want := m.entries[index-m.base-1]; !same(e, want) {
				return fmt.Errorf("entry %d of term %d with %d bytes, should be of term %d with %d", e.Index, e.Term,
					len(e.Data), want.Term, len(want.Data))
			}
			index++
		}
	}
	before, runs := l.state.base, l.state.runs
	if before != 0 && before != m.term(first-1) || runs[0].Index != first {
		return fmt.Errorf("term %d in front of entry %d, runs %v", before, first, runs)
	}
	for i, r := range runs {
		if r.Term != m.term(r.Index) || i > 0 && r.Index > first && m.term(r.Index-1) == r.Term {
			return fmt.Errorf("terms %v", runs)
		}
	}
	return nil
}

// write returns what a raft may write next: the end of the log may be replaced as far as it is not committed.
func (m model) write(r *rand.Rand) (*HardState, []Entry) {
	hard, index := m.hard, m.last()+1
	if r.IntN(4) == 0 {
		hard.Term += uint64(r.IntN(3))
		hard.Vote = uint64(r.IntN(3))
		if hard.Term == m.hard.Term && m.hard.Vote != 0 {
			hard.Vote = m.hard.Vote
		}
		if r.IntN(2) == 0 && m.last() > hard.Commit {
			index -= r.Uint64N(min(m.last()-hard.Commit, 8) + 1)
		}
	}
	var entries []Entry
	for i := range r.IntN(5) {
		entries = append(entries, Entry{index + uint64(i), hard.Term, byte(r.IntN(3)), data(r)})
	}
	if index <= m.last() && len(entries) == 0 || hard == m.hard && len(entries) == 0 {
		return &hard, nil
	}
	next := m.append(&hard, entries)
	if next.last() > hard.Commit && r.IntN(2) == 0 {
		hard.Commit += r.Uint64N(next.last() - hard.Commit + 1)
	}
	if hard == m.hard {
		return nil, entries
	}
	return &hard, entries
}

func data(r *rand.Rand) []byte {
	b := make([]byte, []int{0, 10, 300, 1500, 20000}[r.IntN(24)/5])
	if r.IntN(2) == 0 { // mostly zeros otherwise
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	} else if len(b) > 0 {
		b[r.IntN(len(b))] = 1 << r.IntN(8)
	}
	return b
}

func open(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Cut has a goroutine of its own (the keeper of checkpoints), so it comes between any two steps of Append.
func TestCutBesideAppend(t *testing.T) { cutBeside(t, 0) }

// The same, with Reset, which removes files that Cut may have begun to remove, at times.
func TestCutBesideReset(t *testing.T) { cutBeside(t, 150) }

// A file that has no batch yet has no entries either. While the log is emptied it is not cut for that.
func TestCutWithinReset(t *testing.T) {
	m, o := rig.New("d"), small
	o.New = true
	l, err := Open("d", o.in(m))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(&HardState{Term: 1}, []Entry{{Index: 1, Term: 1}}); err != nil {
		t.Fatal(err)
	}
	cuts, within := 0, false
	m.Before = func(string, string) error {
		if within {
			return nil
		}
		within = true
		defer func() { within = false }()
		cuts++
		return l.Cut(100)
	}
	if err := l.Reset(50, 1); err != nil {
		t.Fatal(err)
	}
	if cuts == 0 {
		t.Error("no step of Reset was seen")
	}
	o.New, o.Checkpoint, o.CheckpointTerm = false, 50, 1
	again, err := Open("d", o.in(m))
	if err != nil {
		t.Fatal(err)
	}
	if first, last := bounds(again); first != 51 || last != 50 {
		t.Errorf("entries %d to %d", first, last)
	}
}

func cutBeside(t *testing.T, reset uint64) {
	dir, o := t.TempDir(), small
	o.New = true
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	cut := make(chan uint64, 1)
	go func() {
		defer close(done)
		for index := range cut {
			if err := l.Cut(index); err != nil {
				done <- err
			}
		}
	}()
	const entries = 2000
	o.New = false
	for index := uint64(1); index <= entries; index++ {
		hard := HardState{Term: 1, Commit: index - 1}
		if reset > 0 && index%reset == 0 {
			o.Checkpoint, o.CheckpointTerm = index, 1
			if err := l.Reset(index, 1); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := l.Append(&hard, []Entry{{Index: index, Term: 1, Data: make([]byte, 100)}}); err != nil {
			t.Fatal(err)
		}
		select {
		case cut <- index:
		default:
		}
	}
	close(cut)
	for err := range done {
		t.Error(err)
	}
	if first, last := bounds(l); first == 1 || last != entries {
		t.Errorf("entries %d to %d, want fewer, up to %d", first, last, entries)
	}
	first, _ := bounds(l)
	o.Checkpoint = max(o.Checkpoint, first-1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if f, n := bounds(again); f > first || n != entries {
		t.Errorf("after a restart entries %d to %d", f, n)
	}
	again.Close()
}

// Random writes, cuts, resets and restarts leave what a slice would have.
func TestModel(t *testing.T) {
	for seed := range uint64(15) {
		r, fs := rand.New(rand.NewPCG(seed, 1)), rig.New(dir)
		o := small.in(fs)
		o.New = true
		l, m := open(t, o), model{}
		o.New = false
		for step := range 80 {
			var err error
			switch r.IntN(16) {
			case 0:
				o.Checkpoint = max(o.Checkpoint, m.hard.Commit/2)
				err = l.Cut(o.Checkpoint + 1)
			case 1:
				o.Checkpoint = m.hard.Commit + r.Uint64N(10)
				m = m.reset(o.Checkpoint, m.hard.Term)
				err = l.Reset(o.Checkpoint, m.hard.Term)
			case 2, 3:
				err = l.Close()
				l = open(t, o)
			default:
				hard, entries := m.write(r)
				m = m.append(hard, entries)
				err = l.Append(hard, entries)
			}
			if err == nil {
				err = m.differs(l, o.Checkpoint)
			}
			if err != nil {
				t.Fatalf("seed %d, step %d: %v\n%v", seed, step, err, dump(fs))
			}
		}
		if names, _ := fs.List(dir); len(names) > 60 {
			t.Errorf("seed %d: %d files are left", seed, len(names))
		}
	}
}
