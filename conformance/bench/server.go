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
	"github.com/coordd/coordd/internal/load"
	"github.com/coordd/coordd/internal/testserver"
)

// patience bounds the start of a server, which may have a million rows.
const patience = 2 * time.Minute

// process is a server that can be killed and started again, with the same address and directory.
type process struct {
	product *product
	address string
	debug   string // where Go's profiles are, empty if nowhere
	metrics string // address of /metrics, empty if nowhere
	config  testserver.Config
	running *testserver.Process
}

// serverCPU is the processor that servers run on, "" if on all.
var serverCPU string

// start starts the server and waits until it answers.
func (p *process) start(ctx context.Context) (err error) {
	c := p.config
	if serverCPU != "" {
		c.Program, c.Args = "taskset", append([]string{"-c", serverCPU, c.Program}, c.Args...)
	}
	if p.running, err = testserver.Start(c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for listening := false; ; {
		if !listening { // clients back off for a long time if nobody listens, hence the connection of its own
			var conn net.Conn
			if conn, err = net.Dial("tcp", p.address); err == nil {
				_ = conn.Close()
				listening = true
			}
		}
		if listening {
			if err = p.product.first(ctx, p.address); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not get ready, see %s: %w", p.product.name, c.Log, errors.Join(err, ctx.Err()))
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

// resident returns the memory of the server. One in Go collects its garbage first, twice, as the second time finds
// what finalizers and pools let go.
func (p *process) resident(ctx context.Context) (int64, error) {
	if p.debug != "" {
		for range 2 {
			if _, err := fetch(ctx, "http://"+p.debug+"/debug/pprof/heap?gc=1"); err != nil {
				return 0, err
			}
		}
	}
	return machine.Resident(p.running.PID())
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
func (s servers) cpu() (sum time.Duration, err error) {
	for _, p := range s {
		used, err := machine.CPU(p.running.PID())
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// spent is the processor time of all of them while something is done.
func (s servers) spent(do func() error) (time.Duration, error) {
	before, err := s.cpu()
	if err == nil {
		err = do()
	}
	if err != nil {
		return 0, err
	}
	after, err := s.cpu()
	return after - before, err
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
	absent  string
	version []string // the command that prints it
	library string   // the module of the client
	// ports counts the addresses that a server listens on. make makes servers that have not been started, each with
	// a directory and so many of the addresses.
	ports int
	make  func(dirs, addresses []string) (servers, error)
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
	addresses, err := testserver.FreeAddresses(p.ports * n)
	if err != nil {
		return nil, err
	}
	made, err := p.make(dirs, addresses)
	if err != nil {
		return nil, err
	}
	err = load.Together(made, func(i int, s *process) error { // those of a cluster wait for each other
		s.product, s.address, s.config.Log, s.config.LogStdout = p, addresses[i], dirs[i]+".log", true
		return s.start(ctx)
	})
	if err != nil {
		made.kill()
		return nil, err
	}
	return made, nil
}

// launchIn starts a server that ends with the turn.
func (p *product) launchIn(t *turn, dir string) (*process, error) {
	s, err := p.launch(t, dir, 1)
	if err != nil {
		return nil, err
	}
	t.later(s.kill)
	return s[0], nil
}
