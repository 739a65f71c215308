package main

import (
	"debug/buildinfo"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/exit"
)

// TestLicenses wants a line for every module that is linked into the binary, and its text behind it. Whoever
// adds a dependency, or takes another version, has to run `make generate`.
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
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Deps) == 0 {
		t.Fatal("the binary names no modules")
	}
	for _, module := range info.Deps {
		line := "\n" + module.Path + " " + module.Version + ": "
		_, rest, found := strings.Cut(printed, line)
		licence, _, _ := strings.Cut(rest, "\n")
		if !found || !strings.Contains(licence, ", texts [") {
			t.Errorf("no licence of %s %s: run make generate", module.Path, module.Version)
		}
	}
	for _, text := range []string{"\nGo: BSD-3-Clause", "Mozilla Public License",
		"https://proxy.golang.org/MODULE/@v/VERSION.zip"} {
		if !strings.Contains(printed, text) {
			t.Errorf("%q is missing", text)
		}
	}
}
