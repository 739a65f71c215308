package standin_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/raised.txt anew")

// TestRaisedVersions: a program that has its tests use the stand-in gets the versions of modules that this
// needs, also where it is built for production. The list is the cost for a program that has the SDK: other modules keep
// their versions.
func TestRaisedVersions(t *testing.T) {
	before, names := linked(t, filepath.Join("testdata", "alone"), "github.com/ydb-platform/ydb-go-sdk/v3")
	after, _ := linked(t, ".", "github.com/ydb-platform/ydb-go-sdk/v3",
		"github.com/coordd/coordd/server/standin")
	var raised strings.Builder
	for _, name := range names {
		if after[name] != before[name] {
			fmt.Fprintf(&raised, "%s %s => %s\n", name, before[name], after[name])
		}
	}
	t.Logf("of %d modules these are raised:\n%s", len(names), raised.String())
	const file = "testdata/raised.txt"
	if *update {
		if err := os.WriteFile(file, []byte(raised.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if raised.String() != string(want) {
		t.Errorf("raised are\n%swant\n%s(-update writes the list anew)", raised.String(), want)
	}
}

// linked are the modules that packages are in, with those that they import, as a module in a directory has
// them.
func linked(t *testing.T, dir string, packages ...string) (versions map[string]string, names []string) {
	t.Helper()
	const format = `{{with .Module}}{{.Path}} {{.Version}}{{end}}`
	command := exec.Command("go", append([]string{"list", "-deps", "-f", format}, packages...)...)
	command.Dir, command.Stderr = dir, os.Stderr
	command.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("list the modules of %s: %v", dir, err)
	}
	versions = make(map[string]string)
	for line := range strings.Lines(string(out)) {
		name, version, found := strings.Cut(strings.TrimSpace(line), " ")
		if found && versions[name] == "" {
			versions[name] = version
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		t.Fatalf("%s has no modules", dir)
	}
	return versions, names
}
