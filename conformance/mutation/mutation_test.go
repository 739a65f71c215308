package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// leastMutations is how many defects the suite is checked with.
const leastMutations = 25

// TestMutationsApply wants every defect to fit the code as it is now. Where it does not, the code was
// changed: change the defect's old text, or think of another defect.
func TestMutationsApply(t *testing.T) {
	list, err := mutations()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < leastMutations {
		t.Errorf("%d defects, want %d", len(list), leastMutations)
	}
	for i := range list {
		if text, err := list[i].apply("../.."); err != nil || !strings.Contains(text, list[i].new) {
			t.Error(err)
		}
	}
}

func TestParse(t *testing.T) {
	m, err := parse("x", "# Breaks it.\nfile: a.go\n<<<<\n	old\n	older\n====\n\n>>>>\n")
	if err != nil || m != (mutation{name: "x", breaks: "Breaks it.", file: "a.go",
		old: "	old\n	older"}) {
		t.Errorf("got %+v, %v", m, err)
	}
	if m, err := parse("x",
		"# Breaks it.\nfile: a.go\nalso: silence\n<<<<\nold\n====\nnew\n>>>>\n"); err != nil || !m.silence ||
		m.old != "old" {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, err := parse("x", "# Breaks it.\n<<<<\nold\n====\n>>>>\n"); err == nil {
		t.Error("a defect without a file is accepted")
	}
}

func TestApply(t *testing.T) {
	top := t.TempDir()
	if err := os.WriteFile(filepath.Join(top, "a.go"), []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	once := mutation{name: "x", file: "a.go", old: "one", new: "1"}
	if text, err := once.apply(top); err != nil || text != "1 two two" {
		t.Errorf("got %q, %v", text, err)
	}
	for _, old := range []string{"two", "three"} {
		m := mutation{name: "x", file: "a.go", old: old}
		if _, err := m.apply(top); err == nil || !strings.Contains(err.Error(), "no longer applies") {
			t.Errorf("old text %q: %v", old, err)
		}
	}
}
