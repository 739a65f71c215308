// Command sdks keeps what the tests of compat found, and shows a summary of it in the page about SDKs.
//
//	sdks [-check] [-keep SDK] RESULTS PAGE [FOUND...]
//
// The suites have just written the files FOUND: a line for each test and way, with SDK, version, test, way, result
// and note between tabs. Together they become RESULTS, and its summary replaces the part between the marks of PAGE.
// RESULTS keeps the lines of the SDK that -keep names if no FOUND has any: few machines have it. With -check
// nothing is written: a FOUND that differs, but for notes, from the lines of its SDKs in RESULTS, or a PAGE with
// another summary, ends the program with status 1. A FOUND may be missing then, as its suite reports that it
// tests nothing.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

func main() {
	check := flag.Bool("check", false, "compare instead of write")
	keep := flag.String("keep", "", "the `SDK` whose results stay when they are not found")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: sdks [-check] [-keep SDK] RESULTS PAGE [FOUND...]")
		os.Exit(2)
	}
	if err := run(os.Stdout, *check, *keep, flag.Arg(0), flag.Arg(1), flag.Args()[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "sdks:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, check bool, keep, resultsFile, pageFile string, files []string) error {
	found, err := read(check, files...)
	if err != nil {
		return err
	}
	kept, err := read(!check, resultsFile)
	if err != nil {
		return err
	}
	page, err := os.ReadFile(pageFile)
	if err != nil {
		return err
	}
	rows := kept
	if check {
		if err := agree(kept, found); err != nil {
			return fmt.Errorf("%s: %w: run make compat-results", resultsFile, err)
		}
	} else if rows = found; len(of(keep, found)) == 0 {
		rows = sorted(append(found, of(keep, kept)...))
	}
	if len(rows) == 0 {
		return errors.New("no result")
	}
	summary := summary(rows)
	before, rest, begins := strings.Cut(string(page), begin)
	_, after, ends := strings.Cut(rest, end)
	made := before + begin + "\n" + summary + "\n" + end + after
	fmt.Fprint(out, summary)
	switch {
	case !begins || !ends:
		return fmt.Errorf("%s has no lines %q and %q", pageFile, begin, end)
	case check && made != string(page):
		return fmt.Errorf("%s is not what %s says: run make compat-results", pageFile, resultsFile)
	case check:
		return nil
	}
	var text strings.Builder
	for _, r := range rows {
		fmt.Fprintln(&text, strings.Join(r, "\t"))
	}
	return errors.Join(os.WriteFile(resultsFile, []byte(text.String()), 0o644),
		os.WriteFile(pageFile, []byte(made), 0o644))
}

const (
	begin = "<!-- made by `make compat-results` from compat/results.tsv -->\n"
	end   = "<!-- end of what is made -->\n"
)

// row is SDK, version, test, way, result and note.
type row = []string

// results lists the possible results. A double is a program that behaves like an SDK: its tests never pass.
var results = []string{"passed", "double", "not run", "FAILED"}

// read returns the rows of files.
func read(missingAllowed bool, files ...string) ([]row, error) {
	var rows []row
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil && !(missingAllowed && errors.Is(err, fs.ErrNotExist)) {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			r := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			if len(r) != 6 || slices.Contains(r[:5], "") || !slices.Contains(results, r[4]) {
				return nil, fmt.Errorf("%s: not SDK, version, test, way, result, note: %q", file, line)
			}
			if slices.ContainsFunc(rows, func(other row) bool { return slices.Equal(other[:4], r[:4]) }) {
				return nil, fmt.Errorf("%s: twice: %q", file, line)
			}
			rows = append(rows, r)
		}
		if err == nil && len(text) == 0 {
			return nil, fmt.Errorf("%s: no result", file) // its suite has been cut short
		}
	}
	for _, r := range rows {
		hasPassed := func(other row) bool { return other[0] == r[0] && other[4] == "passed" }
		if r[4] == "double" && slices.ContainsFunc(rows, hasPassed) {
			return nil, fmt.Errorf("%s is a double and the SDK at once", r[0])
		}
	}
	return sorted(rows), nil
}

func sorted(rows []row) []row {
	slices.SortFunc(rows, slices.Compare[row])
	return rows
}

// of returns the rows of an SDK.
func of(sdk string, rows []row) []row {
	return slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r[0] != sdk })
}

// agree compares the rows that are kept of the SDKs in found with found. Notes may differ: some contain figures.
func agree(kept, found []row) error {
	in := func(rows []row, r row) bool {
		return slices.ContainsFunc(rows, func(other row) bool { return slices.Equal(other[:5], r[:5]) })
	}
	for _, r := range kept {
		if len(of(r[0], found)) > 0 && !in(found, r) {
			return fmt.Errorf("not found any more: %q", r)
		}
	}
	for _, r := range found {
		if !in(kept, r) {
			return fmt.Errorf("lacks %q", r)
		}
	}
	return nil
}

// summary is a table with a line for each version of an SDK.
func summary(rows []row) string {
	var b strings.Builder
	b.WriteString("| what runs | version | tests | ways | results |\n| --- | --- | --- | --- | --- |\n")
	for len(rows) > 0 {
		counts := [...]map[string]int{2: {}, 3: {}, 4: {}} // of each test, way and result
		first := rows[0]
		for len(rows) > 0 && slices.Equal(rows[0][:2], first[:2]) {
			for column, count := range counts[2:] {
				count[rows[0][2+column]]++
			}
			rows = rows[1:]
		}
		var shown []string
		for _, result := range results {
			if n := counts[4][result]; n > 0 {
				shown = append(shown, fmt.Sprint(n, " ", result))
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %s |\n", first[0], first[1], len(counts[2]), len(counts[3]),
			strings.Join(shown, ", "))
	}
	return b.String()
}
