package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPageIsOfTheResults wants the page about SDKs to show what the suites found last.
func TestPageIsOfTheResults(t *testing.T) {
	if err := run(io.Discard, true, "", "../../../compat/results.tsv", "../../../docs/sdks.md",
		nil); err != nil {
		t.Error(err)
	}
}

// TestNothingHasFailed wants nobody to keep results of a suite that failed.
func TestNothingHasFailed(t *testing.T) {
	rows, err := read(false, "../../../compat/results.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r[4] == "FAILED" {
			t.Errorf("%q", r)
		}
	}
}

const page = "# SDKs\n" + begin + "old\n" + end + "more\n"

func TestSummary(t *testing.T) {
	directory := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	results, shown := filepath.Join(directory, "results.tsv"), file("sdks.md", page)
	one := file("one.tsv",
		"One\tv1\tlock\ttoken\tnot run\ta reason\nOne\tv1\tlock\tplain\tpassed\t\n"+
			"One\tv1\twatch\tplain\tpassed\ta part\n")
	two := file("two.tsv", "Another\tv2\tpings|pongs\tplain\tdouble\t\n")
	if err := run(io.Discard, false, "", results, shown, []string{one, two}); err != nil {
		t.Fatal(err)
	}
	const want = "# SDKs\n" + begin + `
| what runs | version | tests | ways | results |
| --- | --- | --- | --- | --- |
| Another | v2 | 1 | 1 | 1 double |
| One | v1 | 2 | 2 | 2 passed, 1 not run |

` + end + "more\n"
	if got, err := os.ReadFile(shown); err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}

	for _, test := range []struct {
		name, says string
		found      []string
	}{
		{"the same", "", []string{one, two}},
		{"one suite", "", []string{two}},
		{"one suite that tests nothing", "", []string{one, filepath.Join(directory, "nothing")}},
		{"another note", "", []string{file("note.tsv",
			"Another\tv2\tpings|pongs\tplain\tdouble\t17 starts\n")}},
		{"another result", "not found any more",
			[]string{file("result.tsv", "Another\tv2\tpings|pongs\tplain\tFAILED\t\n")}},
		{"a test more", "lacks", []string{file("more.tsv",
			"Another\tv2\tpings|pongs\tplain\tdouble\t\nAnother\tv2\tmore\tplain\tdouble\t\n")}},
		{"a test less", "not found any more", []string{file("less.tsv", "One\tv1\tlock\tplain\tpassed\t\n")}},
		{"another version", "not found any more",
			[]string{file("other.tsv", "Another\tv3\tpings|pongs\tplain\tdouble\t\n")}},
	} {
		err := run(io.Discard, true, "", results, shown, test.found)
		if test.says == "" && err != nil || test.says != "" &&
			(err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if err := run(io.Discard, false, "", results, shown,
		[]string{one, filepath.Join(directory, "nothing")}); err == nil {
		t.Error("results are written without a suite")
	}
	for _, test := range []struct {
		keep  string
		found []string
		kept  bool
	}{{"Another", []string{one}, true}, {"One", []string{one}, false}, {"Another", []string{one}, false},
		{"Another", []string{one, two}, true}} {
		if err := run(io.Discard, false, test.keep, results, shown, test.found); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(shown); err != nil || (string(got) == want) != test.kept {
			t.Errorf("-keep %s: %v\n%s", test.keep, err, got)
		}
	}
	file("sdks.md", want+"\n")
	if err := run(io.Discard, true, "", results, shown, nil); err != nil {
		t.Errorf("what is not made: %v", err)
	}
	file("sdks.md", strings.Replace(want, "2 passed", "3 passed", 1))
	if err := run(io.Discard, true, "", results, shown, nil); err == nil {
		t.Error("a page that says more than the results")
	}
}

func TestWrongLines(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":         "",
		"five fields":     "One\tv1\tlock\tplain\tpassed\n",
		"an empty field":  "One\t\tlock\tplain\tpassed\t\n",
		"another result":  "One\tv1\tlock\tplain\tok\t\n",
		"twice":           "One\tv1\tlock\tplain\tpassed\t\nOne\tv1\tlock\tplain\tFAILED\t\n",
		"a passed double": "One\tv1\tlock\tplain\tdouble\t\nOne\tv1\twatch\tplain\tpassed\t\n",
	} {
		file := filepath.Join(t.TempDir(), "wrong.tsv")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if rows, err := read(false, file); err == nil {
			t.Errorf("%s: %v", name, rows)
		}
	}
}
