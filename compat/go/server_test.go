package compat_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait in these tests. It is only ever reached by a test that fails.
const patience = 60 * time.Second

// connectionString finds the address in the line that the server prints when it is ready.
var connectionString = regexp.MustCompile(`grpcs?://[^\s"]+`)

// server is a coordd process of one test.
type server struct {
	t    *testing.T
	args []string // after "serve --listen ADDRESS"

	dsn    string // connection string from the ready line, e.g. grpc://127.0.0.1:40123/local
	stderr lockedBuffer
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process is gone and cmd.ProcessState is set
}

// startServer runs coordd on a free port with nothing on disk, or with args instead of --in-memory. At the
// end of the test the server is stopped with SIGTERM and must exit with code 0; if the test failed, what the
// server wrote to standard error is logged.
func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	if len(args) == 0 {
		args = []string{"--in-memory"}
	}
	s := &server{t: t, args: args}
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("standard error of coordd:\n%s", s.stderr.String())
		}
	})
	s.run("127.0.0.1:0")
	return s
}

// run starts the process and returns when it says that it is ready.
func (s *server) run(listen string) {
	s.t.Helper()
	bin, err := coorddBinary()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(bin, append([]string{"serve", "--listen", listen}, s.args...)...)
	cmd.Stderr = &s.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("start coordd: %v", err)
	}
	s.cmd = cmd
	s.exited = make(chan struct{})

	firstLine := make(chan string, 1)
	go func() {
		lines := bufio.NewReader(stdout)
		line, _ := lines.ReadString('\n')
		firstLine <- line
		// Wait closes the pipe, so it comes after everything was read.
		_, _ = io.Copy(io.Discard, lines)
		_ = cmd.Wait()
		close(s.exited)
	}()
	s.dsn = connectionString.FindString(receive(s.t, "the ready line of coordd", firstLine))
	if s.dsn == "" {
		s.t.Fatalf("coordd printed no connection string")
	}
}

// address is the host:port of the connection string.
func (s *server) address() string {
	s.t.Helper()
	u, err := url.Parse(s.dsn)
	if err != nil {
		s.t.Fatal(err)
	}
	return u.Host
}

// kill ends the process as a crash does.
func (s *server) kill() {
	s.t.Helper()
	s.signal(syscall.SIGKILL)
}

// stop asks the process to end, waits for it and checks its exit code. It does nothing for a process that was
// ended by kill or stop before.
func (s *server) stop() {
	s.t.Helper()
	if s.cmd == nil {
		return
	}
	ended := s.cmd
	s.signal(syscall.SIGTERM)
	if code := ended.ProcessState.ExitCode(); code != 0 {
		s.t.Errorf("coordd exited with code %d after SIGTERM, want 0", code)
	}
}

// restart runs the ended server again, on the same port and with the same arguments.
func (s *server) restart() {
	s.t.Helper()
	s.run(s.address())
}

func (s *server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("signal coordd: %v", err)
	}
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.t.Errorf("coordd still runs %v after %v", patience, sig)
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
	s.cmd = nil
}

// lockedBuffer collects output of a process while the test may be reading it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// lines returns the complete lines written so far.
func (l *lockedBuffer) lines() []string {
	all := strings.SplitAfter(l.String(), "\n")
	return all[:len(all)-1]
}
