package conformance

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var writeDifferences = flag.Bool("write-differences", false, "write docs/differences.md anew")

// TestDifferences wants docs/differences.md to be what the scripts and differences.txt say.
func TestDifferences(t *testing.T) {
	want, err := Differences(loadScripts(t))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("..", "docs", "differences.md")
	if *writeDifferences {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is out of date (%v): run make differences", file, err)
	}
}
