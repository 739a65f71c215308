package compat_test

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/coordd/coordd/compat/go/internal/testserver"
)

// TestMain builds the programs, so that no test's deadline pays for the compiler.
func TestMain(m *testing.M) {
	for _, build := range []func() (string, error){testserver.Program, examples} {
		if _, err := build(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// examples returns the directory of the built examples.
var examples = sync.OnceValues(func() (string, error) {
	return testserver.Build("compat/go", "examples/", "./examples/...")
})
