package main

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
)

// TestBinaryRunsOneMoreAtOnce starts servers that write to a disk, in memory, and as GOMAXPROCS says.
func TestBinaryRunsOneMoreAtOnce(t *testing.T) {
	onDisk := []string{"serve", "--listen=127.0.0.1:0", "--data-dir=" + t.TempDir()}
	for _, c := range []struct {
		args, variables []string
		want            int
	}{
		{onDisk, nil, serve.UsualProcessors + serve.SpareProcessors},
		{[]string{"serve", "--listen=127.0.0.1:0", "--in-memory"}, nil, serve.UsualProcessors},
		{onDisk, []string{"GOMAXPROCS=1"}, 1},
	} {
		p := spawnIn(t, c.variables, c.args...)
		p.ready(t)
		p.Command.Process.Signal(syscall.SIGTERM)
		p.wantExit(t, exit.OK, fmt.Sprintf("running_at_once=%d ", c.want), "msg=serving", "msg=stopped")
	}
}
