package conformance_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// apart are the modules that go.work leaves out: they import nothing of this repository and pin versions of
// their own. The last one stands for the module of a user.
var apart = []string{".ci/tools", ".ci/release", "conformance/bench/etcd", "deploy/test",
	"compat/go/standin/testdata/alone"}

// Users take the server's module by itself, so it must not need one of those inside it, nor a replacement.
// Every other module is in go.work.
func TestModules(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	misplaced := regexp.MustCompile(`(?m)^\s*(replace\b|(require )?` + module + `/).*`)
	if bad := misplaced.FindString(string(own)); bad != "" {
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

// Released programs are built with go.release.mod, so it has to name what was tested with go.mod, or newer versions.
// The newer ones may need other modules than the old.
func TestReleaseVersions(t *testing.T) {
	t.Parallel()
	lowest, released := required(t, "../go.mod"), required(t, "../go.release.mod")
	for module, version := range lowest {
		newer, is := released[module]
		if is && slices.Compare(numbersOf(t, newer.version), numbersOf(t, version.version)) < 0 {
			t.Errorf("go.release.mod has %s %s, go.mod has %s", module, newer.version, version.version)
		}
		if version.direct && !newer.direct {
			t.Errorf("go.mod requires %s, go.release.mod does not", module)
		}
	}
	for module, version := range released {
		if version.direct && !lowest[module].direct {
			t.Errorf("go.release.mod requires %s, go.mod does not", module)
		}
	}
}

var (
	otherDirective = regexp.MustCompile(`(?m)^(replace|exclude|retract|ignore|tool)\b.*`)
	requireLine    = regexp.MustCompile(`(?m)^(?:require )?\s*([a-z]\S*) (v\d\S*)( // indirect)?`)
	versionNumbers = regexp.MustCompile(`^v(\d+)\.(\d+)\.(\d+)(?:-(?:0\.)?(\d{14})-)?`)
)

// requirement is the version of a module that a go.mod file names.
type requirement struct {
	version string
	direct  bool // for a package of its own
}

// required returns the requirements of a go.mod file by module. It may have no directives beside these.
func required(t *testing.T, file string) map[string]requirement {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bad := otherDirective.FindString(string(text)); bad != "" {
		t.Errorf("%s has the line %q", file, bad)
	}
	versions := make(map[string]requirement)
	for _, match := range requireLine.FindAllStringSubmatch(string(text), -1) {
		versions[match[1]] = requirement{match[2], match[3] == ""}
	}
	return versions
}

// numbersOf returns the numbers of a version, which order versions: three, and the time of a pseudo-version.
func numbersOf(t *testing.T, version string) []int {
	t.Helper()
	match := versionNumbers.FindStringSubmatch(version)
	if match == nil {
		t.Fatalf("unknown form of a version: %q", version)
	}
	var numbers []int
	for _, digits := range match[1:] {
		n, err := strconv.Atoi("0" + digits)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// TestManifestsAreFresh wants deploy/manifests.yaml to be made of the present chart. `make deploy-test`, which needs
// Helm, compares the manifests themselves.
func TestManifestsAreFresh(t *testing.T) {
	t.Parallel()
	chart, hash := filepath.Join("..", "deploy", "chart"), sha256.New()
	err := filepath.WalkDir(chart, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		fmt.Fprintf(hash, "%s %x\n", filepath.ToSlash(strings.TrimPrefix(name, chart))[1:], sha256.Sum256(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile("../deploy/manifests.yaml")
	if want := fmt.Sprintf("# Checksum of the chart: %x\n", hash.Sum(nil)); err != nil || !bytes.Contains(made,
		[]byte(want)) {
		t.Errorf("deploy/manifests.yaml is not fresh: run make manifests (%v)", err)
	}
}

// TestNightly wants the nightly workflow to run programmes that there are.
func TestNightly(t *testing.T) {
	t.Parallel()
	workflow, err := os.ReadFile("../.github/workflows/nightly.yml")
	if err != nil {
		t.Fatal(err)
	}
	programmes, err := os.ReadFile("../.ci/long")
	if err != nil {
		t.Fatal(err)
	}
	targets := regexp.MustCompile(`(?m)^ +- (?:\{target: )?([a-z-]+)(?:$|,)`).FindAllSubmatch(workflow, -1)
	for _, target := range targets {
		if !bytes.Contains(programmes, []byte("\n"+string(target[1])+"() { ## ")) {
			t.Errorf(".ci/long has no %s", target[1])
		}
	}
	if len(targets) < 20 {
		t.Errorf("%d programmes", len(targets))
	}
}
