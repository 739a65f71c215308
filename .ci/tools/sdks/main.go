// Command sdks keeps what the tests of compat found, and shows it in the page about SDKs.
//
//	sdks [-check] [-keep SDK] RESULTS PAGE [FOUND...]
//
// The files FOUND are what suites have just written: a line for each test and way, which is SDK, version,
// test, way, result and note, with tabs between. Together they become RESULTS, and the tables of that replace
// what is between the marks in PAGE. With -check nothing is written: a FOUND that differs, but for notes,
// from what RESULTS says of its SDK, or a PAGE that differs from RESULTS, ends the program with status 1. A
// FOUND that is missing is no error then, for its suite says by itself that it tests nothing. What RESULTS
// says of the SDK that -keep names stays there when no FOUND is about it: few machines have it.
package main

import (
	"cmp"
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

func run(out io.Writer, check bool, keep, resultsFile, pageFile string, found []string) error {
	lines, err := read(found, check)
	if err != nil {
		return err
	}
	if check || len(found) == 0 {
		kept, err := read([]string{resultsFile}, false)
		if err != nil {
			return err
		}
		if err := agree(kept, lines); err != nil {
			return fmt.Errorf("%s: %w: run make compat-results", resultsFile, err)
		}
		lines = kept
	} else if lines, err = keepOf(keep, lines, resultsFile); err != nil {
		return err
	}
	page, err := os.ReadFile(pageFile)
	if err != nil {
		return err
	}
	made, err := within(string(page), render(lines))
	if err != nil {
		return fmt.Errorf("%s: %w", pageFile, err)
	}
	fmt.Fprint(out, summary(lines))
	if check {
		if made != string(page) {
			return fmt.Errorf("%s is not what %s says: run make compat-results", pageFile, resultsFile)
		}
		return nil
	}
	var text strings.Builder
	for _, l := range lines {
		fmt.Fprintln(&text, l.text())
	}
	if err := os.WriteFile(resultsFile, []byte(text.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(pageFile, []byte(made), 0o644)
}

// line is what was found of one test in one way.
type line struct{ sdk, version, test, way, result, note string }

func (l line) text() string {
	return strings.Join([]string{l.sdk, l.version, l.test, l.way, l.result, l.note}, "\t")
}

// The results that there are. A double is a program that behaves like an SDK: what it finds is marked as that
// and has never passed.
const (
	passed = "passed"
	failed = "FAILED"
	notRun = "not run"
	double = "double"
)

// read reads files of lines, and sorts what they say. Missing files are an error unless that is allowed.
func read(files []string, missingAllowed bool) ([]line, error) {
	var lines []line
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) && missingAllowed {
			continue
		}
		if err != nil {
			return nil, err
		}
		read, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		lines = append(lines, read...)
	}
	return sorted(lines), nil
}

func sorted(lines []line) []line {
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(strings.Compare(a.sdk, b.sdk), strings.Compare(a.version, b.version),
			strings.Compare(a.test, b.test), byWay(a.way, b.way))
	})
	return lines
}

func parse(text string) ([]line, error) {
	var lines []line
	doubles := make(map[string]bool)
	seen := make(map[line]bool)
	for row := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(row, "\n"), "\t")
		if len(fields) != 6 || slices.Contains(fields[:5], "") {
			return nil, fmt.Errorf("not SDK, version, test, way, result and note with tabs between: %q", row)
		}
		l := line{fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]}
		switch l.result {
		case passed, double:
			if is, known := doubles[l.sdk]; known && is != (l.result == double) {
				return nil, fmt.Errorf("%s is a double and the SDK at once", l.sdk)
			}
			doubles[l.sdk] = l.result == double
		case failed, notRun:
		default:
			return nil, fmt.Errorf("unknown result %q: %q", l.result, row)
		}
		if key := (line{sdk: l.sdk, version: l.version, test: l.test, way: l.way}); seen[key] {
			return nil, fmt.Errorf("twice: %q", row)
		} else {
			seen[key] = true
		}
		lines = append(lines, l)
	}
	if len(lines) == 0 {
		return nil, errors.New("no result")
	}
	return lines, nil
}

