package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/server"
)

// versionOf returns the version that `config get --meta` prints.
func versionOf(t *testing.T, endpoint, name string) uint64 {
	t.Helper()
	shown := does(t, endpoint, "config get app "+name+" --meta", "version", "changed", "author   unknown, or nobody",
		"bytes")
	version, err := strconv.ParseUint(strings.Fields(shown)[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// TestConfigVersions: of two changes of the same version one wins, and the refusal of the other names both versions.
func TestConfigVersions(t *testing.T) {
	t.Parallel()
	_, endpoint, c := lockServer(t)
	set := func(want exit.Code, data string, version uint64, stderr string) {
		t.Helper()
		coordd(t, want, []string{"config", "set", "app", "settings", data, "--if-version",
			strconv.FormatUint(version, 10), "--endpoint", endpoint}, stderr)
	}
	set(exit.Conflict, "a", 5, `"settings": Version 5 was expected, but there is no such semaphore`)
	set(exit.OK, "a", 0, "")
	first := versionOf(t, endpoint, "settings")
	set(exit.OK, "b", first, "")
	set(exit.Conflict, "c", first, "Version "+strconv.FormatUint(first, 10)+" was expected, but it has version "+
		strconv.FormatUint(first+1, 10))
	set(exit.Conflict, "c", 0, "Version 0 was expected")
	if err := sessionOf(t, c).Update(t.Context(), "settings", []byte("by the protocol")); err != nil {
		t.Fatal(err)
	}
	set(exit.Conflict, "c", first+1, "")
	shown := parsed(t, does(t, endpoint, "config get app settings --meta -o json"))
	if at(t, shown, "data") != "by the protocol" || at(t, shown, "version") != float64(first+2) ||
		at(t, shown, "author") != nil || at(t, shown, "data_bytes") != 15.0 {
		t.Error(shown)
	}
	does(t, endpoint, "semaphore show app settings", "version "+strconv.FormatUint(first+2, 10)+", since 20")
	does(t, endpoint, "semaphore delete app settings")
	set(exit.Conflict, "c", first+2, "there is no such semaphore")
	does(t, endpoint, "config set app settings anew")
	if again := versionOf(t, endpoint, "settings"); again <= first+2 {
		t.Errorf("made again it has version %d, the one before had %d", again, first+2)
	}
	set(exit.Conflict, "c", first+2, "Version")
	coordd(t, exit.NotFound, []string{"config", "get", "app", "other", "--meta", "--endpoint", endpoint},
		`"other" of /local/app: Semaphore does not exist`)
	coordd(t, exit.NotFound, []string{"config", "set", "nowhere", "x", "y", "--if-version", "0", "-e", endpoint},
		"There is no such directory")
}

// TestConfigHistory: former versions are listed with what the history of the node keeps of them. A second of the log
// passes with each entry, so that each version lasts for long enough.
func TestConfigHistory(t *testing.T) {
	t.Parallel()
	s, err := server.StartWith(t.Context(), server.Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true,
		LoopbackAdmin: true}, hooks.Hooks{Executed: func(m *coordination.Machine, e *coordination.Entry) {
		e.StampMillis = max(e.StampMillis, m.StampMillis()+1000)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	endpoint := "grpc://" + s.Addr().String() + "/local"
	nodeOf(t, endpoint)
	history := func(node string) any {
		return parsed(t, does(t, endpoint, "config history "+node+" settings -o json"))
	}
	does(t, endpoint, "node create other --history data", "made /local/other")
	does(t, endpoint, "node create quiet --history none", "made /local/quiet")
	for _, node := range []string{"app", "other", "quiet"} {
		does(t, endpoint, "config set "+node+" settings first")
		if shown := history(node); len(shown.([]any)) != 1 || at(t, shown, 0, "data") != "first" {
			t.Error(node, shown)
		}
	}
	for _, node := range []string{"app", "other", "quiet"} {
		does(t, endpoint, "config set "+node+" settings second")
	}
	if shown := history("app"); len(shown.([]any)) != 2 || at(t, shown, 0, "data_bytes") != 5.0 {
		t.Error(shown)
	} else if at(t, shown, 0).(map[string]any)["data"] != nil {
		t.Error("the data of a former version is kept without being asked for")
	}
	does(t, endpoint, "config history app settings", "VERSION", "not kept", `"second"`)
	if shown := history("other"); len(shown.([]any)) != 2 || at(t, shown, 0, "data") != "first" {
		t.Error(shown)
	}
	if shown := history("quiet"); len(shown.([]any)) != 1 {
		t.Error(shown)
	}
	coordd(t, exit.OK, strings.Fields("config history quiet settings --endpoint "+endpoint),
		"keeps no former versions; `coordd node alter /local/quiet --history meta` changes that")
	does(t, endpoint, "node show other", "history                data")
	exported := does(t, endpoint, "export other")
	does(t, endpoint, "node alter other --history none", "changed /local/other")
	if shown := history("other"); len(shown.([]any)) != 1 {
		t.Error("former versions are left:", shown)
	}
	file := filepath.Join(t.TempDir(), "nodes.yaml")
	if err := os.WriteFile(file, []byte(exported), 0o600); err != nil {
		t.Fatal(err)
	}
	does(t, endpoint, "import --replace --file "+file)
	does(t, endpoint, "node show other", "history                data")
	coordd(t, exit.Usage, []string{"node", "alter", "app", "--history", "much", "--endpoint", endpoint},
		"want none, meta or data")
}

// TestEditingConfigurationRecipe runs the recipe, twice: alone, and with a change by somebody else beside it.
func TestEditingConfigurationRecipe(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## Editing configuration\n")
	script := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(rest)
	if script == nil {
		t.Fatal("docs/recipes.md has no script")
	}
	_, endpoint, _ := lockServer(t)
	does(t, endpoint, "config set app settings before")
	for _, other := range []string{":", "coordd config set app settings theirs"} {
		place := t.TempDir()
		editor := filepath.Join(place, "editor")
		if err := os.WriteFile(editor, []byte("#!/bin/sh -e\n"+other+"\necho mine >>\"$1\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		output, err := shellIn(t, place, []string{"COORDD_ENDPOINT=" + endpoint, "EDITOR=" + editor}, "sh", "-e", "-c",
			script[1])
		got := does(t, endpoint, "config get app settings")
		switch {
		case other == ":" && (err != nil || got != "beforemine"):
			t.Errorf("alone: %v, %q\n%s", err, got, output)
		case other != ":" && (err == nil || err.Error() != "exit status 124" || got != "theirs"):
			t.Errorf("beside another change: %v, %q\n%s", err, got, output)
		}
	}
}
