package raftstore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/memory"
)

// TestMemoryIsKept stops a store in memory before and behind a checkpoint, and behind one that drops rows:
// the next one with the same Memory has what was acknowledged, and is the same member. A checkpoint that is
// not asked for again costs no entries: the log is cut behind it.
func TestMemoryIsKept(t *testing.T) {
	kept, starts := new(memory.Kept), 0
	reopen := func(wantRows map[string]string, wantCommands ...string) (*recorder, uint64, *Store) {
		t.Helper()
		cfg := smallConfig("")
		cfg.InMemory, cfg.Memory, cfg.TailEntriesKept = true, kept, 1
		loaded := make(map[string]string)
		cfg.Load = func(key, value []byte) error { loaded[string(key)] = string(value); return nil }
		s := open(t, cfg)
		if !maps.Equal(loaded, wantRows) || !maps.Equal(rowsOf(t, s), wantRows) {
			t.Fatalf("rows %v, %v; want %v", loaded, rowsOf(t, s), wantRows)
		}
		if _, err := Open(t.Context(), cfg); !errors.Is(err, datadir.ErrLocked) {
			t.Fatalf("a second store with the same memory: %v", err)
		}
		r := start(t, s)
		term := r.lead(t)
		starts++
		opened := fmt.Sprint("opened-", starts)
		propose(t, r, term, opened)
		if got := r.commands(); !slices.Equal(got, append(wantCommands, opened)) {
			t.Fatalf("commands %v, want %v", got, wantCommands)
		}
		return r, term, s
	}

	r, term, s := reopen(nil)
	member := s.Member()
	propose(t, r, term, "a", "b")
	stop(t, s)

	r, term, s = reopen(nil, "opened-1", "a", "b")
	takeCheckpoint(t, r, row("x/1", "1"), row("x/2", "2"), row("y", "3"))
	propose(t, r, term, "c")
	stop(t, s)

	r, term, s = reopen(map[string]string{"x/1": "1", "x/2": "2", "y": "3"}, "c")
	index := r.last()
	w := s.Checkpoints.Begin(index)
	w.DeletePrefix([]byte("x/"))
	w.Put([]Row{row("z", "4"), {Key: []byte("y"), Delete: true}, row("x/3", "late")})
	w.Finish()
	r.waitCheckpoint(t, index)
	propose(t, r, term, "d")
	stop(t, s)

	_, _, s = reopen(map[string]string{"z": "4"}, "d")
	if s.Member() != member {
		t.Error("it is another member")
	}
	stop(t, s)
	if img := kept.Image(); img.Last > img.First+7 {
		t.Errorf("entries %d to %d are kept behind the checkpoints", img.First, img.Last)
	}
}
