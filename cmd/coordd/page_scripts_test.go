package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// runScript runs a script of a page against a server of its own, with programs for those that the page only names.
func runScript(t *testing.T, script string) {
	t.Helper()
	_, endpoint, _ := lockServer(t)
	place := t.TempDir()
	for _, name := range []string{"report.sh", "reload", "web"} {
		if err := os.WriteFile(filepath.Join(place, name), []byte("#!/bin/sh\necho done\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script = strings.NewReplacer("/srv/report", place, "\n...\n", "\n").Replace("coordd node create locks\n" + script)
	output, err := shellIn(t, place, []string{"COORDD_ENDPOINT=" + endpoint}, "sh", "-e", "-c", script)
	if err != nil {
		t.Errorf("%v\n%s\n%s", err, script, output)
	}
}

// TestPageScripts runs the blocks of the pages that name it in their mark.
func TestPageScripts(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	marked := regexp.MustCompile("(?s)<!-- run: TestPageScripts -->\n```\\w*\n(.*?)```")
	found := 0
	for _, page := range pages {
		text := readFile(t, filepath.Join("docs", filepath.Base(page)))
		for _, block := range marked.FindAllStringSubmatch(text, -1) {
			found++
			runScript(t, block[1])
		}
	}
	if found == 0 {
		t.Error("no page has a block for this test")
	}
}

// TestMigrationPage runs the commands in the tables of docs/migration.md, one after the other. What follows something
// for ever ends after the first change. Commands without arguments are only named, and those for administrators are
// examples of their help.
func TestMigrationPage(t *testing.T) {
	t.Parallel()
	var script strings.Builder
	commands := regexp.MustCompile("`(coordd [^`]+)`")
	for line := range strings.Lines(readFile(t, "docs/migration.md")) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, found := range commands.FindAllStringSubmatch(line, -1) {
			command := strings.NewReplacer("--publish 10.0.0.7:8080", "--publish 10.0.0.7:8080 -- ./web",
				" watch app settings", " watch app settings --changes 1", "-- ...", "-- ./report.sh").Replace(found[1])
			switch {
			case strings.HasPrefix(command, "coordd cluster "), strings.Count(command, " ") < 3:
			case strings.Contains(command, "--keep"):
				script.WriteString(`eval "$(` + command + ")\"\n")
			default:
				script.WriteString(command + "\n")
			}
		}
	}
	if n := strings.Count(script.String(), "\n"); n < 12 {
		t.Fatalf("%d commands", n)
	}
	runScript(t, script.String())
}
