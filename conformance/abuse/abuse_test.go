//go:build linux

package abuse

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/coordd/coordd/conformance/raw"
)

const (
	// secondsVariable is how long each attack goes on; without it, attacks go on for brief.
	secondsVariable = "ABUSE_SECONDS"
	brief           = 250 * time.Millisecond
	// memoryLimit is what the server may use, in bytes, and descriptorLimit how many files and connections it may have open.
	memoryLimit     = 1 << 30
	descriptorLimit = 1024

	goodToken, userToken = "token-of-good", "token-of-user"
	nodePath             = "/local/good"
)

// TestAbuse attacks a server in every way there is, one after the other.
func TestAbuse(t *testing.T) {
	long := brief
	if text := os.Getenv(secondsVariable); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		long = time.Duration(seconds * float64(time.Second))
	}
	s := startServer(t)
	client := s.startGood(t)
	for _, a := range attacks() {
		ctx, cancel := context.WithTimeout(t.Context(), long)
		s.peak.Lock()
		s.peak.bytes = 0
		s.peak.Unlock()
		var all sync.WaitGroup
		for range a.goroutines {
			all.Go(func() { a.run(ctx, s.address) })
		}
		all.Wait()
		cancel()
		if err := s.alive(); err != nil {
			t.Fatalf("%s: %v", a.name, err)
		}
		back := s.awaitMemory(t)
		rounds, p99, err := client.lap()
		if err != nil {
			t.Fatalf("%s: the good client: %v\n%s", a.name, err, s.logged())
		}
		t.Logf("%-45s peak %4d MiB, back under the limit after %4.1f s; good client: %4d rounds, p99 %v", a.name, s.highest()>>20,
			back.Seconds(), rounds, p99.Round(time.Millisecond))
	}
	client.stop()
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-s.ended; err != nil {
		t.Fatalf("the server ended with %v\n%s", err, s.logged())
	}
}

// server is the process under attack.
type server struct {
	process *exec.Cmd
	address string
	log     string
	ended   chan error
	peak    struct {
		sync.Mutex
		bytes int64
	}
}

func startServer(t *testing.T) *server {
	t.Helper()
	binary := os.Getenv("COORDD_BIN")
	if binary == "" {
		binary = filepath.Join(t.TempDir(), "coordd")
		if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/coordd").CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte(goodToken+" root\n"+userToken+" user\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("the password of root"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{log: filepath.Join(dir, "log"), ended: make(chan error, 1)}
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.process = exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$@"`, descriptorLimit), "sh", binary, "serve",
		"--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data"), "--auth", "required", "--token-file", tokens,
		"--initial-admin", "root", "--initial-admin-password-file", password, "--disk-reserve", "0")
	s.process.Stderr = log
	s.process.SysProcAttr = &syscall.SysProcAttr{}
	how := s.limitMemory(t)
	out, err := s.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.process.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server does not start: %v\n%s", err, s.logged())
	}
	s.address = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "grpc://"), "/local")
	go func() { s.ended <- s.process.Wait() }()
	go s.sample(t.Context())
	t.Logf("%d MiB of memory (%s), %d descriptors", memoryLimit>>20, how, descriptorLimit)
	return s
}

// limitMemory puts the process into a control group with the limit where that can be made, and says how it is limited.
// Elsewhere the process is told by GOMEMLIMIT, and what it uses is sampled and judged.
func (s *server) limitMemory(t *testing.T) string {
	group := fmt.Sprintf("/sys/fs/cgroup/coordd-abuse-%d", os.Getpid())
	given, err := os.ReadFile("/sys/fs/cgroup/cgroup.subtree_control") // of the second version only
	if err == nil && !slices.Contains(strings.Fields(string(given)), "memory") {
		err = os.ErrPermission
	}
	if err == nil {
		err = os.Mkdir(group, 0o755)
	}
	if err == nil {
		t.Cleanup(func() { _ = os.Remove(group) })
		err = os.WriteFile(filepath.Join(group, "memory.max"), []byte(strconv.Itoa(memoryLimit)), 0)
	}
	if err == nil {
		var directory *os.File
		if directory, err = os.Open(group); err == nil {
			t.Cleanup(func() { _ = directory.Close() })
			s.process.SysProcAttr.UseCgroupFD, s.process.SysProcAttr.CgroupFD = true, int(directory.Fd())
			return "control group"
		}
	}
	s.process.Env = append(os.Environ(), "GOMEMLIMIT="+strconv.Itoa(memoryLimit/10*9))
	return "no control group of the second version can be made: resident memory, sampled each 100 ms"
}

