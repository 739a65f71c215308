package main

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/exit"
)

// TestFullDiskIsAnsweredAtOnce wants a configuration to be readable on a server whose disk is nearly full, which starts
// no session, and a lock that is not to wait to be refused.
func TestFullDiskIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	serve := []string{"serve", "--listen", "127.0.0.1:0", "--listen-http", "off", "--data-dir",
		filepath.Join(t.TempDir(), "data")}
	roomy := spawn(t, serve...)
	endpoint := roomy.ready(t)
	does(t, endpoint, "node create app")
	does(t, endpoint, "config set app settings quick")
	roomy.Command.Process.Signal(syscall.SIGTERM)
	roomy.wantExit(t, exit.OK)
	endpoint = spawn(t, append(serve, "--disk-reserve", "1024TiB")...).ready(t)
	if got := does(t, endpoint, "config get app settings"); got != "quick" {
		t.Errorf("the configuration is %q", got)
	}
	coordd(t, exit.NotFound, []string{"config", "get", "app", "other", "-e", endpoint}, `"other"`)
	coordd(t, exit.NotRun, []string{"lock", "app", "x", "-n", "-e", endpoint, "--", "/bin/true"}, "nearly full")
}
