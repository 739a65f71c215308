package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestCommandsPage wants docs/commands.md to have each command that asks a server as a client does, each
// field of what they print, and each exit code.
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
	_, fields, _ := strings.Cut(page, "| field | what it is |")
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
	for _, entry := range exitCodes {
		if row := fmt.Sprintf("| %d | %s |\n", entry.code, entry.text); !strings.Contains(page, row) {
			t.Errorf("docs/commands.md has no row %q", row)
		}
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
