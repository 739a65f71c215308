package ratchets

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLogsPage wants every line of the log and every reason that docs/logs.md explains to be in the source, up to the
// first number or name in it.
func TestLogsPage(t *testing.T) {
	var source strings.Builder
	for _, folder := range []string{"server", "raftstore", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := os.ReadFile(name)
			source.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// A long string is split between lines of the source.
	joined := regexp.MustCompile(`" \+\n\s*"`).ReplaceAllString(source.String(), "")
	varies := regexp.MustCompile(`:? ?\.\.\.|\d+|\bN\b`)
	checked := 0
	for line := range strings.Lines(pages(t)["docs/logs.md"]) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, span := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			constant := strings.TrimSpace(varies.Split(span[1], 2)[0])
			if checked++; !strings.Contains(joined, constant) {
				t.Errorf("docs/logs.md explains %q, and nothing logs %q", span[1], constant)
			}
		}
	}
	if checked < 40 {
		t.Errorf("%d lines were checked", checked)
	}
}

// TestLimitsPage wants the values of docs/limits.md, and the texts beyond them, to be those of docs/dev/limits.md.
func TestLimitsPage(t *testing.T) {
	all := pages(t)
	full := all["docs/dev/limits.md"]
	number := regexp.MustCompile(`\d[\d,.^-]*\d( [KMG]iB)?|\d+ ([KMG]iB|min|days?|s)\b`)
	text := regexp.MustCompile(`"([^"(]+)`)
	checked := 0
	for line := range strings.Lines(all["docs/limits.md"]) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		wanted := number.FindAllString(cells[2], -1)
		for _, quoted := range text.FindAllStringSubmatch(cells[3], -1) {
			wanted = append(wanted, strings.TrimSpace(quoted[1]))
		}
		for _, want := range wanted {
			if checked++; !strings.Contains(full, want) {
				t.Errorf("docs/dev/limits.md does not have %q of the row %s", want, line)
			}
		}
	}
	if checked < 40 {
		t.Errorf("%d values and texts were checked", checked)
	}
}
