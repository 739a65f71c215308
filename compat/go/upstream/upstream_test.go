// Package upstream runs tests of the Go SDK as they are, out of the module of the SDK, against the built coordd. It is a
// module of its own because they need other modules than the SDK does. `go mod tidy` takes their sums out of go.sum: the
// file is made by `go test -mod=mod -c -tags integration` of the package below.
package upstream

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const tests = "github.com/ydb-platform/ydb-go-sdk/v3/tests/integration"

// TestUpstream runs those that are named below.
func TestUpstream(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "integration.test")
	if output, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "integration", "-o", binary, tests).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, name := range []string{"TestRatelimiter"} {
		t.Run(name, func(t *testing.T) {
			run := exec.CommandContext(t.Context(), binary, "-test.v", "-test.timeout", "2m", "-test.run", "^"+name+"$")
			run.Env = append(os.Environ(), "YDB_CONNECTION_STRING="+serve(t), "YDB_ACCESS_TOKEN_CREDENTIALS=anybody")
			if output, err := run.CombinedOutput(); err != nil || !strings.Contains(string(output), "--- PASS: "+name) {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}

// serve starts coordd, and returns its connection string.
func serve(t *testing.T) string {
	t.Helper()
	program := os.Getenv("COORDD_BIN")
	if program == "" {
		program = filepath.Join(t.TempDir(), "coordd")
		build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/coordd")
		build.Dir = "../../.."
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	server := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--in-memory", "--listen-http", "off")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}
