package conformance

import (
	"bufio"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/testmode"
)

// TestBinary runs the scripts on the program as users get it, with its own defaults.
func TestBinary(t *testing.T) {
	testmode.WithoutRace(t)
	t.Parallel()
	binary := os.Getenv("COORDD_BIN")
	if binary == "" {
		binary = filepath.Join(t.TempDir(), "coordd")
		if output, err := exec.Command("go", "build", "-buildvcs=false", "-o", binary,
			"../cmd/coordd").CombinedOutput(); err != nil {
			t.Fatalf("build coordd: %v\n%s", err, output)
		}
	}
	command := exec.Command(binary, "serve", "--in-memory", "--listen", "127.0.0.1:0")
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ready, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil && err != io.EOF {
		t.Error(err)
	}
	t.Cleanup(func() {
		if err := command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := command.Wait(); err != nil {
			t.Errorf("the server did not stop well: %v", err)
		}
	})
	endpoint, err := url.Parse(ready[:max(len(ready)-1, 0)])
	if err != nil || endpoint.Host == "" {
		t.Fatalf("ready line %q: %v", ready, err)
	}
	target, err := Dial(t.Context(), EndpointConfig{Address: endpoint.Host, Database: endpoint.Path,
		Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	replay(t, target)
	if err := target.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
