package conformance

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var writeDifferences = flag.Bool("write-differences", false, "write docs/differences.md anew")

// TestDifferences wants docs/differences.md to be what the scripts and differences.txt say.
func TestDifferences(t *testing.T) {
	want, err := differences(loadScripts(t))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("..", "docs", "differences.md")
	if *writeDifferences {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is out of date (%v): run make differences", file, err)
	}
}

//go:embed differences.txt
var differencesText string

// differences makes docs/differences.md: where coordd differs from YDB on purpose, by what the scripts' heads
// and differences.txt say.
func differences(scripts []*Script) (string, error) {
	var b strings.Builder
	b.WriteString(`# Differences from YDB

This file is made from the scripts in [conformance/testdata](../conformance/testdata) and from
[conformance/differences.txt](../conformance/differences.txt) by ` + "`make differences`" + `. It lists where coordd differs
from YDB on purpose. Anything else that differs is a mistake: please report it.

## Shown by a script

Run on YDB, these scripts differ.

| script | rules | difference |
| --- | --- | --- |
`)
	for _, script := range scripts {
		for _, differs := range script.Differs {
			fmt.Fprintf(&b, "| [%s](../conformance/testdata/%s.txt) | %s | %s |\n", script.Name, script.Name,
				strings.Join(script.Rules, ", "), differs)
		}
	}
	b.WriteString("\n## Not shown by a script\n\n| subject | difference |\n| --- | --- |\n")
	for number, line := range strings.Split(differencesText, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		subject, text, found := strings.Cut(line, ": ")
		if !found {
			return "", fmt.Errorf("differences.txt, line %d: want \"subject: text\"", number+1)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", subject, text)
	}
	return b.String(), nil
}
