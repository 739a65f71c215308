package serve

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/cmdline"
)

var update = flag.Bool("update", false, "write the table of docs/configuration.md anew")

const (
	configurationPage = "../../docs/configuration.md"
	tableHead         = "| flag | variable | default | meaning |\n| --- | --- | --- | --- |\n"
)

// worded finds the default of a setting that is no value, in its usage.
var worded = regexp.MustCompile(` \(default: ([^)]*)\)`)

// configurationTable returns the rows of the page, which are made of Options.
func configurationTable() string {
	var rows strings.Builder
	rows.WriteString(tableHead)
	for _, o := range Options {
		fallback, usage := "none", o.Usage
		if o.Fallback != "" {
			fallback = "`" + o.Fallback + "`"
		} else if found := worded.FindStringSubmatch(usage); found != nil {
			fallback, usage = found[1], strings.Replace(usage, found[0], "", 1)
		}
		fmt.Fprintf(&rows, "| `--%s` | `%s` | %s | %s |\n", o.Name, cmdline.Variable(o.Name), fallback, usage)
	}
	return rows.String()
}

// TestConfigurationPage wants the table of docs/configuration.md to be that of the settings.
func TestConfigurationPage(t *testing.T) {
	page, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), tableHead)
	_, after, ends := strings.Cut(rest, "\n\n")
	if !found || !ends {
		t.Fatal("the page has no table of settings")
	}
	if want := before + configurationTable() + "\n" + after; *update {
		err = os.WriteFile(configurationPage, []byte(want), 0o644)
	} else if string(page) != want {
		t.Error("docs/configuration.md is not that of the settings: go test ./internal/serve -run Page -update")
	}
	if err != nil {
		t.Error(err)
	}
}

// TestSettings wants each setting to be explained and to have a value that it allows as its default.
func TestSettings(t *testing.T) {
	for _, o := range Options {
		if o.Usage == "" || o.placeholder() == "" {
			t.Errorf("--%s is not explained", o.Name)
		}
		if err := o.Set(new(Settings), cmp.Or(o.Fallback, "\x00")); (err == nil) != (o.Fallback != "") &&
			o.placeholder() != "TEXT" {
			t.Errorf("--%s: %v", o.Name, err)
		}
	}
	if len(usages) != len(Options) {
		t.Errorf("%d settings are explained of %d", len(usages), len(Options))
	}
}
