package ratchets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// avoided is a row of words.txt.
type avoided struct {
	words  *regexp.Regexp
	advice string
}

func avoidedWords() ([]avoided, error) {
	text, err := os.ReadFile("words.txt")
	if err != nil {
		return nil, err
	}
	var list []avoided
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		words, advice, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		pattern, err := regexp.Compile("(?i)" + words)
		if err != nil || !found {
			return nil, fmt.Errorf("words.txt: wrong row %q: %w", line, err)
		}
		list = append(list, avoided{pattern, advice})
	}
	return list, nil
}

// isProse reports whether a file's comments or text are ours. The pages of the specification quote another program.
func isProse(name string) bool {
	switch path.Ext(name) {
	case ".go":
		return !strings.HasSuffix(name, ".pb.go")
	case ".md":
		return !strings.HasPrefix(name, "docs/dev/spec/")
	}
	return false
}

var (
	code    = regexp.MustCompile("`[^`]*`")
	comment = regexp.MustCompile(`^(?:[^"\x60]|"(?:[^"\\]|\\.)*")*?//(.*)$`) // with strings before it
)

// proseOf returns the comment of a line of Go, or a line of a page without its code.
func proseOf(name, line string) string {
	if path.Ext(name) == ".go" {
		found := comment.FindStringSubmatch(line)
		if found == nil {
			return ""
		}
		line = found[1]
	}
	return code.ReplaceAllString(line, "")
}

// countAvoided counts the avoided words in the comments and pages of the whole repository.
func countAvoided(files []*source) (int, error) {
	list, err := avoidedWords()
	if err != nil {
		return 0, err
	}
	n := 0
	count := func(name, text string) {
		for line := range strings.Lines(text) {
			prose := proseOf(name, strings.TrimSpace(line))
			for _, a := range list {
				if prose != "" && a.words.MatchString(prose) {
					n++
				}
			}
		}
	}
	for _, f := range files {
		if !f.generated {
			count(f.name, f.text)
		}
	}
	return n, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		relative, notBelow := filepath.Rel(root, name)
		if err := errors.Join(err, notBelow); err != nil {
			return err
		}
		if entry.Name() == "node_modules" { // of others
			return filepath.SkipDir
		}
		if relative = filepath.ToSlash(relative); !strings.HasSuffix(name, ".md") || !isProse(relative) {
			return nil
		}
		text, err := os.ReadFile(name)
		count(relative, string(text))
		return err
	})
}

// git runs git in root and returns what it prints, trimmed.
func git(arguments ...string) (string, error) {
	command := exec.Command("git", arguments...)
	command.Dir = root
	out, err := command.Output()
	return strings.TrimSpace(string(out)), err
}

// changeBase returns the commit that a change is compared with: where it left main or, on main, the commit before.
func changeBase() (string, error) {
	head, err := git("rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	for _, branch := range []string{"main", "origin/main"} {
		if base, err := git("merge-base", "HEAD", branch); err == nil && base != head {
			return base, nil
		}
	}
	return git("rev-parse", "HEAD~1")
}

// added calls yield with each line that a diff adds to a file, but for lines that it only moves.
func added(diff string, yield func(name, line string)) {
	removed := make(map[string]bool)
	for line := range strings.Lines(diff) {
		if text, is := strings.CutPrefix(line, "-"); is {
			removed[strings.TrimSpace(text)] = true
		}
	}
	name := ""
	for line := range strings.Lines(diff) {
		if target, is := strings.CutPrefix(line, "+++ b/"); is {
			name = strings.TrimSpace(target)
		} else if text, is := strings.CutPrefix(line, "+"); is && !removed[strings.TrimSpace(text)] {
			yield(name, strings.TrimSpace(text))
		}
	}
}

// TestWordsOfTheChange looks for avoided words in the comments and pages that a change adds to.
func TestWordsOfTheChange(t *testing.T) {
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("not a git checkout: nothing to compare with")
	}
	list, err := avoidedWords()
	if err != nil {
		t.Fatal(err)
	}
	base, err := changeBase()
	if err != nil {
		t.Fatalf("no commit to compare with (a clone needs a depth of two commits): %v", err)
	}
	diff, err := git("diff", "--no-ext-diff", "-U0", "-M", base, "--", "*.go", "*.md")
	if err != nil {
		t.Fatal(err)
	}
	added(diff, func(name, line string) {
		for _, a := range list {
			if words := a.words.FindString(proseOf(name, line)); isProse(name) && words != "" {
				t.Errorf("%s: %q in %q: %s", name, words, line, a.advice)
			}
		}
	})
}

func TestAdded(t *testing.T) {
	const diff = "--- a/x.go\n+++ b/x.go\n@@ -1,2 +1,3 @@\n-// moved\n-x := 1 // old\n+\t// moved\n" +
		"+x := \"//\" // it is told\n--- /dev/null\n+++ b/y.md\n@@ -0,0 +1 @@\n+`whom` whoever\n"
	var got []string
	added(diff, func(name, line string) { got = append(got, name+":"+proseOf(name, line)) })
	if want := "[x.go: it is told y.md: whoever]"; fmt.Sprint(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if prose := proseOf("x.go", `u := "http://whom"`); prose != "" {
		t.Errorf("a string is taken for the comment %q", prose)
	}
}
