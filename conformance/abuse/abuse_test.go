//go:build linux

package abuse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/internal/testserver"
)

const (
	// secondsVariable is the duration of each attack; without it, they go on together for brief.
	secondsVariable = "ABUSE_SECONDS"
	// nameVariable is a part of the names of the attacks of the long form that are wanted; without it, all
	// are.
	nameVariable = "ABUSE_NAME"
	brief        = 500 * time.Millisecond
	// memoryLimit bounds the server's memory in bytes, and descriptorLimit its open files and connections.
	memoryLimit     = 1 << 30
	descriptorLimit = 1024

	goodToken, userToken = "token-of-good", "token-of-user"
	nodePath             = "/local/good"
)

// TestAbuse attacks a server in every way there is, one after the other; in the short form, in all ways at
// once that need no preparation.
func TestAbuse(t *testing.T) {
	s := startServer(t)
	client := s.startGood(t)
	besides, cancel := context.WithCancel(t.Context())
	defer cancel()
	client.beside(besides, s, testserver.Binary(t))
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
	if err := s.Stop(); err != nil {
		t.Fatal(err)
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
		t.Fatalf("%s: the good client: %v\n%s", name, err, s.LogTail())
	}
	t.Logf("%-50s peak %4d MiB, back under the limit after %4.1f s; good client: %4d rounds, p99 %v", name,
		peak>>20, back.Seconds(), rounds, p99.Round(time.Millisecond))
}

// server is the process under attack.
type server struct {
	*testserver.Process
	address string
}

func startServer(t *testing.T) *server {
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
	testserver.Run(t, "cert", "--dir", dir)
	c := limited(t, descriptorLimit, "--listen", "127.0.0.1:0", "--listen-tls", "127.0.0.1:0", "--tls-cert",
		filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"), "--data-dir",
		filepath.Join(dir, "data"), "--auth", "required", "--token-file", tokens, "--initial-admin", "root",
		"--initial-admin-password-file", password, "--disk-reserve", "0", "--listen-http", "127.0.0.1:0")
	how := limitMemory(t, &c)
	s := &server{Process: testserver.Launch(t, c)}
	s.await(t)
	if s.TLSAddress() == "" || s.HTTPAddress() == "" {
		t.Fatalf("no address for TLS or for monitoring programs\n%s", s.LogTail())
	}
	t.Logf("%d MiB of memory (%s), %d descriptors", memoryLimit>>20, how, descriptorLimit)
	return s
}

// limited returns a server that may have so many files and connections open. The shell that limits it becomes it.
func limited(t *testing.T, descriptors int, args ...string) testserver.Config {
	t.Helper()
	return testserver.Config{Program: "/bin/sh", Args: append([]string{"-c", fmt.Sprintf(`ulimit -n %d && exec "$@"`,
		descriptors), "sh", testserver.Binary(t), "serve"}, args...)}
}

func (s *server) await(t *testing.T) {
	t.Helper()
	var err error
	if s.address, err = s.Ready(); err != nil {
		t.Fatal(err)
	}
}

// limitMemory puts the process into a control group with the limit where that can be made, and returns the kind of
// limit: then the kernel ends a server that needs more. Elsewhere GOMEMLIMIT limits it, and only the memory of its own
// is judged.
func limitMemory(t *testing.T, c *testserver.Config) string {
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
				c.Args[1], c.Args[2] = `echo $$ > "$0" && `+c.Args[1], filepath.Join(group, "cgroup.procs")
				return kind.name
			}
		}
	}
	c.Env = append(os.Environ(), "GOMEMLIMIT="+strconv.Itoa(memoryLimit/10*9))
	return "no control group can be made: GOMEMLIMIT, and what the process has of its own"
}

// memory returns the memory that the process has of its own, 0 when it is gone. Pages of files that are mapped are
// the kernel's to take back, and do not count.
func (s *server) memory() (sum int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
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

// watchMemory samples the memory until it is stopped, and then returns the peak.
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
	case <-s.Ended():
		return fmt.Errorf("the server has ended: %v\n%s", s.Command.ProcessState, s.LogTail())
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
				// a smaller request is answered so
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

// lap returns the number of rounds since the last lap, their 99th percentile, and an error unless the session lives. It
// waits for a round that begins after the attack.
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
