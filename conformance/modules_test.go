package conformance_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// apart are the modules that go.work leaves out: they import nothing of this repository and pin versions of
// their own. The last one stands for the module of a user.
var apart = []string{".ci/tools", "conformance/bench/etcd", "compat/go/standin/testdata/alone"}

// Users take the server's module by itself, so it must not need one of those inside it, nor a replacement.
// Every other module is in go.work.
func TestModules(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if bad := regexp.MustCompile(`(?m)^\s*(replace\b|(require )?` + module + `/).*`).FindString(string(own)); bad != "" {
		t.Errorf("go.mod has the line %q", bad)
	}
	work, err := os.ReadFile("../go.work")
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[string]bool)
	for _, line := range strings.Split(string(work), "\n") {
		if folder, is := strings.CutPrefix(line, "\t"); is {
			used[filepath.Clean(folder)] = true
		}
	}
	err = filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "go.mod" {
			return err
		}
		folder, err := filepath.Rel("..", filepath.Dir(name))
		if listed := slices.Contains(apart, folder); used[folder] == listed {
			t.Errorf("module %s is in go.work: %v, is apart: %v", folder, used[folder], listed)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
