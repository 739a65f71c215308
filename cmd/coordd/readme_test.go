package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/serve"
)

// root is the top of the repository, seen from this package.
const root = "../.."

func readFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// readmeLines bounds README.md: a visitor reads one screen, perhaps two.
const readmeLines = 120

// TestReadmeLength keeps README.md short.
func TestReadmeLength(t *testing.T) {
	if lines := strings.Count(readFile(t, "README.md"), "\n"); lines > readmeLines {
		t.Errorf("README.md has %d lines, at most %d are wanted", lines, readmeLines)
	}
}

// TestReadmePrograms wants the programs in compat/go/README.md and docs/start.md, and each line of the one in
// README.md, to be in the SDK tests, which run them.
func TestReadmePrograms(t *testing.T) {
	program := readFile(t, "compat/go/examples/quickstart/main.go")
	if !strings.Contains(readFile(t, "compat/go/README.md"), "```go\n"+program+"```\n") {
		t.Error("the Go program in compat/go/README.md is not compat/go/examples/quickstart/main.go")
	}
	_, block, _ := strings.Cut(readFile(t, "docs/start.md"), "```go\n")
	if block, _, found := strings.Cut(block, "```\n"); !found || !strings.Contains(program, block) {
		t.Error("the Go program in docs/start.md is not in compat/go/examples/quickstart/main.go")
	}
	_, block, _ = strings.Cut(readFile(t, "README.md"), "```go\n")
	block, _, found := strings.Cut(block, "```\n")
	if lines := strings.Count(block, "\n"); !found || lines != 4 {
		t.Fatalf("the Go program in README.md has %d lines, want 4", lines)
	}
	tested := readFile(t, "compat/go/standin/lock_test.go")
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, "  //")
		_, rest, found := strings.Cut(tested, "\t"+strings.TrimSpace(line))
		if tested = rest; !found {
			t.Errorf("the line %q of README.md is not, or not there, in compat/go/standin/lock_test.go", line)
		}
	}
}

// TestTestingPage wants the first program of the page about tests to be one of the SDK tests, and the table of versions
// to be what these find.
func TestTestingPage(t *testing.T) {
	page := readFile(t, "docs/testing-your-code.md")
	_, rest, _ := strings.Cut(page, "```go\n")
	program, _, found := strings.Cut(rest, "```\n")
	if !found || !strings.Contains(readFile(t, "compat/go/standin/lock_test.go"), program) {
		t.Error("the first program of the page is not in compat/go/standin/lock_test.go")
	}
	page = readFile(t, "docs/standin-modules.md")
	raised := readFile(t, "compat/go/standin/testdata/raised.txt")
	for line := range strings.Lines(raised) {
		var module, before, after string
		if _, err := fmt.Sscanf(line, "%s %s => %s", &module, &before, &after); err != nil {
			t.Fatal(err)
		}
		if row := fmt.Sprintf("| %s | %s | %s |\n", module, before, after); !strings.Contains(page, row) {
			t.Errorf("the page has no row %q", row)
		}
	}
	if rows := strings.Count(page, "\n| google.golang.org/") + strings.Count(page,
		"\n| golang.org/"); rows != strings.Count(raised, "\n") {
		t.Errorf("the page has %d rows of versions", rows)
	}
}

// TestDataDirectoryPage wants docs/configuration.md and the packages to name root's data directory and the group's
// socket.
func TestDataDirectoryPage(t *testing.T) {
	for _, file := range []string{"docs/configuration.md", "deploy/package/coordd.yaml"} {
		for _, name := range []string{serve.RootDataDir, serve.GroupSocket} {
			if !strings.Contains(readFile(t, file), name) {
				t.Errorf("%s does not name %s", file, name)
			}
		}
	}
}

// TestConfigFiles wants the config files in docs/configuration.md and docs/cluster.md to be accepted, and that of the
// packages.
func TestConfigFiles(t *testing.T) {
	of := func(page string) serve.Settings {
		found := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(readFile(t, page))
		if found == nil {
			t.Fatalf("%s has no config file", page)
		}
		return served(t, nil, "serve", "--config", writeConfig(t, found[1]))
	}
	got := of("docs/configuration.md")
	if got.Listen != "0.0.0.0:2136" || got.Advertise != "coordd.example.net" || got.DataDir != "/srv/coordd" {
		t.Errorf("got %+v from docs/configuration.md", got)
	}
	if got = of("docs/cluster.md"); got.Listen != "" || got.TLS.Listen != "10.0.0.1:2135" || got.Cluster.Name != "a" ||
		got.Cluster.Initial == "" || got.Auth.Mode != "required" || got.Cluster.CA == "" {
		t.Errorf("got %+v from docs/cluster.md", got)
	}
	got = served(t, nil, "serve", "--config", root+"/deploy/package/coordd.yaml")
	if got.DataDir != serve.RootDataDir || got.Auth.Socket != serve.GroupSocket {
		t.Errorf("got %+v from the packages' file", got)
	}
}
