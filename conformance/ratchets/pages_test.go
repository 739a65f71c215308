package ratchets

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// handbookWords bounds the pages that a user reads from beginning to end; pages to look things up in are not counted.
const handbookWords = 15_000

var (
	fence    = regexp.MustCompile("(?ms)^```.*?^```")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	title    = regexp.MustCompile(`(?m)^#{1,6} (.*)$`)
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// pages returns the text of each page of the repository, without its blocks of code, by its name below root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		base := entry.Name()
		if err != nil || entry.IsDir() && (base == "node_modules" || base == "bin" || base == ".git") {
			return filepath.SkipDir
		}
		if entry.IsDir() || path.Ext(base) != ".md" {
			return nil
		}
		text, err := os.ReadFile(name)
		relative, _ := filepath.Rel(root, name)
		found[filepath.ToSlash(relative)] = fence.ReplaceAllString(string(text), "")
		return err
	})
	if err != nil || len(found) < 20 {
		t.Fatalf("%d pages: %v", len(found), err)
	}
	return found
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(text string) map[string]bool {
	found := make(map[string]bool)
	times := make(map[string]int)
	for _, heading := range title.FindAllStringSubmatch(text, -1) {
		plain := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(heading[1], "$1")
		anchor := strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(plain), ""), " ", "-")
		if n := times[anchor]; n > 0 {
			found[anchor+"-"+strconv.Itoa(n)] = true
		}
		times[anchor]++
		found[anchor] = true
	}
	return found
}

// TestPageLinks wants each link of a page to lead to a file and heading of the repository, or to be in links.txt.
func TestPageLinks(t *testing.T) {
	list, err := os.ReadFile("links.txt")
	if err != nil {
		t.Fatal(err)
	}
	foreign := make(map[string]bool) // whether a page has it
	for line := range strings.Lines(string(list)) {
		if fields := strings.Fields(line); len(fields) == 2 && !strings.HasPrefix(line, "#") {
			foreign[fields[1]] = false
		}
	}
	all := pages(t)
	for name, text := range all {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			if target := found[1]; strings.Contains(target, "://") {
				if _, is := foreign[target]; !is {
					t.Errorf("%s links to %s: look at it, and add it to links.txt", name, target)
				}
				foreign[target] = true
				continue
			}
			file, anchor, _ := strings.Cut(found[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s: %v", name, found[1], err)
			} else if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s links to %s: no such heading", name, found[1])
			}
		}
	}
	for target, used := range foreign {
		if !used {
			t.Errorf("links.txt has %s, and no page links to it", target)
		}
	}
}

// TestPagesAreListed wants the index of each half of the documentation to have all of its pages, and bounds the words
// of those that docs/README.md lists before its pages to look things up in.
func TestPagesAreListed(t *testing.T) {
	all := pages(t)
	read, _, found := strings.Cut(all["docs/README.md"], "\n## To look things up\n")
	if !found {
		t.Fatal("docs/README.md has no pages to look things up in")
	}
	words := 0
	for name := range all {
		index := "docs/README.md"
		if strings.HasPrefix(name, "docs/dev/") {
			index = "docs/dev/README.md"
		}
		if !strings.HasPrefix(name, "docs/") || name == index {
			continue
		}
		link := "](" + strings.TrimPrefix(name, path.Dir(index)+"/") + ")"
		if !strings.Contains(all[index], link) {
			t.Errorf("%s does not list %s", index, name)
		}
		if index == "docs/README.md" && strings.Contains(read, link) {
			text, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			words += len(strings.Fields(string(text)))
		}
	}
	if words += len(strings.Fields(all["docs/README.md"])); words > handbookWords {
		t.Errorf("the pages to read in docs have %d words, at most %d are wanted", words, handbookWords)
	}
	t.Logf("the pages to read have %d words", words)
}

// block is a block of code and the mark before it, which names the test that runs it: always, or where something is
// there.
var block = regexp.MustCompile("(?m)(^<!-- run(?:-if: [^,]+,|:) Test\\w+ -->\n)?^```.*\n(?s:.*?)^```$")

// shownBlocks counts the blocks of code in the pages for users that no test runs.
func shownBlocks() (int, error) {
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	shown := 0
	for _, name := range append(names, filepath.Join(root, "README.md")) {
		text, notRead := os.ReadFile(name)
		err = errors.Join(err, notRead)
		for _, found := range block.FindAllSubmatch(text, -1) {
			if len(found[1]) == 0 {
				shown++
			}
		}
	}
	return shown, err
}

// TestBenchmarksPage wants every row of figures in docs/benchmarks.md to be one of the journal.
func TestBenchmarksPage(t *testing.T) {
	all := pages(t)
	rows := 0
	for line := range strings.Lines(all["docs/benchmarks.md"]) {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") {
			continue
		}
		if rows++; !strings.Contains(all["docs/dev/benchmarks.md"], "\n"+line) {
			t.Errorf("docs/dev/benchmarks.md does not have the row %s", line)
		}
	}
	if rows < 20 {
		t.Errorf("docs/benchmarks.md has %d rows", rows)
	}
}

// TestPagesNameTests wants every test that a page names to exist. Pages of the specification and differences.md name
// those of YDB.
func TestPagesNameTests(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	tests := make(map[string]bool)
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, found := range declared.FindAllStringSubmatch(string(text), -1) {
			tests[found[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range pages(t) {
		if strings.HasPrefix(name, "docs/dev/spec/") || name == "docs/differences.md" {
			continue
		}
		for _, found := range regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`).FindAllString(text, -1) {
			if !tests[found] {
				t.Errorf("%s names %s, which is no test", name, found)
			}
		}
	}
}