// sample notes how much memory the process has.
func (s *server) sample(ctx context.Context) {
	for every := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; <-every.C {
		now := s.resident()
		s.peak.Lock()
		s.peak.bytes = max(s.peak.bytes, now)
		s.peak.Unlock()
	}
}

func (s *server) highest() int64 {
	s.peak.Lock()
	defer s.peak.Unlock()
	return s.peak.bytes
}

// resident is how much memory the process has, 0 when it is gone.
func (s *server) resident() int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.process.Process.Pid))
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// alive fails if the process has ended, or has ever had more memory than it may.
func (s *server) alive() error {
	select {
	case err := <-s.ended:
		return fmt.Errorf("the server has ended: %v\n%s", err, s.logged())
	default:
	}
	if most := s.highest(); most > memoryLimit {
		return fmt.Errorf("the server had %d MiB of memory", most>>20)
	}
	return nil
}

// awaitMemory returns how long it took until the memory was under the limit.
func (s *server) awaitMemory(t *testing.T) time.Duration {
	t.Helper()
	begun := time.Now()
	for s.resident() > memoryLimit {
		if time.Since(begun) > time.Minute {
			t.Fatalf("the server still has %d MiB of memory", s.resident()>>20)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return time.Since(begun)
}

// logged is the end of the server's log.
func (s *server) logged() string {
	text, _ := os.ReadFile(s.log)
	return string(text[max(0, len(text)-4000):])
}

// good is a client that behaves: a session that takes and releases a lock again and again.
type good struct {
	cancel context.CancelFunc
	done   chan struct{}

	mutex sync.Mutex
	took  []time.Duration
	err   error
}

func (s *server) startGood(t *testing.T) *good {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ctx = metadata.AppendToOutgoingContext(ctx, "x-ydb-auth-ticket", goodToken, "x-ydb-database", "/local")
	conns, err := raw.Dial(s.address, 1)
	if err == nil {
		t.Cleanup(func() { raw.Close(conns) })
		err = raw.CreateNode(ctx, conns[0], nodePath)
	}
	if err != nil {
		t.Fatal(err)
	}
	session, err := raw.Open(ctx, conns[0], &raw.Start{Path: nodePath, TimeoutMillis: 60_000})
	if err == nil {
		err = session.Create("lock", 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	g := &good{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(g.done)
		for ctx.Err() == nil {
			begun := time.Now()
			err := session.Acquire("lock", 1)
			if err == nil {
				err = session.Release("lock")
			}
			g.mutex.Lock()
			if g.took = append(g.took, time.Since(begun)); g.err == nil && ctx.Err() == nil {
				g.err = err
			}
			g.mutex.Unlock()
			if err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return g
}

// lap is how many rounds there were since the last lap, how long the slowest of a hundred took, and whether the session
// lives. It waits for a round that begins after the attack.
func (g *good) lap() (rounds int, p99 time.Duration, err error) {
	count := func() int {
		g.mutex.Lock()
		defer g.mutex.Unlock()
		return len(g.took)
	}
	for enough := count() + 2; count() < enough; {
		select {
		case <-g.done:
			enough = 0
		case <-time.After(time.Millisecond):
		}
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	took := g.took
	g.took = nil
	slices.Sort(took)
	if len(took) > 0 {
		p99 = took[(len(took)*99-1)/100]
	}
	return len(took), p99, g.err
}

func (g *good) stop() {
	g.cancel()
	<-g.done
}
