package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	sdk   = "github.com/ydb-platform/ydb-go-sdk/v3"
	suite = sdk + "/tests/integration"
	// patience is for one of the SDK's tests. The longest takes 10 s on a quiet machine.
	patience = 3 * time.Minute
	// suiteName is the heading of the results.
	suiteName = "Go, the SDK's own integration tests"
	// resultsVariable names a file for what passed, a line each: suiteName, version of the SDK, test, way,
	// result, and a note (why it was not run, or which part was), separated by tabs. .ci/tools/sdks makes the
	// table of docs/sdks.md of it.
	resultsVariable = "COMPAT_RESULTS"
)

// wanted are the tests that concern what coordd serves, or the part of them that does.
var wanted = []struct {
	name   string
	part   string            // a subtest, empty: all of it
	ways   []string          // nil: all
	except map[string]string // why it is not run in some way
}{
	{name: "TestCoordinationSemaphore"},
	{name: "TestCoordinationSemaphoreWatch"},
	{name: "TestDiscovery", except: map[string]string{
		"user": "with a user's name the test waits for itself: its balancer asks for a token while it holds the lock that the token needs"}},
	{name: "TestStaticCredentials"},
	{name: "TestMonitoring", except: callsAnonymously},
	{name: "TestRatelimiter"},
	{name: "TestConnectionSecure", part: "discovery.WhoAmI", ways: []string{"tls"}},
	{name: "TestConnectionWithCompression", part: "discovery.WhoAmI", except: map[string]string{
		"user": "the test wants a user agent in the context of every call, and the SDK's own login has none there"}},
	{name: "TestOperationList"},
	{name: "TestRegisterDsnParser", except: callsAnonymously},
	{name: "TestMultipleClosingDriverIssue1585", except: callsAnonymously},
}

var callsAnonymously = map[string]string{"token": "the test calls without its token, and is rightly refused"}

// elsewhere says why the tests of the other files are not run: they are of services that coordd does not
// have.
var elsewhere = []struct{ files, reason string }{
	{"basic_example_*", "tables"},
	{"database_sql_*", "tables, by database/sql"},
	{"decimal*", "queries"},
	{"driver_test.go",
		"TestDriver needs tables; TestZeroDialTimeout and TestClusterDiscoveryRetry need no server"},
	{"hint_session_balancer*", "query sessions"},
	{"kv_*", "tables"},
	{"metrics_registry*", "query sessions"},
	{"query_*", "queries"},
	{"retry_budget*", "tables"},
	{"retryable_error_*", "tables"},
	{"scripting*", "scripts"},
	{"session_core*", "query sessions"},
	{"sugar_*", "tables; TestSugarMakeRemoveRecursive makes directories, and then a table"},
	{"table_*", "tables"},
	{"topic_*", "topics"},
	{"transactional_writer_*", "topics"},
	{"tx_*", "transactions of queries"},
	{"with_trace_retry*", "tables"},
}

// TestUpstream runs the tests that are wanted in every way.
func TestUpstream(t *testing.T) {
	program := compileSuite(t)
	version := versionOf(t)
	results := &results{suite: suiteName, version: version}
	t.Cleanup(func() { results.publish(t) })
	for _, way := range startWays(t) {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			way.turn.Lock()
			defer way.turn.Unlock()
			for _, w := range wanted {
				if w.ways != nil && !slices.Contains(w.ways, way.kind) {
					continue
				}
				if reason := w.except[way.kind]; reason != "" {
					results.add(w.name, way.name, "not run", reason)
					continue
				}
				if err := runUpstream(t, program, w.name, w.part, way.environment); err != nil {
					results.add(w.name, way.name, "FAILED", "")
					t.Errorf("%s: %v", w.name, err)
					continue
				}
				results.add(w.name, way.name, "passed", partNote(w.part))
			}
		})
	}
}

func partNote(part string) string {
	if part == "" {
		return ""
	}
	return "its part " + part
}

// TestEveryTestIsListed wants each of the SDK's tests to be run, or to be in a file that is left out for a
// reason, so that a new version of the SDK brings none that nobody has looked at.
func TestEveryTestIsListed(t *testing.T) {
	directory := moduleDirectory(t)
	files, err := filepath.Glob(filepath.Join(directory, "tests", "integration", "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", directory, err)
	}
	missing := make(map[string]bool)
	for _, w := range wanted {
		missing[w.name] = true
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		left := leftOut(filepath.Base(file))
		for name := range testsOf(parsed) {
			if !missing[name] && left == "" {
				t.Errorf("%s in %s is neither run nor left out for a reason", name, filepath.Base(file))
			}
			delete(missing, name)
		}
	}
	for name := range missing {
		t.Errorf("the SDK has no test %s", name)
	}
}

func leftOut(file string) string {
	for _, e := range elsewhere {
		if match, _ := filepath.Match(e.files, file); match {
			return e.reason
		}
	}
	return ""
}

// compileSuite compiles the SDK's tests from the module cache.
func compileSuite(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "integration.test")
	compile := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-tags", "integration", "-o",
		program, suite)
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", compile, err, out)
	}
	return program
}

func moduleDirectory(t *testing.T) string { return goList(t, "{{.Dir}}") }

func versionOf(t *testing.T) string { return goList(t, "{{.Version}}") }

func goList(t *testing.T, format string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", format, sdk).Output()
	if err != nil {
		t.Fatalf("go list -m %s: %v", sdk, err)
	}
	return strings.TrimSpace(string(out))
}

// runUpstream runs one of the SDK's tests in a process of its own, and fails unless it has passed: one that
// is skipped has not.
func runUpstream(t *testing.T, program, name, part string, environment []string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pattern, said := "^"+name+"$", "--- PASS: "+name+" ("
	if part != "" {
		pattern, said = pattern+"/^"+regexp.QuoteMeta(part)+"$", "--- PASS: "+name+"/"+part+" ("
	}
	run := exec.CommandContext(ctx, program, "-test.v", "-test.run", pattern, "-test.timeout",
		patience.String())
	run.Dir = t.TempDir()
	run.Env = append(slices.DeleteFunc(os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, "YDB_") }), environment...)
	out, err := run.CombinedOutput()
	if err == nil && !bytes.Contains(out, []byte(said)) {
		err = errors.New("it has not run")
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out[max(0, len(out)-8000):])
	}
	return nil
}

// results are the tests that passed.
type results struct {
	suite, version string

	mutex sync.Mutex
	lines []string
}

func (r *results) add(test, way, result, note string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.lines = append(r.lines, strings.Join([]string{r.suite, r.version, test, way, result, note}, "\t"))
}

// publish prints the results, and writes them to the file that resultsVariable names.
func (r *results) publish(t *testing.T) {
	slices.Sort(r.lines)
	var out io.Writer = os.Stdout
	if name := os.Getenv(resultsVariable); name != "" {
		file, err := os.Create(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		out = io.MultiWriter(out, file)
	}
	for _, line := range r.lines {
		fmt.Fprintln(out, line)
	}
}
