package testmode

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// WithoutRace declares that t runs without the race detector, and skips t under it: t runs on one goroutine, or it
// repeats many times something that smaller tests run with the detector. It is the first statement of a test.
func WithoutRace(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("runs without the race detector")
	}
}

// Long leaves t out of a run with -short, such as that of make check: t takes many seconds.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out by -short")
	}
}

// Pure runs the tests of a package without goroutines, from its TestMain, without the race detector. Under it only the
// raced ones run, those that start goroutines themselves, and those that -run names.
func Pure(m *testing.M, raced ...func(*testing.T)) {
	flag.Parse()
	if Race && flag.Lookup("test.run").Value.String() == "" {
		if len(raced) == 0 {
			fmt.Println("runs without the race detector")
			return
		}
		only(raced)
	}
	os.Exit(m.Run())
}

// only restricts the run to the given tests.
func only(tests []func(*testing.T)) {
	names := make([]string, len(tests))
	for i, test := range tests {
		path := runtime.FuncForPC(reflect.ValueOf(test).Pointer()).Name()
		names[i] = path[strings.LastIndex(path, ".")+1:]
	}
	if err := flag.Set("test.run", "^("+strings.Join(names, "|")+")$"); err != nil {
		panic(err)
	}
}

// Driver runs the tests of a package that starts and attacks the program, from its TestMain. They take long, so -short
// leaves them out. make test runs them without the race detector, which would only watch the tests themselves; CI runs
// them with it.
func Driver(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("left out by -short")
		return
	}
	os.Exit(m.Run())
}
