package compat_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coordd/coordd/compat/go/internal/testserver"
)

// program is a running example.
type program struct {
	*testserver.Process
	t *testing.T

	mutex sync.Mutex
	lines []string // that it has printed
}

// startExample runs an example against the server. It is killed at the end of the test if it still runs.
func startExample(t *testing.T, dsn, name string, args ...string) *program {
	t.Helper()
	dir, err := examples()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t}
	p.Process = testserver.Launch(t, testserver.Config{Program: filepath.Join(dir, name), Args: args,
		Env: append(os.Environ(), "YDB_CONNECTION_STRING="+dsn), Line: p.print})
	return p
}

func (p *program) print(line string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.lines = append(p.lines, line)
}

func (p *program) printed() []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Clone(p.lines)
}

// stop sends SIGTERM and wants exit code 0.
func (p *program) stop() {
	p.t.Helper()
	if err := p.Stop(); err != nil {
		p.t.Fatal(err)
	}
}

// finish waits for the program to end by itself, with exit code 0.
func (p *program) finish() {
	p.t.Helper()
	receive(p.t, "the end of the example", p.Ended())
	if code := p.ExitCode(); code != 0 {
		p.t.Fatalf("the example ended with code %d", code)
	}
}

// prints waits until the last line printed is this one.
func (p *program) prints(want string) {
	p.t.Helper()
	eventually(p.t, "the example prints "+want, func() bool {
		lines := p.printed()
		return len(lines) > 0 && lines[len(lines)-1] == want
	})
}

// The first lock, as README.md shows it.
func TestQuickstartExample(t *testing.T) {
	t.Parallel()
	p := startExample(t, startServer(t).Endpoint(), "quickstart")
	p.finish()
	if !strings.Contains(p.Logged(), "holds my-lock") {
		t.Error("it did not say that it holds the lock")
	}
}

// Every payment is made under a token of its own, none is lost, and the late write is turned away.
func TestLockExample(t *testing.T) {
	t.Parallel()
	p := startExample(t, startServer(t).Endpoint(), "lock")
	p.finish()

	lines := p.printed()
	if len(lines) != 17 {
		t.Fatalf("%d lines, want 15 payments and 2 more", len(lines))
	}
	var last uint64
	for i, line := range lines[:15] {
		var token uint64
		var teller, balance int
		if _, err := fmt.Sscanf(line, "token %d: teller %d pays into %d", &token, &teller,
			&balance); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if token <= last || balance != 10*i {
			t.Errorf("line %q: want a token over %d and a balance of %d", line, last, 10*i)
		}
		last = token
	}
	if lines[15] != "balance 150" || !strings.HasPrefix(lines[16], "late write refused") {
		t.Errorf("the end is %q", lines[15:])
	}
}

// Workers come, are elected, are killed and leave; the watcher sees it all.
func TestWorkersExample(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	watcher := startExample(t, server.Endpoint(), "workers", "-watch")
	watcher.prints("leader [] workers []")

	const a, b, c = "10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"
	first := startExample(t, server.Endpoint(), "workers", "-endpoint", a)
	first.prints(a + " leads")
	watcher.prints("leader [" + a + "] workers [" + a + "]")

	second := startExample(t, server.Endpoint(), "workers", "-endpoint", b)
	second.prints(b + " works")
	third := startExample(t, server.Endpoint(), "workers", "-endpoint", c)
	watcher.prints("leader [" + a + "] workers [" + strings.Join([]string{a, b, c}, " ") + "]")

	// A crash is noticed when the session timeout has passed.
	first.Kill()
	var next *program
	eventually(t, "somebody else leads", func() bool {
		for _, p := range []*program{second, third} {
			if slices.ContainsFunc(p.printed(),
				func(l string) bool { return strings.HasSuffix(l, " leads") }) {
				next = p
			}
		}
		return next != nil
	})
	nextEndpoint, left, leftEndpoint := b, third, c
	if next == third {
		nextEndpoint, left, leftEndpoint = c, second, b
	}
	watcher.prints("leader [" + nextEndpoint + "] workers [" + b + " " + c + "]")

	// Workers that leave on purpose need no timeout.
	next.stop()
	watcher.prints("leader [" + leftEndpoint + "] workers [" + leftEndpoint + "]")
	left.stop()
	watcher.prints("leader [] workers []")
	watcher.stop()
}
