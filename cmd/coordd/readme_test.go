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

// TestReadmeProgram wants the program in README.md to be the one that the SDK
// tests compile and run.
func TestReadmeProgram(t *testing.T) {
	program := readFile(t, "compat/go/examples/quickstart/main.go")
	if !strings.Contains(readFile(t, "README.md"), "```go\n"+program+"```\n") {
		t.Error("the Go program in README.md is not compat/go/examples/quickstart/main.go")
	}
}

// TestTestingPage wants what the page about tests shows to be what the SDK tests run, and its table of
// versions to be what they find.
func TestTestingPage(t *testing.T) {
	page := readFile(t, "docs/testing-your-code.md")
	_, rest, _ := strings.Cut(page, "```go\n")
	program, _, found := strings.Cut(rest, "```\n")
	if !found || !strings.Contains(readFile(t, "compat/go/standin/lock_test.go"), program) {
		t.Error("the first program of the page is not in compat/go/standin/lock_test.go")
	}
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

// TestReadmeTables wants every exit code in README.md, with its text; internal/serve has the page of the settings.
func TestReadmeTables(t *testing.T) {
	readme := readFile(t, "README.md")
	for _, entry := range exitCodes {
		row := fmt.Sprintf("| %d | %s |\n", entry.code, entry.text)
		if !strings.Contains(readme, row) {
			t.Errorf("README.md has no row %q", row)
		}
	}
	if !strings.Contains(readme, serve.RootDataDir) {
		t.Errorf("README.md does not name root's data directory %s", serve.RootDataDir)
	}
}

// TestReadmeConfigFile wants the config file in README.md to be accepted.
func TestReadmeConfigFile(t *testing.T) {
	found := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(readFile(t, "README.md"))
	if found == nil {
		t.Fatal("README.md has no config file")
	}
	got := served(t, nil, "serve", "--config", writeConfig(t, found[1]))
	if got.Listen != "0.0.0.0:2136" || got.Advertise != "coordd.example.net" || got.DataDir != "/srv/coordd" {
		t.Errorf("got %+v from %q", got, found[1])
	}
}

// TestReadmeLinks wants every file and folder that README.md points to.
func TestReadmeLinks(t *testing.T) {
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(readFile(t, "README.md"),
		-1) {
		if strings.Contains(link[1], "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, link[1])); err != nil {
			t.Errorf("README.md points to %s: %v", link[1], err)
		}
	}
}