// byWay has the common ways first.
func byWay(a, b string) int {
	rank := func(way string) int {
		first, _, _ := strings.Cut(way, " ")
		at := slices.Index([]string{"plain", "tls", "user", "token"}, first)
		if at < 0 {
			return 4
		}
		return at
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
}

// agree wants kept to say of the SDKs that found is about what found says. Notes may differ: some have
// figures in them.
func agree(kept, found []line) error {
	about := make(map[string]bool)
	for _, l := range found {
		about[l.sdk] = true
	}
	says := func(lines []line, l line) bool {
		return slices.ContainsFunc(lines, func(other line) bool {
			other.note = l.note
			return other == l
		})
	}
	for _, l := range kept {
		if about[l.sdk] && !says(found, l) {
			return fmt.Errorf("not found any more: %q", l.text())
		}
	}
	for _, l := range found {
		if !says(kept, l) {
			return fmt.Errorf("lacks %q", l.text())
		}
	}
	return nil
}

const (
	begin = "<!-- made by `make compat-results` from compat/results.tsv -->\n"
	end   = "<!-- end of what is made -->\n"
)

// keepOf adds what is kept of an SDK to lines that say nothing of it.
func keepOf(sdk string, lines []line, resultsFile string) ([]line, error) {
	of := func(l line) bool { return l.sdk == sdk }
	if sdk == "" || slices.ContainsFunc(lines, of) {
		return lines, nil
	}
	kept, err := read([]string{resultsFile}, true)
	if err != nil {
		return nil, err
	}
	kept = slices.DeleteFunc(kept, func(l line) bool { return !of(l) })
	return sorted(append(lines, kept...)), nil
}

// within puts tables between the marks of a page.
func within(page, tables string) (string, error) {
	before, rest, ok := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("no lines %q and %q", begin, end)
	}
	return before + begin + "\n" + tables + "\n" + end + after, nil
}

func render(lines []line) string {
	tables := []string{summary(lines)}
	for suite := range suites(lines) {
		tables = append(tables, table(suite))
	}
	return strings.Join(tables, "\n")
}

// suites are the lines of each SDK and version.
func suites(lines []line) func(func([]line) bool) {
	return func(yield func([]line) bool) {
		for len(lines) > 0 {
			n := slices.IndexFunc(lines, func(l line) bool {
				return l.sdk != lines[0].sdk || l.version != lines[0].version
			})
			if n < 0 {
				n = len(lines)
			}
			if !yield(lines[:n]) {
				return
			}
			lines = lines[n:]
		}
	}
}

func summary(lines []line) string {
	var b strings.Builder
	b.WriteString("| what runs | version | tests | ways | results |\n| --- | --- | --- | --- | --- |\n")
	for suite := range suites(lines) {
		var counts []string
		for _, result := range []string{passed, double, notRun, failed} {
			n := 0
			for _, l := range suite {
				if l.result == result {
					n++
				}
			}
			if n > 0 {
				counts = append(counts, fmt.Sprint(n, " ", result))
			}
		}
		tests, ways := axes(suite)
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %s |\n", cell(suite[0].sdk), cell(suite[0].version),
			len(tests), len(ways), strings.Join(counts, ", "))
	}
	return b.String()
}

// axes are the tests and the ways of a suite.
func axes(suite []line) (tests, ways []string) {
	for _, l := range suite {
		tests, ways = append(tests, l.test), append(ways, l.way)
	}
	slices.Sort(tests)
	slices.SortFunc(ways, byWay)
	return slices.Compact(tests), slices.Compact(ways)
}

// table shows a suite, its notes behind it.
func table(suite []line) string {
	var b strings.Builder
	tests, ways := axes(suite)
	fmt.Fprintf(&b, "### %s (%s)\n\n| test |", suite[0].sdk, suite[0].version)
	for _, way := range ways {
		fmt.Fprintf(&b, " %s |", cell(way))
	}
	b.WriteString("\n" + strings.Repeat("| --- ", len(ways)+1) + "|\n")
	var notes []string
	for _, test := range tests {
		fmt.Fprintf(&b, "| %s |", cell(test))
		for _, way := range ways {
			at := slices.IndexFunc(suite, func(l line) bool { return l.test == test && l.way == way })
			if at < 0 {
				b.WriteString(" – |")
				continue
			}
			fmt.Fprintf(&b, " %s", suite[at].result)
			if note := suite[at].note; note != "" {
				if !slices.Contains(notes, note) {
					notes = append(notes, note)
				}
				fmt.Fprintf(&b, " (%d)", slices.Index(notes, note)+1)
			}
			b.WriteString(" |")
		}
		b.WriteString("\n")
	}
	if len(notes) > 0 {
		b.WriteString("\n")
	}
	for i, note := range notes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, note)
	}
	return b.String()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
