package conformance_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var runFindings = flag.Bool("findings", false, "run the tests that findings.txt names")

var (
	findingLine  = regexp.MustCompile(`^(~ )?[a-z]+ [A-Z0-9][A-Za-z0-9.]*: .+ \(test: ([^()]+)\)$`)
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+|Example\w*)\(`)
)

// TestFindings checks findings.txt: every line is well-formed and names tests that exist. With -findings it runs them.
func TestFindings(t *testing.T) {
	content, err := os.ReadFile("findings.txt")
	if err != nil {
		t.Fatal(err)
	}
	wanted := make(map[string][]string) // tests, by the folder of their package
	existing := testsByPackage(t)
	lines := 0
	for number, line := range strings.Split(string(content), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		lines++
		match := findingLine.FindStringSubmatch(line)
		if match == nil {
			t.Errorf("findings.txt:%d: want \"REVIEW NUMBER: text (test: package.Test, ...)\", not %q", number+1, line)
			continue
		}
		for _, name := range strings.Split(match[2], ", ") {
			folder := existing[name]
			if folder == "" {
				t.Errorf("findings.txt:%d: test %s does not exist", number+1, name)
				continue
			}
			_, test, _ := strings.Cut(name, ".")
			if !slices.Contains(wanted[folder], test) {
				wanted[folder] = append(wanted[folder], test)
			}
		}
	}
	if !*runFindings {
		return
	}
	if lines == 0 {
		t.Fatal("findings.txt names no finding")
	}
	for folder, tests := range wanted {
		t.Run(strings.TrimPrefix(folder, "../"), func(t *testing.T) { runTests(t, folder, tests) })
	}
}

// testsByPackage returns the folder of every test of the module, by "package.Test"; the package is its folder's name.
func testsByPackage(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, path := range filesOfTheRepository(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		folder, err := filepath.Abs(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range testFunction.FindAllStringSubmatch(string(content), -1) {
			found[filepath.Base(folder)+"."+match[1]] = folder
		}
	}
	return found
}

// runTests runs tests of the package in folder, and fails unless each of them ran.
func runTests(t *testing.T, folder string, tests []string) {
	t.Helper()
	command := exec.Command("go", "test", "-vet=off", "-count=1", "-v", "-timeout", "15m",
		"-run", fmt.Sprintf("^(%s)$", strings.Join(tests, "|")), ".")
	command.Dir = folder
	output, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	for _, test := range tests {
		if !strings.Contains(string(output), "--- PASS: "+test+" ") {
			t.Errorf("%s did not pass", test)
		}
	}
}
