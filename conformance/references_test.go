package conformance_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// specification is where the text is that comments, rules and transcripts cite.
const specification = "../docs/dev/spec"

// subjects are the folders whose § are not those of coordination.md.
var subjects = map[string]string{"coordination/quota": "ratelimiter"}

var (
	heading   = regexp.MustCompile(`(?m)^#{2,} ([0-9]+(?:\.[0-9]+)*)\.? `)
	reference = regexp.MustCompile(`(?:\b([a-z-]+)(?:\.md)? )?§ ?([0-9]+(?:\.[0-9]+)*)`)
)

// TestReferencesResolve wants every § in the repository to be a section of the specification. What stands
// before the § names the file of docs/dev/spec, and holds for what follows on the same line; without a name it is
// coordination.md, or what the folder is about.
func TestReferencesResolve(t *testing.T) {
	sections := make(map[string]map[string]bool)
	texts, err := filepath.Glob(specification + "/*.md")
	if err != nil || len(texts) == 0 {
		t.Fatalf("no texts in %s: %v", specification, err)
	}
	for _, text := range texts {
		content, err := os.ReadFile(text)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(text), ".md")
		sections[name] = make(map[string]bool)
		for _, match := range heading.FindAllStringSubmatch(string(content), -1) {
			sections[name][match[1]] = true
		}
	}
	found := 0
	for _, path := range filesOfTheRepository(t) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := "coordination"
		if folder := filepath.ToSlash(filepath.Dir(path)); folder == specification {
			text = strings.TrimSuffix(filepath.Base(path), ".md")
		} else if subject := subjects[strings.TrimPrefix(folder, "../")]; subject != "" {
			text = subject
		}
		for number, line := range strings.Split(string(content), "\n") {
			if !strings.Contains(line, "§") {
				continue // the expression is dear
			}
			current := text
			for _, match := range reference.FindAllStringSubmatch(line, -1) {
				if sections[match[1]] != nil {
					current = match[1]
				}
				if match[2] == "99" {
					continue // tests refuse it
				}
				if found++; !sections[current][match[2]] {
					t.Errorf("%s:%d: §%s is no section of %s.md", path, number+1, match[2], current)
				}
			}
		}
	}
	if found < 300 {
		t.Errorf("only %d references found", found)
	}
}

// filesOfTheRepository are the texts that may cite the specification.
func filesOfTheRepository(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir("..", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "bin" || strings.HasPrefix(entry.Name(), ".") &&
			entry.Name() != ".."):
			return filepath.SkipDir
		case entry.IsDir() || strings.HasSuffix(path, ".pb.go"):
			return nil
		}
		switch filepath.Ext(path) {
		case ".go", ".md", ".txt", ".proto":
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
