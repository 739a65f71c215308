package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestPatchesFit wants each patch to fit the Go that runs this, if that is of the line that they were made for.
func TestPatchesFit(t *testing.T) {
	if err := checkVersion(runtime.Version(), runtime.GOOS); err != nil {
		t.Skip(err)
	}
	folder := t.TempDir()
	if err := write(folder, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "overlay.json")); err != nil {
		t.Error(err)
	}
}

func TestPatchThatDoesNotFit(t *testing.T) {
	read := func(file string) (string, error) {
		if file == "gone.go" {
			return "", os.ErrNotExist
		}
		return "a b b", nil
	}
	texts, err := apply([]patch{{"one", "x.go", "a", "c"}, {"two", "x.go", "c b b", "d"}}, read)
	if err != nil || texts["x.go"] != "d" {
		t.Errorf("two patches of a file: %v, %v", texts, err)
	}
	_, err = apply([]patch{{"A lock has an owner.", "x.go", "b", "c"}, {"", "x.go", "e", "f"},
		{"", "gone.go", "g", "h"}}, read)
	if !errors.Is(err, errUnknown) {
		t.Fatal(err)
	}
	for _, part := range []string{"there 2 times", "A lock has an owner", "there 0 times", os.ErrNotExist.Error()} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("not in the error: %s\n%v", part, err)
		}
	}
}

func TestUnknownVersion(t *testing.T) {
	for version, fits := range map[string]bool{"go1.26": true, "go1.26.8": true, "go1.25.3": false, "go1.27rc1": false,
		"go1.260": false, "devel go1.27-abc": false} {
		err := checkVersion(version, "linux")
		if (err == nil) != fits || err != nil && !strings.Contains(err.Error(), version) {
			t.Errorf("%s: %v", version, err)
		}
	}
	if checkVersion(checked, "darwin") == nil {
		t.Error("fits darwin")
	}
}

func TestTextThatIsNoPatch(t *testing.T) {
	if _, err := parse("# why\nfile: x\n<<<<\na\n====\nb\n>>>>\n\nfile: y\n"); err == nil {
		t.Error("taken")
	}
}
