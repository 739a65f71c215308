package doubles

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// resultsVariable names a file for what was shown, a line each: SDK, its version, test, way, result and a
// note, separated by tabs. The result is "double" or "FAILED", and "not run" where the note says why.
const resultsVariable = "COMPAT_RESULTS"

var results struct {
	sync.Mutex
	lines []string
}

// show records what a test shows about an SDK when it has ended.
func show(t *testing.T, sdk, version, test, way, note string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Skipped() {
			return
		}
		result := "double"
		if t.Failed() {
			result = "FAILED"
		}
		record(sdk, version, test, way, result, note)
	})
}

func record(columns ...string) {
	results.Lock()
	defer results.Unlock()
	results.lines = append(results.lines, strings.Join(columns, "\t"))
}

// TestMain prints the results, and adds them to the file that resultsVariable names.
func TestMain(m *testing.M) {
	code := m.Run()
	slices.Sort(results.lines)
	out := io.Writer(os.Stdout)
	if name := os.Getenv(resultsVariable); name != "" {
		file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		defer file.Close()
		out = io.MultiWriter(out, file)
	}
	for _, line := range results.lines {
		fmt.Fprintln(out, line)
	}
	os.Exit(code)
}
