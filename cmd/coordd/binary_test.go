package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/testserver"
)

// binary is the program as users get it, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	if directory := os.Getenv(childLocks); directory != "" {
		return exclusive(directory)
	}
	var err error
	if binary, err = testserver.Program(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// process is a running binary.
type process struct {
	*testserver.Process
	read int // lines of stdout that the test has looked at
}

// spawn starts the binary with an environment of its own, in which the default
// data directory is in a place of the test's.
func spawn(t *testing.T, args ...string) *process {
	t.Helper()
	return spawnIn(t, nil, args...)
}

// spawnIn is spawn with further variables.
func spawnIn(t *testing.T, variables []string, args ...string) *process {
	t.Helper()
	return spawnFed(t, nil, variables, args...)
}

// spawnFed is spawnIn with something on stdin.
func spawnFed(t *testing.T, stdin io.Reader, variables []string, args ...string) *process {
	t.Helper()
	return &process{Process: testserver.Launch(t, testserver.Config{Program: binary, Args: args, Stdin: stdin,
		Env: append([]string{"HOME=" + t.TempDir()}, variables...)})}
}

// line waits for the first line of stdout and returns it.
func (p *process) line() string {
	p.read = 1
	return p.FirstLine()
}

// ready waits for the ready line and returns it.
func (p *process) ready(t *testing.T) string {
	t.Helper()
	line := p.line()
	if !regexp.MustCompile(`^grpc://127\.0\.0\.1:[0-9]+/local$`).MatchString(line) {
		t.Fatalf("ready line %q, want a connection string; stderr:\n%s", line, p.Logged())
	}
	return line
}

// exit waits for the end and returns the exit code and the lines of stdout that
// nobody has read.
func (p *process) exit(t *testing.T) (exit.Code, []string) {
	t.Helper()
	receive(t, p.Ended(), func() string { return "the process did not end; stderr:\n" + p.Logged() })
	lines := p.Lines()
	return exit.Code(p.ExitCode()), lines[min(p.read, len(lines)):]
}

// wantExit checks the exit code and that stderr has the parts in order.
func (p *process) wantExit(t *testing.T, want exit.Code, parts ...string) {
	t.Helper()
	code, rest := p.exit(t)
	if code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
	if len(rest) > 0 {
		t.Errorf("further lines on stdout: %q", rest)
	}
	inOrder(t, p.Logged(), parts)
}

// serveOn starts a server on a free port and a directory and waits until it is
// ready.
func serveOn(t *testing.T, directory string) *process {
	t.Helper()
	p := spawn(t, "serve", "--listen", "127.0.0.1:0", "--data-dir", directory)
	p.ready(t)
	return p
}

// TestBinaryStops wants one line on stdout, connections accepted where it says,
// and code 0 for both signals, on disk and in memory.
func TestBinaryStops(t *testing.T) {
	for _, storage := range []string{"--in-memory", "--data-dir=" + filepath.Join(t.TempDir(), "a", "b")} {
		for _, sent := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			p := spawn(t, "serve", "--listen=127.0.0.1:0", storage)
			address := strings.TrimSuffix(strings.TrimPrefix(p.ready(t), "grpc://"), "/local")
			connection, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			connection.Close()
			p.Command.Process.Signal(sent)
			p.wantExit(t, exit.OK, "msg=serving", "msg=stopped")
		}
	}
}

// TestBinaryStopsWithASilentConnection wants a clean stop although somebody has
// connected and says nothing.
func TestBinaryStopsWithASilentConnection(t *testing.T) {
	p := spawn(t, "serve", "--listen=127.0.0.1:0", "--in-memory")
	connection, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(p.ready(t), "grpc://"),
		"/local"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := connection.Read(make([]byte, 1)); err != nil { // the server's settings: it has been let in
		t.Fatal(err)
	}
	p.Command.Process.Signal(syscall.SIGTERM)
	p.wantExit(t, exit.OK, "msg=serving", "msg=stopped")
}

// TestBinaryUsage is one mistake of each kind that TestRefusals lists, to see that
// the codes leave the process.
func TestBinaryUsage(t *testing.T) {
	spawn(t, "srve").wantExit(t, exit.Usage, `coordd: unknown command "srve"; did you mean serve?`)
	spawn(t, "serve", "--log-level=loud").wantExit(t, exit.Usage, "coordd: flag --log-level", "loud",
		"debug, info")
	spawn(t, "serve", "--config=/nowhere/c.yaml").wantExit(t, exit.Config, "coordd: flag --config",
		"/nowhere/c.yaml")
}

