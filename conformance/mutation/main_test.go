package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/conformance/mutation/plant"
)

// leastMutations is the smallest number of defects to check the suite with.
const leastMutations = 25

// TestMutationsApply wants every defect to fit the code as it is now. Where it does not, the code was
// changed: change the defect's old text, or think of another defect. The code with all defects has to compile.
func TestMutationsApply(t *testing.T) {
	list, err := plant.Read(testdata, "testdata")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < leastMutations {
		t.Errorf("%d defects, want %d", len(list), leastMutations)
	}
	if err := plant.Check("../..", t.TempDir(), list); err != nil {
		t.Error(err)
	}
}

// A trial whose tests have other names by now would find nothing, and not say so.
func TestTrialsHaveTheirTests(t *testing.T) {
	for _, tr := range append(slices.Clone(trials), silence) {
		files, err := filepath.Glob(filepath.Join("../..", tr.folder, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %d files of tests, %v", tr.folder, len(files), err)
		}
		var text []byte
		for _, file := range files {
			more, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, more...)
		}
		for _, tests := range alternatives(tr.tests) {
			name := strings.TrimSuffix(strings.TrimPrefix(tests, "^"), "$")
			if !regexp.MustCompile(`(?m)^func ` + name).Match(text) {
				t.Errorf("%s: no test of %s is called %s", tr.name, tr.folder, tests)
			}
		}
	}
}

// alternatives splits a(b|c(d|e))f into abf and ac(d|e)f.
func alternatives(pattern string) (out []string) {
	before, within, found := strings.Cut(pattern, "(")
	if !found {
		return []string{pattern}
	}
	depth, from := 0, 0
	for i, c := range within {
		switch {
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case c == ')':
			out = append(out, within[from:i])
			for j := range out {
				out[j] = before + out[j] + within[i+1:]
			}
			return out
		case c == '|' && depth == 0:
			out, from = append(out, within[from:i]), i+1
		}
	}
	return []string{pattern}
}
