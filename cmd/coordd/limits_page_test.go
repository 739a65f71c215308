package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLimitsPage wants every file that docs/dev/limits.md names to exist, and every limit that the code names so to be
// in it.
func TestLimitsPage(t *testing.T) {
	page := readFile(t, "docs/dev/limits.md")
	for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(root, name[1])); err != nil && strings.Contains(name[1], "/") {
			t.Error(err)
		}
	}
	limits := regexp.MustCompile(`(?m)^\t([mM]ax[A-Z]\w+) += `)
	for _, file := range []string{"coordination/limits.go", "server/config.go", "server/hardening.go",
		"server/group/group.go", "server/group/streams/stream.go"} {
		for _, name := range limits.FindAllStringSubmatch(readFile(t, file), -1) {
			if !strings.Contains(page, "`"+name[1]+"`") {
				t.Errorf("docs/dev/limits.md does not list %s of %s", name[1], file)
			}
		}
	}
}
