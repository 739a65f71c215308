package compat_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// scratch is a directory for built programs, removed when all tests are done.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "coordd-compat-"); err != nil {
		fmt.Fprintln(os.Stderr, "scratch directory:", err)
		return 1
	}
	defer os.RemoveAll(scratch)

	// Built here and not by the first test that needs them, so that no test's deadline pays for the compiler.
	for _, build := range []func() (string, error){coorddBinary, exampleBinaries} {
		if _, err := build(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// coorddBinary is the server under test: the file named by COORDD_BIN, or else a build of this repository.
var coorddBinary = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("COORDD_BIN"); bin != "" {
		// Tests may start it with another working directory.
		return filepath.Abs(bin)
	}
	bin := filepath.Join(scratch, "coordd")
	return bin, goBuild(filepath.Join("..", ".."), bin, "./cmd/coordd")
})

// exampleBinaries is the directory with the built examples: in the one that COORDD_BUILT names where there is
// one, where those that are still there from the last time, and are what would be built, are not linked
// again.
var exampleBinaries = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(cmp.Or(os.Getenv("COORDD_BUILT"), scratch), "examples") + string(filepath.Separator)
	return dir, goBuild(".", dir, "./examples/...")
})

// goBuild builds programs of the module in dir.
func goBuild(dir, output, packages string) error {
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", output, packages)
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", packages, err, out)
	}
	return nil
}
