package world

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mark whose message was changed would never be reached again.
func TestMarksAreMessages(t *testing.T) {
	var sources strings.Builder
	for _, pattern := range []string{"raftstore/*.go", "raftstore/*/*.go", "server/*/*.go", "server/*/*/*.go",
		"conformance/sim/world/faults.go"} {
		names, err := filepath.Glob(filepath.Join("../../..", pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(names), err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sources.Write(text)
		}
	}
	for _, mark := range marks {
		if !strings.Contains(sources.String(), `"`+mark+`"`) {
			t.Errorf("no source has the message %q", mark)
		}
	}
}
