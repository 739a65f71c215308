package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
)

// What was exported is made again as it was, elsewhere too, and replaced only when that is asked for.
func TestExchange(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	s := sessionOf(t, c)
	odd := "a\x1b[2J\u202e\U000E0001\u0085\ufeff: \"x\" # y\n\tz\u2028\x7f"
	for name, data := range map[string]string{"greeting": "hello", "empty": "", "binary": "\xff\x00",
		"odd: \"name\"": odd, "number": "0x12", "word": "~", "long": strings.Repeat("lang ", 1000)} {
		if err := s.Create(t.Context(), name, 1<<64-1, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Acquire(t.Context(), protocol.Acquisition{Name: "gone soon", Count: 1,
		Ephemeral: true}); !got || err != nil {
		t.Fatal(got, err)
	}
	does(t, endpoint,
		"node create team/two --session-grace-period 5s --self-check-period 600ms --read-consistency strict "+
			"--attach-consistency relaxed --rate-limiter-counters detailed")
	whole := does(t, endpoint, "export")
	inOrder(t, whole, []string{"- node: app\n  semaphores:\n  - name: ",
		"- node: team/two\n  self_check_period_millis: 600\n  session_grace_period_millis: 5000\n" +
			"  read_consistency: strict\n  attach_consistency: relaxed\n  rate_limiter_counters: detailed"})
	if strings.ContainsAny(whole, "\x1b\u202e\U000E0001\u0085\u2028\x7f") ||
		strings.Contains(whole, "gone soon") {
		t.Errorf("a terminal would obey %q", whole)
	}
	file := t.TempDir() + "/nodes.yaml"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(whole)
	does(t, endpoint, "import --file "+file,
		"made 0 nodes and 0 semaphores, replaced 0 and 0, left 2 and 7 as they were")
	elsewhere := spawn(t, "serve", "--listen", "127.0.0.1:0", "--in-memory", "--listen-http", "off").ready(t)
	does(t, elsewhere, "import --file "+file,
		"made 2 nodes and 7 semaphores, replaced 0 and 0, left 0 and 0 as they were")
	if again := does(t, elsewhere, "export"); again != whole {
		t.Errorf("there is\n%s\nwant\n%s", again, whole)
	}
	if got := does(t, elsewhere, "export team"); strings.Contains(got, "- node: app") ||
		!strings.Contains(got, "- node: team/two") {
		t.Errorf("below team there is %s", got)
	}
	if err := s.Update(t.Context(), "greeting", []byte("goodbye")); err != nil {
		t.Fatal(err)
	}
	does(t, endpoint, "import --replace --file "+file,
		"made 0 nodes and 0 semaphores, replaced 2 and 7, left 0 and 0")
	if d := described(t, s, "greeting"); string(d.GetData()) != "hello" {
		t.Errorf("it is %v", d)
	}
	write("- node: app\n  semaphores:\n  - {name: greeting, limit: 3}\n")
	coordd(t, exit.Failure, []string{"import", "--replace", "--file", file, "-e", endpoint},
		`/local/app: "greeting" has a limit of 18446744073709551615, and cannot get one of 3`)
	if err := os.Truncate(file, importMost+1); err != nil {
		t.Fatal(err)
	}
	coordd(t, exit.Usage, []string{"import", "--file", file, "-e", endpoint}, "more than 67108864 bytes",
		"several files")
	for text, want := range map[string][]string{
		"- node: app\n  limit: 1\n": {file, "line 3: there is no key limit here"},
		"- semaphores: []\n":        {`node ""`, "no name"},
		"nodes\n":                   {file, "line 1: `nodes` is not allowed here"},
		"- node: app\n\tx: 1\n":     {file, "line 2", "tab"},
		"- {node: app, read_consistency: strong}": {`node "app"`, "read_consistency",
			"strict or relaxed"},
		"- {node: app, attach_consistency: strong}": {"attach_consistency",
			"strict or relaxed"},
		"- {node: app, rate_limiter_counters: x}": {"rate_limiter_counters",
			"aggregated or detailed"},
		"- {node: app, semaphores: [{name: a}]}": {`node "app": semaphore "a": limit`,
			"from 1 to"},
		"- {node: app, semaphores: [{limit: 1}]}": {"semaphore 1: name: no value"},
		"- {node: app, semaphores: [{name: a, limit: -1}]}": {file,
			"line 2: `-1` is not allowed here"},
		"- {node: app, semaphores: [{name: a, limit: 1, data: a, data_base64: YQ==}]}": {"data and data_base64"},
		"- {node: app, semaphores: [{name: a, limit: 1, data_base64: '?'}]}": {"data_base64",
			"illegal"},
	} {
		write("- {node: never}\n" + text)
		if strings.HasPrefix(text, "nodes") {
			write(text)
		}
		r := newRun(newFakeServer())
		r.begin("import", "--file", file, "-e", endpoint)
		if code := r.wait(t); code != exit.Usage {
			t.Errorf("%s: exit code %d, want %d", text, code, exit.Usage)
		}
		inOrder(t, r.log.String(), append([]string{"coordd: flag --file: "}, want...))
	}
	if tree := does(t, endpoint, "node tree"); strings.Contains(tree, "never") {
		t.Errorf("a file that is refused was begun:\n%s", tree)
	}
}

// Every name that a semaphore may have is exported and imported, and listed as it is.
func TestOddNames(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	s := sessionOf(t, c)
	names := []string{"", strings.Repeat("n", protocol.NameMost), "a\x01b", "x\ny", "ab", "\ttab", "\u202e", `"quoted"`,
		" "}
	for _, name := range names {
		if err := s.Create(t.Context(), name, 1, []byte(name)); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
	}
	file := t.TempDir() + "/nodes.yaml"
	if err := os.WriteFile(file, []byte(does(t, endpoint, "export")), 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := spawn(t, "serve", "--listen", "127.0.0.1:0", "--in-memory", "--listen-http", "off").ready(t)
	does(t, elsewhere, "import --file "+file, "made 1 node and 9 semaphores")
	var listed []struct {
		Name string
		Size int `json:"name_bytes"`
	}
	if err := json.Unmarshal([]byte(does(t, elsewhere, "semaphore ls app -o json")), &listed); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range listed {
		got = append(got, row.Name)
		if row.Size != len(row.Name) {
			t.Errorf("%q has %d bytes, listed are %d", row.Name, len(row.Name), row.Size)
		}
	}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(names))) {
		t.Errorf("listed: %q", got)
	}
	if table := does(t, elsewhere, "semaphore ls app", `nnn"... (1024 bytes)`); strings.ContainsAny(table,
		"\x01\t\u202e") ||
		strings.Count(table, "\n") != len(names) {
		t.Errorf("a terminal would obey %q", table)
	}
}

// A NAME that is empty, unless that is allowed, or not UTF-8 is refused by every command that takes one.
func TestEmptyName(t *testing.T) {
	t.Parallel()
	_, endpoint, _ := lockServer(t)
	for _, command := range []string{"lock app NAME -- true", "elect app NAME -- true", "discover app NAME",
		"config get app NAME", "config set app NAME x", "config watch app NAME", "semaphore create app NAME",
		"semaphore set app NAME x", "semaphore show app NAME", "semaphore delete app NAME",
		"semaphore release app NAME",
		"semaphore take-over app NAME", "semaphore watch app NAME"} {
		args := strings.Fields(command)
		args[slices.Index(args, "NAME")] = ""
		code := exit.Usage
		if slices.Contains(args, "--") && args[0] != "config" { // that of a command that was not run
			code = exit.NotRun
		}
		coordd(t, code, args, "argument NAME: it is empty")
		args[slices.Index(args, "")] = "\xff"
		coordd(t, code, args, "argument NAME: value", "want UTF-8")
	}
	for _, command := range [][]string{{"config", "set", "app", "", "x"}, {"config", "get", "app", ""}} {
		got := runBinary(t, []string{"COORDD_ENDPOINT=" + endpoint}, append(command, "--empty-name")...)
		if got.code != exit.OK || command[1] == "get" && got.stdout != "x" {
			t.Errorf("%q: exit code %d, %q", command, got.code, got.stdout)
		}
	}
}
