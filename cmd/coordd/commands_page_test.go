package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/exit"
)

// TestCommandsPage wants docs/commands.md to have each command that asks a server as a client does, and each field of
// their output.
func TestCommandsPage(t *testing.T) {
	page := readFile(t, "docs/commands.md")
	p := newRun(newFakeServer())
	leaves(newRoot(&p.Env, p.seams), func(command *cobra.Command) {
		if row := fmt.Sprintf("| `%s` | %s | ", command.CommandPath(),
			command.Short); command.ValidArgsFunction != nil &&
			command.Parent().Name() != "completion" && !strings.Contains(page, row) {
			t.Errorf("docs/commands.md has no row %q", row)
		}
	})
	_, fields, _ := strings.Cut(page, "| field | meaning |")
	for _, shown := range []any{nodeShown{}, nodeRow{}, entryRow{}, semaphoreShown{}, semaphoreRow{},
		sessionShown{}, changeShown{}, configShown{}, leaderShown{}, offersShown{}, topShown{},
		resourceShown{}, resourceRow{}, benchShown{}, finding{}, statusShown{}, limitsShown{},
		reportShown{}, healthShown{}, versionShown{}, userRow{}} {
		for _, name := range fieldsOf(reflect.TypeOf(shown)) {
			if !strings.Contains(fields, "`"+name+"`") {
				t.Errorf("docs/commands.md does not explain the field %s of %T", name, shown)
			}
		}
	}
}

// TestConsoleNamesCommands wants each command that the console's pages name to exist, without a name of a client's in
// it: people copy them into a shell.
func TestConsoleNamesCommands(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "server", "console", "web", "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	p := newRun(newFakeServer())
	program, named := newRoot(&p.Env, p.seams), 0
	for _, page := range pages {
		text := readFile(t, filepath.Join("server", "console", "web", filepath.Base(page)))
		commands := regexp.MustCompile(`\bcoordd ([a-z][a-z-]*( [a-z-]+)?)[^<,)]*`)
		for _, line := range commands.FindAllStringSubmatch(text, -1) {
			command, rest, err := program.Find(strings.Fields(line[1]))
			switch named++; {
			case err != nil || command == program || command.HasSubCommands():
				t.Errorf("%s names no command: %s, %v", filepath.Base(page), line[0], err)
			case strings.Contains(line[0], "${") && !strings.Contains(line[0], `${'\n'}`):
				t.Errorf("%s puts something into a command: %s, %v", filepath.Base(page), line[0], rest)
			}
		}
	}
	if named < 5 {
		t.Errorf("only %d commands", named)
	}
}

var update = flag.Bool("update", false, "rewrite the exit codes in docs/commands.md")

// TestExitCodesPage wants the table of exit codes in docs/commands.md to be that of the code, and the unit of the
// packages to leave a server alone after exactly those that no restart mends.
func TestExitCodesPage(t *testing.T) {
	const name, head = "docs/commands.md", "| exit code | meaning |\n| --- | --- |\n"
	before, rest, found := strings.Cut(readFile(t, name), head)
	_, after, ends := strings.Cut(rest, "\n\n")
	if !found || !ends {
		t.Fatal("the page has no table of exit codes")
	}
	table := head
	for _, entry := range exitCodes {
		table += fmt.Sprintf("| %d | %s |\n", entry.code, entry.text)
	}
	switch want := before + table + "\n" + after; {
	case *update:
		if err := os.WriteFile(filepath.Join(root, name), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	case readFile(t, name) != want:
		t.Error("docs/commands.md has other exit codes: go test ./cmd/coordd -run ExitCodesPage -update")
	}
	// Not exit.Usage, which a crash of the Go runtime has in common with a wrong flag.
	prevented := fmt.Sprintf("\nRestartPreventExitStatus=%d %d %d %d\n", exit.Config, exit.Removed, exit.Diverged,
		exit.Damaged)
	if !strings.Contains(readFile(t, "deploy/package/coordd.service"), prevented) {
		t.Errorf("the unit has no line %q", prevented)
	}
}

// fieldsOf is the names of all fields in the json of a type.
func fieldsOf(of reflect.Type) (names []string) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		return fieldsOf(of.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.Anonymous && (name == "" || name == "-") {
			continue
		}
		if name != "" {
			names = append(names, name)
		}
		names = append(names, fieldsOf(field.Type)...)
	}
	return names
}
