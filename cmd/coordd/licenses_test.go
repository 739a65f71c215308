package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/exit"
)

// TestLicenses wants a line for every module that a release of the program links, and its text behind it. A new
// dependency, or another version, needs `make generate`. The modules are those of go.release.mod, whatever this
// test is built with.
func TestLicenses(t *testing.T) {
	asks := newRun(nil)
	asks.begin("licenses")
	if code := asks.wait(t); code != exit.OK {
		t.Fatalf("exit code %d, %s", code, asks.log.String())
	}
	printed := asks.out.String()
	if printed != readFile(t, "THIRD-PARTY-NOTICES.txt") {
		t.Error("what is printed is not THIRD-PARTY-NOTICES.txt")
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-modfile=../../go.release.mod", "-deps",
		"-f", "{{with .Module}}{{if .Version}}{{.Path}} {{.Version}}{{end}}{{end}}", ".")
	listed, err := list.Output()
	if err != nil {
		t.Fatalf("list the modules that a release links: %v", err)
	}
	modules := slices.Compact(slices.Sorted(strings.Lines(string(listed))))
	if len(modules) == 0 {
		t.Fatal("a release links no modules")
	}
	for _, module := range modules {
		module = strings.TrimSpace(module)
		_, rest, found := strings.Cut(printed, "\n"+module+": ")
		licence, _, _ := strings.Cut(rest, "\n")
		if !found || !strings.Contains(licence, ", texts [") {
			t.Errorf("no licence of %s: run make generate", module)
		}
	}
	for _, text := range []string{"\nGo: BSD-3-Clause", "\npreact 11.2.0: MIT, texts [",
		"\nhtm 3.1.1: Apache-2.0, texts [",
		"https://proxy.golang.org/MODULE/@v/VERSION.zip"} {
		if !strings.Contains(printed, text) {
			t.Errorf("%q is missing", text)
		}
	}
}
