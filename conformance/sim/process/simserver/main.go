// Command simserver is `coordd serve` as a server of make chaos: with the same flags, signals and exit codes. Its
// listeners and its connections to other servers lead through the network of the world that has started it, the world
// orders the faults of its disk, and it keeps a journal of the entries that it executes (package process).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/pflag"

	"github.com/coordd/coordd/conformance/sim/process"
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server"
)

func main() {
	err := run(os.Args[1:])
	if err != nil {
		cmdline.Report(os.Stderr, "coordd", err)
	}
	os.Exit(int(exit.Of(err)))
}

func run(args []string) error {
	var given process.Setup
	if err := json.Unmarshal([]byte(os.Getenv(process.Variable)), &given); err != nil {
		return exit.With(exit.Usage, fmt.Errorf("%s: %w", process.Variable, err))
	}
	env := cmdline.OfProcess()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	serve.AddFlags(flags, serve.Options)
	if err := flags.Parse(args); err != nil {
		return exit.With(exit.Usage, err)
	}
	s, values, err := serve.Resolve(serve.Options, flags, env.Environ, env.UID)
	if err != nil {
		return err
	}
	journal, err := os.OpenFile(given.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	p := program{setup: given, journal: journal, disk: newDisk(string(s.DataDir))}
	go p.disk.obey(os.Stdin)
	return (&serve.Process{Env: &env, Start: p.start, StopTimeout: serve.StopTimeout}).Run(s, values)
}

// program is the server and its connection to the world.
type program struct {
	setup   process.Setup
	journal *os.File
	disk    *disk
	record  []byte // of the entry that is being executed
}

// start is serve.Start, but for the hooks.
func (p *program) start(ctx context.Context, s serve.Settings, values map[string]serve.Given,
	logger *slog.Logger) (serve.Server, error) {
	config, err := serve.ServerConfig(s, values, logger)
	if err != nil {
		return nil, err
	}
	config.Cluster.Dial = p.dial
	if p.setup.Limits.StateBytes != 0 {
		config.Limits.State = p.setup.Limits.StateBytes
	}
	started, err := server.StartWith(ctx, config, p.hooks())
	if err != nil {
		return nil, serve.Coded(err)
	}
	return running{started}, nil
}

// running gives the reason for which the server ended its exit code.
type running struct{ *server.Server }

// Err implements serve.Server.
func (r running) Err() error { return serve.CodedEnd(r.Server.Err()) }

func (p *program) hooks() hooks.Hooks {
	h := hooks.Hooks{Listen: listen, Executed: p.executed, Log: func(c *raftstore.Config) {
		process.Apply(&p.setup.Limits, c)
		c.FreeSpace = func(string) (uint64, error) { return p.disk.freeBytes(), nil }
	}}
	if p.setup.Version != 0 {
		h.Formats = coordination.Formats{Version: uint64(p.setup.Version), Since: codec.Since}
	}
	return h
}

// listen listens on an address of this machine in place of one of the world's.
func listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Println("listen", address, l.Addr())
	}
	return l, err
}

// dial connects to an address of the world.
func (p *program) dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", p.setup.Gateway)
	if err != nil {
		return nil, err
	}
	unblock := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer unblock()
	_, err = fmt.Fprintln(c, address)
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dial %s: %w", address, err), c.Close())
	}
	return c, nil
}

// executed writes an entry down before it is executed. A journal with a gap would prove nothing, so an error ends the
// program.
func (p *program) executed(m *coordination.Machine, e *coordination.Entry) {
	p.record = process.Append(p.record[:0], m, e)
	if _, err := p.journal.Write(p.record); err != nil {
		panic(fmt.Sprintf("journal: %v", err))
	}
}

// lines calls do with each line of an input.
func lines(input io.Reader, do func([]byte)) {
	for scanner := bufio.NewScanner(input); scanner.Scan(); {
		do(scanner.Bytes())
	}
}
