package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	// programsVariable names a folder of programs on another SDK, programsVersionVariable the version of
	// that.
	programsVariable        = "COMPAT_PROGRAMS"
	programsVersionVariable = "COMPAT_PROGRAMS_VERSION"
	programsName            = "C++, programs on the SDK's public API"
)

// TestPrograms runs programs of compat/cpp in every way. Each finds its server as the SDK's own tests do, and prints
// its results in the form of TAP.
func TestPrograms(t *testing.T) {
	directory := os.Getenv(programsVariable)
	if directory == "" {
		t.Skip(programsVariable + " names no folder: `make compat-cpp` builds it and runs this")
	}
	programs, err := filepath.Glob(filepath.Join(directory, "*"))
	if err != nil || len(programs) == 0 {
		t.Fatalf("no programs in %s: %v", directory, err)
	}
	results := &results{suite: programsName, version: os.Getenv(programsVersionVariable)}
	t.Cleanup(func() { results.publish(t) })
	ways := startWays(t)
	discovering := ways[slices.IndexFunc(ways, func(w way) bool { return w.kind == "servers" })]
	discovering.name = "three by discovery"
	for i, way := range ways {
		if way.kind == "servers" {
			ways[i].environment = append(slices.Clone(way.environment), "COMPAT_PINNED=yes")
		}
	}
	for _, way := range append(ways, discovering) {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			way.turn.Lock()
			defer way.turn.Unlock()
			for _, program := range programs {
				name := filepath.Base(program)
				checks, err := runProgram(t, program, way.environment)
				if err != nil {
					results.add(name, way.name, "FAILED", "")
					t.Errorf("%s: %v", name, err)
					continue
				}
				results.add(name, way.name, "passed", fmt.Sprint(checks, " checks"))
			}
		})
	}
}

func runProgram(t *testing.T, program string, environment []string) (int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	run := exec.CommandContext(ctx, program)
	run.Env = append(slices.DeleteFunc(os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, "YDB_") }), environment...)
	var stderr strings.Builder
	run.Stderr = &stderr
	out, err := run.Output()
	checks, said := readTAP(string(out))
	if err = errors.Join(err, said); err != nil {
		return 0, fmt.Errorf("%w\n%s%s", err, out, stderr.String())
	}
	return checks, nil
}

var tapLine = regexp.MustCompile(`(?m)^(?:(ok|not ok) \d+\b.*|1\.\.(\d+)|(Bail out!).*)$`)

// readTAP returns the number of checks that a program has made, if it matches the plan and no check has failed.
func readTAP(out string) (checks int, err error) {
	planned := ""
	for _, found := range tapLine.FindAllStringSubmatch(out, -1) {
		switch {
		case found[3] != "", found[1] == "not ok":
			return 0, errors.New(found[0])
		case found[2] != "":
			planned = found[2]
		default:
			checks++
		}
	}
	if checks == 0 || fmt.Sprint(checks) != planned {
		return 0, fmt.Errorf("%d checks, and %q planned", checks, planned)
	}
	return checks, nil
}

func TestReadTAP(t *testing.T) {
	for out, want := range map[string]int{
		"ok 1 - a\nok 2 - b\n1..2\n":            2,
		"ok 1 - a\n# note\n1..1\n":              1,
		"":                                      0,
		"1..0\n":                                0,
		"ok 1 - a\n":                            0, // it has ended early
		"ok 1 - a\n1..2\n":                      0,
		"ok 1 - a\nnot ok 2 - b\n1..2\n":        0,
		"ok 1 - a\nBail out! no answer\n1..1\n": 0,
		"ok 1 - a\nnot ok 2 - b # TODO c\n1..2\n": 0,
	} {
		if got, err := readTAP(out); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v", out, got, err)
		}
	}
}
