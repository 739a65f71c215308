package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLimitsPage wants every test and file that docs/limits.md names to exist, and every limit that the code
// names so to be in it.
func TestLimitsPage(t *testing.T) {
	page := readFile(t, "docs/limits.md")
	tests := testNames(t)
	for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(page, -1) {
		switch {
		case strings.HasPrefix(name[1], "Test") && !tests[name[1]]:
			t.Errorf("there is no %s", name[1])
		case strings.Contains(name[1], "/"):
			if _, err := os.Stat(filepath.Join(root, name[1])); err != nil {
				t.Error(err)
			}
		}
	}
	limits := regexp.MustCompile(`(?m)^\t([mM]ax[A-Z]\w+) += `)
	for _, file := range []string{"coordination/limits.go", "server/config.go", "server/hardening.go",
		"server/group/group.go", "server/group/streams/stream.go"} {
		for _, name := range limits.FindAllStringSubmatch(readFile(t, file), -1) {
			if !strings.Contains(page, "`"+name[1]+"`") {
				t.Errorf("docs/limits.md does not list %s of %s", name[1], file)
			}
		}
	}
}

// testNames is the names of all tests of the module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, name := range declared.FindAllStringSubmatch(string(content), -1) {
			names[name[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
