package raftstore

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

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
