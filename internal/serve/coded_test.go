package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/group/compare"
)

// TestCoded pins which exit code each kind of failure gets.
func TestCoded(t *testing.T) {
	onFile := func(cause error) error { return &fs.PathError{Op: "write", Path: "wal/1", Err: cause} }
	tests := []struct {
		name string
		err  error
		want exit.Code
	}{
		{"none", nil, exit.OK},
		{"directory in use", datadir.ErrLocked, exit.Config},
		{"format of a newer program", &datadir.FormatError{}, exit.Config},
		{"commands of a newer program", &raftstore.VersionError{}, exit.Config},
		{"a file that the configuration names", &server.ConfigError{Err: onFile(syscall.EIO)}, exit.Config},
		{"emptied directory", raftstore.ErrEmptied, exit.Config},
		{"another cluster", raftstore.ErrOtherCluster, exit.Config},
		{"damage", &datadir.CorruptionError{}, exit.Damaged},
		{"another state than the majority's", &compare.DivergedError{}, exit.Diverged},
		{"another state, on a disk that fails", &compare.DivergedError{Condemnation: onFile(syscall.EIO)},
			exit.Diverged},
		{"condemned directory", &datadir.CondemnedError{}, exit.Diverged},
		{"port in use", &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)},
			exit.Failure},
		{"port not permitted",
			&net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EACCES)}, exit.Failure},
		{"name not found", &net.OpError{Op: "listen", Err: &net.DNSError{Name: "nowhere"}}, exit.Failure},
		{"no permission", onFile(syscall.EACCES), exit.Config},
		{"not found", onFile(syscall.ENOENT), exit.Config},
		{"not a directory", onFile(syscall.ENOTDIR), exit.Config},
		{"read-only file system", onFile(syscall.EROFS), exit.Config},
		{"disk full", onFile(syscall.ENOSPC), exit.Storage},
		{"disk broken", onFile(syscall.EIO), exit.Storage},
		{"disk broken, bare error", syscall.EIO, exit.Storage},
		{"anything else", errors.New("else"), exit.Failure},
	}
	for _, test := range tests {
		if got := exit.Of(Coded(test.err)); got != test.want {
			t.Errorf("%s: got %d, want %d", test.name, got, test.want)
		}
		if test.err == nil {
			continue
		}
		wrapped := Coded(fmt.Errorf("start: %w", test.err))
		if got := exit.Of(wrapped); got != test.want || !errors.Is(wrapped, test.err) {
			t.Errorf("%s, wrapped: got %d (%v), want %d and the cause kept", test.name, got, wrapped,
				test.want)
		}
	}
}

// TestEmptiedDirectorySaysWhatToDo names the way back for a server whose disk is lost, and the settings that
// make two clusters of one.
func TestEmptiedDirectorySaysWhatToDo(t *testing.T) {
	for _, test := range []struct {
		err  error
		want []string
	}{
		{raftstore.ErrEmptied, []string{"coordd cluster remove", "coordd cluster add", "--join"}},
		{raftstore.ErrOtherCluster, []string{"--initial-cluster", "--cluster-token"}},
		{&compare.DivergedError{Index: 77}, []string{"entry 77", "coordd cluster remove", "coordd cluster add",
			"--join"}},
		{&datadir.CondemnedError{File: "condemned.txt", Reason: "why"},
			[]string{"condemned.txt", "why", "coordd cluster add", "--join"}},
	} {
		for _, want := range test.want {
			if text := Coded(test.err).Error(); !strings.Contains(text, want) {
				t.Errorf("%q does not say %q", text, want)
			}
		}
	}
}
