package compat_test

import (
	"testing"
	"time"

	"github.com/coordd/coordd/compat/go/internal/testserver"
)

// patience bounds every wait in these tests. It is only ever reached by a test that fails.
const patience = 60 * time.Second

// startServer runs coordd with nothing on disk, or with args instead of --in-memory.
func startServer(t *testing.T, args ...string) *testserver.Server {
	t.Helper()
	if len(args) == 0 {
		args = []string{"--in-memory"}
	}
	return testserver.Serve(t, args...)
}
