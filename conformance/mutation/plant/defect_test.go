package plant

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	m, err := parse("x", "# Breaks it.\nfile: a.go\n<<<<\n	old\n	older\n====\n\n>>>>\n")
	if err != nil || m != (Defect{Name: "x", Breaks: "Breaks it.", File: "a.go",
		old: "	old\n	older"}) {
		t.Errorf("got %+v, %v", m, err)
	}
	if m, err := parse("x",
		"# Breaks it.\nfile: a.go\nalso: silence\n<<<<\nold\n====\nnew\n>>>>\n"); err != nil || !m.Silence ||
		m.old != "old" {
		t.Errorf("got %+v, %v", m, err)
	}
	if d, err := parse("x",
		"# Breaks it.\nfile: a.go\nseeds: 20 of late answers\n<<<<\nold\n====\nnew\n>>>>\n"); err != nil ||
		d.Seeds != 20 || d.Mixture != "late answers" {
		t.Errorf("got %+v, %v", d, err)
	}
	if _, err := parse("x", "# Breaks it.\n<<<<\nold\n====\n>>>>\n"); err == nil {
		t.Error("a defect without a file is accepted")
	}
}

func TestApply(t *testing.T) {
	once := Defect{Name: "x", File: "a.go", old: "one", new: "1"}
	if text, err := once.apply("one two two"); err != nil || text != "1 two two" {
		t.Errorf("got %q, %v", text, err)
	}
	for _, old := range []string{"two", "three"} {
		m := Defect{Name: "x", File: "a.go", old: old}
		_, err := m.apply("one two two")
		if err == nil || !strings.Contains(err.Error(), "no longer applies") {
			t.Errorf("old text %q: %v", old, err)
		}
	}
}

// TestAll wants one variable in each package that has defects, whatever the number of its files.
func TestAll(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{"p/a.go", "p/b.go", "q/c.go"} {
		text := "package " + filepath.Dir(file) + "\n\nfunc f() { g() }\n"
		file = filepath.Join(root, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700),
			os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	list := []Defect{
		{Name: "w", File: "p/a.go", old: "g()", new: "w()"},
		{Name: "x", File: "p/b.go", old: "g()", new: "x()"},
		{Name: "y", File: "q/c.go", old: "g()", new: "y()"},
		{Name: "z", File: "q/c.go", old: "g()", new: "z()"},
	}
	planted, err := All(root, t.TempDir(), list)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		"p/a.go":              {"package p", "func f_w() { w() }"},
		"p/b.go":              {"package p", "func f_x() { x() }"},
		"p/planted_defect.go": {"package p", `var plantedDefect = os.Getenv("PLANTED_DEFECT")`},
		"q/c.go":              {"package q", "func f_y() { y() }", "func f_z() { z() }"},
		"q/planted_defect.go": {"package q", `var plantedDefect = os.Getenv("PLANTED_DEFECT")`},
	} {
		text, err := os.ReadFile(planted[filepath.Join(root, file)])
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %q:\n%s", file, part, text)
			}
		}
	}
	if len(planted) != 5 {
		t.Errorf("%d files, want 5", len(planted))
	}
}
