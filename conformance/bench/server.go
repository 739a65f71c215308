package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coordd/coordd/conformance/bench/machine"
	"github.com/coordd/coordd/internal/testserver"
)

// patience bounds the start of a server, which may have a million rows.
const patience = 2 * time.Minute

// process is a server that can be killed and started again, with the same address and directory.
type process struct {
	name    string
	address string
	debug   string // where Go's profiles are, empty if nowhere
	metrics string // address of /metrics, empty if nowhere
	config  testserver.Config
	running *testserver.Process
}

// start starts the server and waits until it answers: first is one operation.
func (p *process) start(ctx context.Context, first func(ctx context.Context, address string) error) error {
	var err error
	if p.running, err = testserver.Start(onServerCPU(p.config)); err != nil {
		return err
	}
	return p.answers(ctx, first)
}

// serverCPU is the processor that servers run on, "" if on all.
var serverCPU string

// onServerCPU makes a server run there.
func onServerCPU(c testserver.Config) testserver.Config {
	if serverCPU != "" {
		c.Program, c.Args = "taskset", append([]string{"-c", serverCPU, c.Program}, c.Args...)
	}
	return c
}

// answers waits until the server answers. Clients back off for a long time if nobody listens, hence the
// connection of its own.
func (p *process) answers(ctx context.Context, first func(ctx context.Context, address string) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	listening := false
	for {
		var err error
		if !listening {
			var conn net.Conn
			if conn, err = net.Dial("tcp", p.address); err == nil {
				_ = conn.Close()
				listening = true
			}
		}
		if listening {
			if err = first(ctx, p.address); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not get ready, see %s: %w", p.name, p.config.Log, errors.Join(err, ctx.Err()))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (p *process) kill() {
	if p.running != nil {
		p.running.Kill()
		p.running = nil
	}
}

func (p *process) cpu() (time.Duration, error) { return machine.CPU(p.running.PID()) }

func (p *process) resident() (int64, error) { return machine.Resident(p.running.PID()) }

// collect makes a Go server collect its garbage twice, as the second time finds what finalizers and pools let
// go.
func (p *process) collect(ctx context.Context) error {
	if p.debug == "" {
		return nil
	}
	for range 2 {
		if _, err := fetch(ctx, "http://"+p.debug+"/debug/pprof/heap?gc=1"); err != nil {
			return err
		}
	}
	return nil
}

// value returns the number that follows a prefix in the first such line of a page of a server.
func value(ctx context.Context, url, prefix string) (float64, error) {
	text, err := fetch(ctx, url)
	for line := range strings.Lines(text) {
		if after, found := strings.CutPrefix(line, prefix); found {
			var v float64
			_, err = fmt.Sscan(after, &v)
			return v, err
		}
	}
	return 0, errors.Join(err, fmt.Errorf("%s: no line begins with %q", url, prefix))
}

// fetch returns the text of a page of a server.
func fetch(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, answer.Status)
	}
	return string(text), err
}

// servers is one server, or a cluster.
type servers []*process

func (s servers) kill() {
	for _, p := range s {
		p.kill()
	}
}

// cpu is the processor time of all of them.
func (s servers) cpu() (time.Duration, error) {
	var sum time.Duration
	for _, p := range s {
		used, err := p.cpu()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

func (s servers) addresses() []string {
	all := make([]string, len(s))
	for i, p := range s {
		all[i] = p.address
	}
	return all
}

// product is a kind of server.
type product struct {
	name string
	// absent says why it cannot be measured here, and what to do about it; empty if it can.
	absent string
	// version is of the server and the client.
	version func() string
	// make makes servers that have not been started. dirs has a directory for each.
	make func(dirs []string) (servers, error)
	// first is one operation by a new client.
	first func(ctx context.Context, address string) error
}

// launch starts n servers on empty directories below dir.
func (p *product) launch(ctx context.Context, dir string, n int) (servers, error) {
	var dirs []string
	for i := range n {
		d := filepath.Join(dir, fmt.Sprint(p.name, "-", i))
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
		dirs = append(dirs, d)
	}
	made, err := p.make(dirs)
	if err != nil {
		return nil, err
	}
	failures := make(chan error, n)
	for i, s := range made {
		s.name, s.config.Log, s.config.LogStdout = p.name, dirs[i]+".log", true
		go func() { failures <- s.start(ctx, p.first) }() // those of a cluster wait for each other
	}
	for range made {
		err = errors.Join(err, <-failures)
	}
	if err != nil {
		made.kill()
		return nil, err
	}
	return made, nil
}
