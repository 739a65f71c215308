package main

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
)

// TestTakenPort wants the setting named whose address somebody else listens on.
func TestTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	certificates := t.TempDir()
	coordd(t, exit.OK, []string{"cert", "--dir", certificates})
	for name, args := range map[string][]string{
		"listen": {"--in-memory", "--listen", address},
		"listen-peer": {"--data-dir", t.TempDir(), "--listen=127.0.0.1:0", "--name=a", "--listen-peer",
			address, "--initial-cluster", "a=" + address, "--insecure-peers"},
		"listen-http": {"--in-memory", "--listen=127.0.0.1:0", "--listen-http", address},
		"listen-tls": {"--in-memory", "--listen=127.0.0.1:0", "--listen-tls", address,
			"--tls-cert", filepath.Join(certificates, "cert.pem"), "--tls-key",
			filepath.Join(certificates, "key.pem")},
	} {
		t.Run(name, func(t *testing.T) {
			spawn(t, append([]string{"serve"}, args...)...).wantExit(t, exit.Failure, "flag --"+name+": ",
				address, "already in use", "ss -ltnp")
		})
	}
}

// TestTakenDefaultPort wants the second server on a machine to serve, without what the first one has.
func TestTakenDefaultPort(t *testing.T) {
	if taken, err := net.Listen("tcp", "127.0.0.1:8765"); err == nil { // otherwise somebody else has it
		defer taken.Close()
	}
	p := spawn(t, "serve", "--in-memory", "--listen=127.0.0.1:0")
	p.ready(t)
	p.Command.Process.Signal(syscall.SIGTERM)
	p.wantExit(t, exit.OK, "level=WARN", "no listener for monitoring programs", "127.0.0.1:8765",
		"already in use", "msg=serving", "msg=stopped")
}

// TestCheckOfAnotherDirectory wants a directory that is not ours called that, and not damaged.
func TestCheckOfAnotherDirectory(t *testing.T) {
	empty, other := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "letter.txt"), []byte("dear\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for directory, want := range map[string]string{empty: "is empty", other: "holds letter.txt"} {
		for _, command := range []string{"check", "serve"} {
			if command == "serve" && directory == empty {
				continue // it starts there
			}
			r := newRun(nil)
			r.check, r.start = checkDirectory, serve.Start
			if code := r.run([]string{command, "--data-dir", directory}); code != exit.Config {
				t.Errorf("%s: exit code %d, want %d", command, code, exit.Config)
			}
			inOrder(t, r.log.String(), []string{"flag --data-dir", want, "not a data directory"})
		}
	}
}
