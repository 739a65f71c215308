package faults_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coordd/coordd/server/standin/faults"
)

// docs/faults.md names every order, and only tests that there are.
func TestCatalogue(t *testing.T) {
	page, err := os.ReadFile("../../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, pattern := range []string{"*_test.go", "../*_test.go", "../../../conformance/*_test.go",
		"../../../cmd/coordd-standin/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range files {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(content)
		}
	}
	for _, name := range regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(tests.String(), "func "+name[1]+"(t *testing.T)") {
			t.Errorf("there is no %s", name[1])
		}
	}
	help, err := faults.New("/local", nil).Controls().Do(t.Context(), "help", nil)
	if err != nil {
		t.Fatal(err)
	}
	for order := range help.(map[string]string) {
		switch order {
		case "help", "reset", "pending", "requests", "forget-requests":
		default:
			if !strings.Contains(string(page), "`"+order) {
				t.Errorf("docs/faults.md has nothing of %s", order)
			}
		}
	}
	for _, kind := range faults.Kinds() {
		if !strings.Contains(string(page), "`"+string(kind)+"`") {
			t.Errorf("docs/faults.md has nothing of %s", kind)
		}
	}
}
