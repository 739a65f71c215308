package ratchets

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var lower = flag.Bool("lower", false, "lower the numbers of ratchets.txt that have fallen")

const file = "ratchets.txt"

// ratchet is a row of ratchets.txt.
type ratchet struct {
	limit int // the number may not exceed it
	first int // the number when the ratchets were introduced: limit may be raised up to it
	name  string
}

// slack returns how far a number may fall before the row must follow. Changes of a few lines need no edit of the
// file; small numbers have no slack.
func (r ratchet) slack() int { return r.limit / 100 }

// judge returns "" if the number keeps the row.
func (r ratchet) judge(number int) string {
	switch {
	case r.limit > r.first:
		return fmt.Sprintf("%s: the limit %d is above the first number %d", r.name, r.limit, r.first)
	case number > r.limit:
		return fmt.Sprintf("%s: %d, at most %d are allowed: take something out, or raise the row in %s if the "+
			"change needs it, never above %d", r.name, number, r.limit, file, r.first)
	case number < r.limit-r.slack():
		return fmt.Sprintf("%s: %d, fallen from %d: write it down with go test ./conformance/ratchets -lower",
			r.name, number, r.limit)
	}
	return ""
}

// lowered returns the rows with the numbers that have fallen, without rows whose number is 0.
func lowered(rows []ratchet, numbers map[string]int) []ratchet {
	var kept []ratchet
	for _, row := range rows {
		row.limit = min(row.limit, numbers[row.name])
		if row.limit > 0 {
			kept = append(kept, row)
		}
	}
	return kept
}

// parse splits the file into its leading comment and its rows.
func parse(text string) (comment string, rows []ratchet, err error) {
	seen := make(map[string]bool)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			comment += line
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return "", nil, fmt.Errorf("%s: not a limit, a first number and a name: %q", file, line)
		}
		row := ratchet{name: strings.Join(fields[2:], " ")}
		if _, err := fmt.Sscan(line, &row.limit, &row.first); err != nil || seen[row.name] {
			return "", nil, fmt.Errorf("%s: a wrong or a repeated row: %q", file, line)
		}
		seen[row.name] = true
		rows = append(rows, row)
	}
	return comment, rows, nil
}

func format(comment string, rows []ratchet) string {
	var b strings.Builder
	b.WriteString(comment)
	for _, row := range rows {
		fmt.Fprintf(&b, "%6d %6d  %s\n", row.limit, row.first, row.name)
	}
	return b.String()
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		limit, first, number int
		complains            string
	}{
		{7, 7, 7, ""}, {7, 7, 8, "at most 7"}, {7, 7, 6, "-lower"}, {7, 6, 7, "above the first number"},
		{5000, 6000, 5000, ""}, {5000, 6000, 4950, ""}, {5000, 6000, 4949, "-lower"},
		{5000, 6000, 5001, "at most"},
	} {
		row := ratchet{test.limit, test.first, "lines"}
		if got := row.judge(test.number); (got == "") != (test.complains == "") ||
			!strings.Contains(got, test.complains) {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

func TestLowered(t *testing.T) {
	const text = "# comment\n    70     90  lines\n    61     61  methods of a.T\n     5      5  functions\n"
	comment, rows, err := parse(text)
	if err != nil || format(comment, rows) != text {
		t.Fatalf("%v\n%s", err, format(comment, rows))
	}
	got := format("", lowered(rows, map[string]int{"lines": 60, "functions": 6}))
	if want := "    60     90  lines\n     5      5  functions\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for _, wrong := range []string{"7 lines\n", "a 7 lines\n", "7 7 lines\n7 7 lines\n"} {
		if _, _, err := parse(wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

// TestRatchets compares the numbers of today with ratchets.txt.
func TestRatchets(t *testing.T) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	comment, rows, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	numbers := measure(t)
	if *lower {
		rows = lowered(rows, numbers)
		if err := os.WriteFile(file, []byte(format(comment, rows)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range rows {
		if complaint := row.judge(numbers[row.name]); complaint != "" {
			t.Error(complaint)
		}
		delete(numbers, row.name)
	}
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		t.Errorf("%s: %d, without a row in %s", name, numbers[name], file)
	}
}

// measure returns the number of each ratchet, and logs those that stand beside them for comparison.
func measure(t *testing.T) map[string]int {
	t.Helper()
	files, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	linked, err := linkedFiles()
	if err != nil {
		t.Fatal(err)
	}
	numbers := make(map[string]int)
	generated, tests, own := 0, 0, 0
	for _, f := range files {
		switch {
		case f.generated:
			if linked[f.name] {
				generated += f.lines()
			}
			continue
		case f.test:
			tests += f.lines()
		default:
			numbers["lines written by hand, all modules without tests"] += f.lines()
			if f.module == "." {
				own += f.lines()
			}
			if linked[f.name] {
				numbers["lines written by hand, linked by cmd/coordd"] += f.lines()
			}
		}
		numbers["lines over 120 columns"] += f.linesOver(120)
		if !f.test {
			numbers["functions over 80 lines"] += f.functionsOver(80)
		}
	}
	t.Logf("beside them: %d generated lines linked, %d lines of tests, %d lines of the main module written by "+
		"hand", generated, tests, own)
	maps.Copy(numbers, largeTypes(files))
	if numbers["direct dependencies"], err = directDependencies(); err != nil {
		t.Fatal(err)
	}
	if numbers["words that words.txt replaces"], err = countAvoided(files); err != nil {
		t.Fatal(err)
	}
	if numbers["blocks of the pages that no test runs"], err = shownBlocks(); err != nil {
		t.Fatal(err)
	}
	perFolder, err := arrowsUp()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range slices.Sorted(maps.Keys(perFolder)) {
		numbers["arrows up between files of a folder"] += perFolder[folder].up
		t.Logf("%s: %d of %d arrows up", folder, perFolder[folder].up, perFolder[folder].all)
	}
	return numbers
}
