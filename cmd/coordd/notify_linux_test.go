package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/testserver"
)

// managed is a server whose notifications the test gets, as a service manager does.
type managed struct {
	*process
	states chan string
}

func manage(t *testing.T, args ...string) managed {
	t.Helper()
	address := filepath.Join(t.TempDir(), "n")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: address})
	if err != nil {
		t.Fatal(err)
	}
	m := managed{states: make(chan string, 1000)}
	go func() {
		defer close(m.states)
		for buffer := make([]byte, 512); ; {
			n, err := socket.Read(buffer)
			if err != nil {
				return
			}
			for line := range strings.SplitSeq(string(buffer[:n]), "\n") {
				m.states <- line
			}
		}
	}()
	m.process = spawnIn(t, []string{"NOTIFY_SOCKET=" + address, "WATCHDOG_USEC=60000"},
		append([]string{"serve", "--listen=127.0.0.1:0", "--listen-http=off"}, args...)...)
	t.Cleanup(func() { socket.Close() })
	return m
}

// await waits for a state.
func (m managed) await(t *testing.T, want string) {
	t.Helper()
	describe := func() string { return "no " + want + "; stderr:\n" + m.Logged() }
	for receive(t, m.states, describe) != want {
	}
}

// TestServiceManager wants a server to be ready, to make progress, and to stop.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	m := manage(t, "--data-dir", t.TempDir())
	for _, state := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"} {
		m.await(t, state)
	}
	if err := m.Stop(); err != nil {
		t.Error(err)
	}
	m.await(t, "STOPPING=1")
}

// TestReadyWithoutLeader wants a server of a cluster to be ready for the service manager, and watched, before there is
// a leader: servers that are started in turn would wait for each other.
func TestReadyWithoutLeader(t *testing.T) {
	t.Parallel()
	peers := testserver.Addresses(t, 3)
	m := manage(t, "--data-dir", t.TempDir(), "--name=a", "--insecure-peers", "--listen-peer", peers[0],
		"--initial-cluster", "a="+peers[0]+",b="+peers[1]+",c="+peers[2])
	m.await(t, "READY=1")
	m.await(t, "WATCHDOG=1")
}

// TestGroupSocket wants --admin-socket to be open to the group, and the other socket not.
func TestGroupSocket(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	socket := filepath.Join(directory, "run.sock")
	p := spawn(t, "serve", "--listen=127.0.0.1:0", "--listen-http=off", "--data-dir", filepath.Join(directory, "data"),
		"--admin-socket", socket)
	p.ready(t)
	own := filepath.Join(directory, "data", "admin.sock")
	for name, want := range map[string]os.FileMode{socket: 0o660, own: 0o600} {
		status, err := os.Stat(name)
		if err != nil || status.Mode().Perm() != want || status.Mode().Type() != os.ModeSocket {
			t.Errorf("%s: %v, %v; want a socket of mode %v", name, status.Mode(), err, want)
		}
	}
}
