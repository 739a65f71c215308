package testmode

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The script .ci/test looks for declarations in this form, and runs the tests that it finds without the race detector.
// A test that declares it in another form would be skipped under the detector and left out without it.
var (
	declared = regexp.MustCompile(`testmode\.WithoutRace\(`)
	found    = regexp.MustCompile(`(?m)^func Test\w+\(t \*testing\.T\) \{\n\ttestmode\.WithoutRace\(t\)$`)
)

func TestDeclarationsAreFound(t *testing.T) {
	root := filepath.Join("..", "..")
	total := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all, good := len(declared.FindAll(source, -1)), len(found.FindAll(source, -1))
		if all != good {
			t.Errorf("%s: %d of %d calls of WithoutRace are not the first statement of a test", path, all-good, all)
		}
		total += good
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if total == 0 {
		t.Error("no test declares that it runs without the race detector")
	}
}

func TestWithoutRace(t *testing.T) {
	skipped := false
	t.Run("declared", func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		WithoutRace(t)
	})
	if skipped != Race {
		t.Errorf("skipped: %v, with the race detector: %v", skipped, Race)
	}
}
