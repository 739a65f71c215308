package console_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// maxWebBytes bounds all files of the page together. There is no build step, so a browser loads all of it.
const maxWebBytes = 260_000

// webFiles returns the files of the page by name.
func webFiles(t *testing.T) map[string]string {
	t.Helper()
	files := make(map[string]string)
	web := os.DirFS("web")
	err := fs.WalkDir(web, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(web, name)
		files[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files["index.html"] == "" || files["main.mjs"] == "" {
		t.Fatal("the page is not there")
	}
	return files
}

func TestWebIsSmall(t *testing.T) {
	t.Parallel()
	total := 0
	for _, content := range webFiles(t) {
		total += len(content)
	}
	if total > maxWebBytes {
		t.Errorf("the page's files have %d bytes together, want at most %d", total, maxWebBytes)
	}
}

// The modules of others are those that vendor/SOURCES names.
func TestWebSources(t *testing.T) {
	t.Parallel()
	files := webFiles(t)
	row := regexp.MustCompile(`(?m)^(\S+\.mjs) .*\n\s+\S+\s+([0-9a-f]{64})$`)
	listed := make(map[string]bool)
	for _, row := range row.FindAllStringSubmatch(files["vendor/SOURCES"], -1) {
		name, want := "vendor/"+row[1], row[2]
		listed[name] = true
		if sum := sha256.Sum256([]byte(files[name])); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s has the sha256 %x, vendor/SOURCES says %s", name, sum, want)
		}
	}
	for name := range files {
		if strings.HasPrefix(name, "vendor/") && path.Ext(name) == ".mjs" && !listed[name] {
			t.Errorf("vendor/SOURCES does not name %s", name)
		}
	}
}

// What no file of ours may have, and why.
var forbidden = []struct{ pattern, why string }{
	{`\b(inner|outer)HTML\b|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|srcdoc`,
		"names of clients are shown as text only"},
	{`\beval\(|new Function\b|javascript:`, "the page runs its own modules only"},
	{`\sstyle="|<style|<script(>| [^>]*[^/]>[^<])|\son[a-z]+="`,
		"the policy forbids inline styles, scripts and handlers"},
	{`\bNumber\(|\bparseFloat\(|[=(,:?&|\[{]\s*\+\s*[A-Za-z_(]`,
		"numbers of 64 bits lose digits: use big or small of format.mjs"},
	{`document\.cookie|localStorage`, "the session is kept in sessionStorage only"},
	{`https?://`, "the page uses its own server only"},
}

// small of format.mjs is the place where a number that may be large becomes one of JavaScript.
const exempt = "return Number(value > most ? most : value);"

func TestWebHasNothingForbidden(t *testing.T) {
	t.Parallel()
	exempted := 0
	for name, content := range webFiles(t) {
		if strings.HasPrefix(name, "vendor/") || name == "mark.svg" {
			continue
		}
		for i, line := range strings.Split(content, "\n") {
			if strings.TrimSpace(line) == exempt {
				exempted++
				continue
			}
			for _, f := range forbidden {
				if found := regexp.MustCompile(f.pattern).FindString(line); found != "" {
					t.Errorf("web/%s:%d has %q: %s", name, i+1, found, f.why)
				}
			}
		}
	}
	if exempted != 1 {
		t.Errorf("%d lines are %q, want one", exempted, exempt)
	}
	for _, bad := range []string{"x.innerHTML = y", "f(Number(s.count))", "const n = +s.count", `<b style="color:red">`,
		"<script>alert(1)</script>"} {
		if !matchesForbidden(bad) {
			t.Errorf("%q is not found to be forbidden", bad)
		}
	}
}

func matchesForbidden(line string) bool {
	for _, f := range forbidden {
		if regexp.MustCompile(f.pattern).MatchString(line) {
			return true
		}
	}
	return false
}

// The page's text and comments avoid the words that comments and docs avoid.
func TestWebWords(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../conformance/ratchets/words.txt")
	if err != nil {
		t.Fatal(err)
	}
	files := webFiles(t)
	for rule := range strings.Lines(string(rules)) {
		words, advice, found := strings.Cut(strings.TrimSpace(rule), "\t")
		if !found || strings.HasPrefix(rule, "#") {
			continue
		}
		avoided := regexp.MustCompile("(?i)" + words)
		for name, content := range files {
			if strings.HasPrefix(name, "vendor/") {
				continue
			}
			for i, line := range strings.Split(content, "\n") {
				if found := avoided.FindString(line); found != "" {
					t.Errorf("web/%s:%d has %q: %s", name, i+1, found, advice)
				}
			}
		}
	}
}