// TestBinaryHelp wants the exit codes in the help and no directory touched.
func TestBinaryHelp(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"--help"}} {
		code, lines := spawn(t, args...).exit(t)
		if code != exit.OK {
			t.Errorf("%q: exit code %d", args, code)
		}
		for _, entry := range exitCodes {
			inOrder(t, strings.Join(lines, "\n"), []string{fmt.Sprintf("  %d  %s", entry.code, entry.text)})
		}
	}
	code, lines := spawn(t, "version").exit(t)
	if code != exit.OK || len(lines) != 1 || !strings.HasPrefix(lines[0], "coordd ") {
		t.Errorf("version: exit code %d, stdout %q", code, lines)
	}
}

// TestBinaryPortInUse is a failure that is nobody's configuration mistake.
func TestBinaryPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	spawn(t, "serve", "--in-memory", "--listen", address).wantExit(t, exit.Failure, "coordd: ", address,
		"address already in use")
}

// TestBinarySecondProcess wants a second process on the same directory refused,
// the examination too, and neither to harm the first.
func TestBinarySecondProcess(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "data")
	first := serveOn(t, directory)
	spawn(t, "serve", "--listen", "127.0.0.1:0", "--data-dir", directory).
		wantExit(t, exit.Config, "coordd: data directory "+directory+" (flag --data-dir): ",
			"in use by another process")
	spawn(t, "check", "--data-dir", directory).
		wantExit(t, exit.Config, "coordd: data directory "+directory+" (flag --data-dir): ",
			"in use by another process")
	first.Command.Process.Signal(syscall.SIGTERM)
	first.wantExit(t, exit.OK)
}

// TestBinaryDirectory wants a new directory closed to others, what a link in the
// place of the state points to left alone, and unusable directories to be a mistake
// of configuration that says who chose them.
func TestBinaryDirectory(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "made", "on", "the", "way")
	serveOn(t, directory).Kill()
	status, err := os.Stat(directory)
	if err != nil {
		t.Fatal(err)
	}
	if got := status.Mode().Perm(); got != 0o700 {
		t.Errorf("mode of the data directory is %o, want 700", got)
	}

	linked, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "of somebody else")
	manifest := filepath.Join(linked, "checkpoint", "manifest")
	if err := errors.Join(os.WriteFile(elsewhere, []byte("his"), 0o600), os.Mkdir(filepath.Dir(manifest), 0o700),
		os.Symlink(elsewhere, manifest)); err != nil {
		t.Fatal(err)
	}
	serveOn(t, linked).Kill()
	if text, err := os.ReadFile(elsewhere); err != nil || string(text) != "his" {
		t.Errorf("where a link in the place of the state points to: %q, %v", text, err)
	}
	if status, err := os.Lstat(manifest); err != nil || !status.Mode().IsRegular() {
		t.Errorf("the state: %v, %v", status, err)
	}

	file := writeConfig(t, "data-dir: /dev/null/data\n")
	spawn(t, "serve", "--listen=127.0.0.1:0", "--config", file).
		wantExit(t, exit.Config, "coordd: data directory /dev/null/data (config file "+file+
			", line 1, key data-dir): ")
	for _, command := range [][]string{{"serve", "--listen=127.0.0.1:0"}, {"check"}} {
		spawn(t, append(command, "--data-dir", file)...).
			wantExit(t, exit.Config, "coordd: data directory "+file+" (flag --data-dir): ", "not a directory")
	}
	spawn(t, "check", "--data-dir", filepath.Join(t.TempDir(), "missing")).
		wantExit(t, exit.Config, "coordd: data directory ", "missing (flag --data-dir): ")
}

// TestBinaryRestart wants a directory usable again after a clean stop and after a
// kill, and found sound in between.
func TestBinaryRestart(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "data")
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		p := serveOn(t, directory)
		p.Command.Process.Signal(end)
		p.exit(t)
		code, report := spawn(t, "check", "--data-dir", directory).exit(t)
		if code != exit.OK || len(report) == 0 {
			t.Errorf("check after %v: exit code %d, report %q", end, code, report)
		}
	}
}

// TestBinaryDamage flips every byte of the stored checkpoint and wants the server
// and the examination to refuse it as a storage failure.
func TestBinaryDamage(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "data")
	p := serveOn(t, directory)
	p.Command.Process.Signal(syscall.SIGTERM)
	p.wantExit(t, exit.OK)

	state := filepath.Join(directory, "checkpoint", "manifest")
	content, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	for i := range content {
		content[i] ^= 0xff
	}
	if err := os.WriteFile(state, content, 0o600); err != nil {
		t.Fatal(err)
	}
	spawn(t, "serve", "--listen=127.0.0.1:0", "--data-dir", directory).
		wantExit(t, exit.Damaged, "coordd: data directory "+directory+" (flag --data-dir): ", "manifest")
	code, _ := spawn(t, "check", "--data-dir", directory).exit(t)
	if code != exit.Damaged {
		t.Errorf("check: exit code %d, want %d", code, exit.Damaged)
	}
}
