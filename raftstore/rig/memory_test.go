package rig

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/raftstore/files"
)

func TestMain(m *testing.M) { testmode.Pure(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func written(t *testing.T, m *Memory, path, content string, synced bool) files.File {
	t.Helper()
	f, err := m.Create(path)
	must(t, err)
	must(t, files.WriteAll(f, []byte(content), 0))
	if synced {
		must(t, f.Sync())
	}
	return f
}

// seen counts images by the content of a file; "" stands for a file that is missing or empty.
func seen(m *Memory, path string) map[string]int {
	contents := map[string]int{}
	for seed := range uint64(400) {
		content, err := files.Read(m.Crash(rand.New(rand.NewPCG(seed, 0))), path)
		if err != nil {
			content = nil
		}
		contents[string(content)]++
	}
	return contents
}

func wantSeen(t *testing.T, what string, seen map[string]int, want ...string) {
	t.Helper()
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("%s: images have %q, should have %q", what, got, want)
	}
}

// An image has what was synced, and all that may be there of the rest.
func TestCrash(t *testing.T) {
	m := New("d")
	written(t, m, "d/file", "old", true)
	wantSeen(t, "a name that is not durable", seen(m, "d/file"), "", "old")
	must(t, m.SyncDir("d"))
	wantSeen(t, "a durable file", seen(m, "d/file"), "old")

	written(t, m, "d/file.tmp", "new", true)
	must(t, m.Rename("d/file.tmp", "d/file"))
	wantSeen(t, "a file that was replaced", seen(m, "d/file"), "old", "new")
	must(t, m.SyncDir("d"))
	wantSeen(t, "a durable replacement", seen(m, "d/file"), "new")

	must(t, m.Remove("d/file"))
	wantSeen(t, "a file that was removed", seen(m, "d/file"), "new", "")
	must(t, m.MakeDir("d/sub"))
	written(t, m, "d/sub/file", "x", true)
	must(t, m.SyncDir("d/sub"))
	wantSeen(t, "a directory without a durable name", seen(m, "d/sub/file"), "x", "")
	if !slices.Equal(m.Removed(), []string{"d/file"}) {
		t.Errorf("removed: %v", m.Removed())
	}
	must(t, m.SyncDir("d"))
	m.Return("d/file")
	wantSeen(t, "a removed file that is back", seen(m, "d/file"), "new")
}

// Sectors of an unsynced write arrive in any order.
func TestTornWrites(t *testing.T) {
	m := New("d")
	f := written(t, m, "d/file", string(bytes.Repeat([]byte("a"), 3*sectorBytes)), true)
	must(t, m.SyncDir("d"))
	must(t, files.WriteAll(f, bytes.Repeat([]byte("b"), 3*sectorBytes), 0))
	torn := map[string]bool{}
	for content := range seen(m, "d/file") {
		kinds := ""
		for at := 0; at < 3*sectorBytes; at += sectorBytes {
			kinds += content[at : at+1]
			if len(bytes.Trim([]byte(content[at:at+sectorBytes]), content[at:at+1])) > 0 {
				t.Fatal("a write is torn within a sector")
			}
		}
		torn[kinds] = true
	}
	if len(torn) != 8 {
		t.Errorf("%v: not every subset of three sectors", torn)
	}
}

// A sync that fails leaves the data to the page cache, and no later one writes it.
func TestFailedSync(t *testing.T) {
	m := New("d")
	f := written(t, m, "d/file", "old", true)
	must(t, m.SyncDir("d"))
	must(t, files.WriteAll(f, []byte("new"), 0))
	m.Before = func(step, _ string) error {
		if step == "sync" {
			return syscall.EIO
		}
		return nil
	}
	if err := f.Sync(); !errors.Is(err, syscall.EIO) || !m.Lost() {
		t.Error(err, m.Lost())
	}
	m.Before = nil
	must(t, f.Sync())
	if content, err := files.Read(m, "d/file"); string(content) != "new" || err != nil {
		t.Errorf("%q, %v", content, err)
	}
	wantSeen(t, "a sync that failed", seen(m, "d/file"), "old")
}

// Write leaves the old file or the new one, whatever fails.
func TestReplacedFile(t *testing.T) {
	for _, fault := range Faults {
		for fail := 0; ; fail++ {
			m := New("d")
			must(t, files.Write(m, "d/file", []byte("old")))
			n, failed := 0, false
			m.Before = func(step, path string) error {
				failed = failed || n == fail
				if n++; n-1 == fail {
					return fault
				}
				return nil
			}
			err := files.Write(m, "d/file", []byte("new"))
			m.Before = nil
			if !failed {
				must(t, err)
				break
			}
			if err == nil {
				t.Errorf("%v at step %d goes unnoticed", fault, fail)
			}
			for content := range seen(m, "d/file") {
				if content != "old" && content != "new" {
					t.Errorf("%v at step %d leaves %q", fault, fail, content)
				}
			}
			must(t, files.Write(m, "d/file", []byte("next")))
			wantSeen(t, "written again", seen(m, "d/file"), "next")
		}
	}
}
