//go:build linux

package abuse

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/coordd/coordd/conformance/raw"
)

const (
	// secondsVariable is how long each attack goes on; without it, they go on together for brief.
	secondsVariable = "ABUSE_SECONDS"
	// nameVariable is a part of the names of the attacks of the long form that are wanted; without it, all
	// are.
	nameVariable = "ABUSE_NAME"
	brief        = 500 * time.Millisecond
	// memoryLimit is what the server may use, in bytes, and descriptorLimit how many files and connections it
	// may have open.
	memoryLimit     = 1 << 30
	descriptorLimit = 1024

	goodToken, userToken = "token-of-good", "token-of-user"
	nodePath             = "/local/good"
)

// TestAbuse attacks a server in every way there is, one after the other; in the short form, in all ways at
// once that need no preparation.
func TestAbuse(t *testing.T) {
	binary := builtServer(t)
	s := startServer(t, binary)
	client := s.startGood(t)
	besides, cancel := context.WithCancel(t.Context())
	defer cancel()
	client.beside(besides, s, binary)
	text := os.Getenv(secondsVariable)
	if text == "" {
		all := append(attacks(s), shares(s)...)
		for i := range all {
			all[i].goroutines = 1
		}
		s.suffer(t, client, "all at once", brief, all...)
	} else {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		long := time.Duration(seconds * float64(time.Second))
		root := caller{client.conn, goodToken}
		if err := prepare(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		if err := client.stolenToken(t.Context(), root); err != nil {
			t.Error("M1, M4 a stolen token: ", err)
		}
		for _, a := range slices.Concat(attacks(s), shares(s), tenants(), client.users()) {
			if strings.Contains(a.name, os.Getenv(nameVariable)) {
				s.suffer(t, client, a.name, long, a)
			}
		}
	}
	cancel()
	client.others.Wait()
	if err := client.firstError(); err != nil {
		t.Errorf("the good client: %v", err)
	}
	t.Logf("beside its session the good client did %v", client.things)
	client.stop()
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-s.ended; err != nil {
		t.Fatalf("the server ended with %v\n%s", err, s.logged())
	}
}

// suffer has attacks go on at once for a while, and fails if the server, its memory or the good client do not
// bear it.
func (s *server) suffer(t *testing.T, client *good, name string, long time.Duration, attacks ...attack) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	stop := s.watchMemory()
	var all sync.WaitGroup
	for _, a := range attacks {
		for range a.goroutines {
			all.Go(func() { a.run(ctx, s.address) })
		}
	}
	all.Wait()
	peak := stop()
	if err := s.alive(peak); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	back := s.awaitMemory(t)
	rounds, p99, err := client.lap()
	if err != nil {
		t.Fatalf("%s: the good client: %v\n%s", name, err, s.logged())
	}
	t.Logf("%-50s peak %4d MiB, back under the limit after %4.1f s; good client: %4d rounds, p99 %v", name,
		peak>>20, back.Seconds(), rounds, p99.Round(time.Millisecond))
}

// server is the process under attack.
type server struct {
	process *exec.Cmd
	address,
	tlsAddress,
	httpAddress string // of the first server alone
	log    string
	output io.Reader // of peers
	ended  chan error
}

