package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrittenOrNot(t *testing.T) {
	name := filepath.Join(t.TempDir(), "trace")
	file, err := Create(name)
	if err != nil {
		t.Fatal(err)
	}
	silent, written := New(nil, "/dir/7"), New(file, "/dir/8")
	written.begun = silent.begun
	note := func(to *Trace, dir string) {
		to.mutex.Lock()
		defer to.mutex.Unlock()
		to.line(12, to.constant("s1 cannot open "+dir+"/wal:  not there"))
		to.segment(13, "a>b", "b", []byte("data"))
	}
	note(silent, "/dir/7")
	note(written, "/dir/8")
	if silent.Hash() != written.Hash() {
		t.Error("what is written, or the folder, is in the hash")
	}
	allocated := func(by *Trace) float64 {
		return testing.AllocsPerRun(100, func() { by.segment(14, "a>b", "b", []byte("data")) })
	}
	if n := allocated(written) - allocated(silent); n != 0 {
		t.Errorf("%v allocations more for a segment that is written", n)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if want := "          12 s1 cannot open DIR/wal: not there\n          13 send a>b by b 4 12e3c4d4\n"; err != nil ||
		!strings.HasPrefix(string(text), want[:60]) || strings.ContainsRune(string(text), 0) {
		t.Errorf("%q, %v", text[:min(len(text), 200)], err)
	}
}
