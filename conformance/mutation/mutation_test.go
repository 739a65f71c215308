package main

import (
	"encoding/json"
	"errors"
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
	if _, err := plantAll("../..", t.TempDir(), list); err != nil {
		t.Error(err)
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
	once := mutation{name: "x", file: "a.go", old: "one", new: "1"}
	if text, err := once.apply("one two two"); err != nil || text != "1 two two" {
		t.Errorf("got %q, %v", text, err)
	}
	for _, old := range []string{"two", "three"} {
		m := mutation{name: "x", file: "a.go", old: old}
		_, err := m.apply("one two two")
		if err == nil || !strings.Contains(err.Error(), "no longer applies") {
			t.Errorf("old text %q: %v", old, err)
		}
	}
}

// TestPlantAll wants one variable in each package that has defects, whatever the number of its files.
func TestPlantAll(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{"p/a.go", "p/b.go", "q/c.go"} {
		text := "package " + filepath.Dir(file) + "\n\nfunc f() { g() }\n"
		file = filepath.Join(root, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700),
			os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	list := []mutation{
		{name: "w", file: "p/a.go", old: "g()", new: "w()"},
		{name: "x", file: "p/b.go", old: "g()", new: "x()"},
		{name: "y", file: "q/c.go", old: "g()", new: "y()"},
		{name: "z", file: "q/c.go", old: "g()", new: "z()"},
	}
	name, err := plantAll(root, t.TempDir(), list)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &overlay); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		"p/a.go":              {"package p", "func f_w() { w() }"},
		"p/b.go":              {"package p", "func f_x() { x() }"},
		"p/planted_defect.go": {"package p", `var plantedDefect = os.Getenv("PLANTED_DEFECT")`},
		"q/c.go":              {"package q", "func f_y() { y() }", "func f_z() { z() }"},
		"q/planted_defect.go": {"package q", `var plantedDefect = os.Getenv("PLANTED_DEFECT")`},
	} {
		text, err := os.ReadFile(overlay.Replace[filepath.Join(root, file)])
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %q:\n%s", file, part, text)
			}
		}
	}
	if len(overlay.Replace) != 5 {
		t.Errorf("%d files, want 5", len(overlay.Replace))
	}
}