// builtServer is the path of the program.
func builtServer(t *testing.T) string {
	t.Helper()
	if binary := os.Getenv("COORDD_BIN"); binary != "" {
		return binary
	}
	binary := filepath.Join(t.TempDir(), "coordd")
	if out, err := exec.Command("go", "build", "-o", binary,
		"../../cmd/coordd").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

func startServer(t *testing.T, binary string) *server {
	t.Helper()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte(goodToken+" root\n"+userToken+" user\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte(rootPassword), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{log: filepath.Join(dir, "log"), ended: make(chan error, 1)}
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if out, err := exec.Command(binary, "cert", "--dir", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.process = exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$@"`, descriptorLimit), "sh",
		binary, "serve", "--listen", "127.0.0.1:0", "--listen-tls", "127.0.0.1:0", "--tls-cert",
		filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"), "--data-dir",
		filepath.Join(dir, "data"), "--auth", "required", "--token-file", tokens, "--initial-admin", "root",
		"--initial-admin-password-file", password, "--disk-reserve", "0", "--listen-http", "127.0.0.1:0")
	s.process.Stderr = log
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
	_, tls, _ := strings.Cut(s.logged(), "connection=grpcs://")
	if s.tlsAddress, _, _ = strings.Cut(tls, "/"); s.tlsAddress == "" {
		t.Fatalf("no address for TLS\n%s", s.logged())
	}
	_, monitoring, _ := strings.Cut(s.logged(), `msg="serving monitoring programs" address=`)
	if s.httpAddress, _, _ = strings.Cut(monitoring, "\n"); s.httpAddress == "" {
		t.Fatalf("no address for monitoring programs\n%s", s.logged())
	}
	t.Logf("%d MiB of memory (%s), %d descriptors", memoryLimit>>20, how, descriptorLimit)
	return s
}

// limitMemory puts the process into a control group with the limit where that can be made, and says how it is
// limited: then the kernel ends a server that needs more. Elsewhere the process is told by GOMEMLIMIT, and
// only the memory of its own is judged.
func (s *server) limitMemory(t *testing.T) string {
	for _, kind := range []struct{ name, mount, file string }{
		{"control group", "/sys/fs/cgroup", "memory.max"},
		{"control group of the first version", "/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	} {
		group := filepath.Join(kind.mount, fmt.Sprintf("coordd-abuse-%d", os.Getpid()))
		if os.Mkdir(group, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(group) })
		// Without a controller of memory, in either version, there is no such file, and none can be made.
		if limit, err := os.OpenFile(filepath.Join(group, kind.file), os.O_WRONLY, 0); err == nil {
			_, err = limit.WriteString(strconv.Itoa(memoryLimit))
			if err = errors.Join(err, limit.Close()); err == nil {
				s.process.Args[2], s.process.Args[3] = `echo $$ > "$0" && `+s.process.Args[2],
					filepath.Join(group, "cgroup.procs")
				return kind.name
			}
		}
	}
	s.process.Env = append(os.Environ(), "GOMEMLIMIT="+strconv.Itoa(memoryLimit/10*9))
	return "no control group can be made: GOMEMLIMIT, and what the process has of its own"
}

// memory is how much memory the process has of its own, 0 when it is gone. Pages of state.db that are mapped
// are the kernel's to take back, and do not count.
func (s *server) memory() (sum int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	for line := range strings.Lines(string(text)) {
		name, size, _ := strings.Cut(line, ":")
		var kib int64
		if name == "RssAnon" || name == "RssShmem" {
			_, _ = fmt.Sscanf(size, "%d kB", &kib)
		}
		sum += kib << 10
	}
	return sum
}

// watchMemory looks at the memory again and again until it is told to stop, and then says how much it was at
// most.
func (s *server) watchMemory() (stop func() (peak int64)) {
	end, peak := make(chan struct{}), make(chan int64)
	go func() {
		var most int64
		for {
			most = max(most, s.memory())
			select {
			case <-end:
				peak <- most
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() int64 { close(end); return <-peak }
}

// alive fails if the process has ended, or had more memory than it may have.
func (s *server) alive(peak int64) error {
	select {
	case err := <-s.ended:
		return fmt.Errorf("the server has ended: %v\n%s", err, s.logged())
	default:
	}
	if peak > memoryLimit {
		return fmt.Errorf("the server had %d MiB of memory", peak>>20)
	}
	return nil
}

// awaitMemory returns how long it took until the memory was under the limit.
func (s *server) awaitMemory(t *testing.T) time.Duration {
	t.Helper()
	begun := time.Now()
	for s.memory() > memoryLimit {
		if time.Since(begun) > time.Minute {
			t.Fatalf("the server still has %d MiB of memory", s.memory()>>20)
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
	conn    *grpc.ClientConn
	session uint64
	cancel  context.CancelFunc
	done    chan struct{}

	others sync.WaitGroup // what it does beside
	late   *lateness

	mutex  sync.Mutex
	took   []time.Duration
	things map[string]int // that were done beside
	err    error
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
		err = errors.Join(session.Create("lock", 1), session.Create("packed", 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	g := &good{conn: conns[0], session: session.ID, cancel: cancel, done: make(chan struct{}), late: newLateness()}
	t.Cleanup(g.late.close)
	go func() {
		defer close(g.done)
		for ctx.Err() == nil {
			begun := time.Now()
			err := session.Acquire("lock", 1)
			switch {
			case err == nil:
				err = session.Release("lock")
			case strings.Contains(err.Error(), "Cluster state has no space left"):
				// who asks for less than that is told so
				err = nil
			}
			g.mutex.Lock()
			g.took = append(g.took, time.Since(begun))
			g.mutex.Unlock()
			if err != nil && g.late.late() && ctx.Err() == nil { // it may not have had the time to answer a ping
				session, err = raw.Open(ctx, conns[0], &raw.Start{Path: nodePath, TimeoutMillis: 60_000})
			}
			if err != nil {
				if ctx.Err() == nil {
					g.fail(err)
				}
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return g
}

// lap is how many rounds there were since the last lap, how long the slowest of a hundred took, and whether
// the session lives. It waits for a round that begins after the attack.
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

// firstError is the first thing that went wrong.
func (g *good) firstError() error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.err
}

// fail notes the first thing that went wrong.
func (g *good) fail(err error) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.err == nil {
		g.err = err
	}
}

func (g *good) stop() {
	g.cancel()
	<-g.done
}
