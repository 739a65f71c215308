package conformance

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed differences.txt
var differencesText string

// Differences is docs/differences.md: where coordd differs from YDB on purpose, by what the scripts' heads
// and differences.txt say.
func Differences(scripts []*Script) (string, error) {
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
