package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coordd/coordd/conformance/record"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/standin"
)

const text = `Run a server for other people's tests until SIGINT or SIGTERM. It keeps everything in
memory, and whoever reaches the address for monitoring programs can make things go
wrong on it: 'coordd-standin ctl help' lists what. Never let anything depend on it.

With --local-ydb, which the image sets, it is to clients what the local-ydb image is:
ports, certificates, the user root with the password 1234.

--record writes what clients and the server say to each other, data included, as a
script that cmd/coordd-conformance of the repository replays on any server. Protection
keys become names; headers, tokens and passwords are not in it. What a client never
sent because its connection was lost cannot be in it either.

The log has a link to its console: locks and sessions as on any server, and a view of
the messages of clients and servers, with a form for each order. --demo has something
to look at there at once.

The exit code is 0 after a stop by a signal, 1 for any other failure, such as a port in
use, 2 for a wrong command, flag or argument, 4 for a wrong setting or file, and 6 if
ctl reaches no stand-in.`

// lackingSettings names the settings of a server that a stand-in lacks, besides those of a cluster: it keeps nothing,
// and takes its orders in plain text.
var lackingSettings = []string{serve.DataDirName, serve.InMemoryName, "disk-reserve", "admin-socket", "http-tls"}

// options lists the settings of a stand-in.
func options() []serve.Option {
	return slices.DeleteFunc(slices.Clone(serve.Options), func(o serve.Option) bool {
		return slices.Contains(lackingSettings, o.Name) ||
			slices.ContainsFunc(serve.ClusterOptions, func(c serve.Option) bool { return c.Name == o.Name })
	})
}

func (p *program) command() *cobra.Command {
	var f flags
	command := &cobra.Command{
		Use:     "coordd-standin",
		Short:   "Run a server for tests, on which things go wrong on demand",
		Long:    text + "\n\n" + serve.SourcesText,
		Example: "  coordd-standin\n  coordd-standin --listen 127.0.0.1:0 --listen-http 127.0.0.1:0 --fake-time",
		Args:    cmdline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return p.standIn(command.Flags(), f)
		},
	}
	serve.AddFlags(command.Flags(), options())
	f.record.Placeholder, f.load.Placeholder = "FILE", "FILE"
	command.Flags().Var(&f.record, "record",
		"write what clients and the server say as a script to this new file")
	command.Flags().Var(&f.load, "load",
		"begin with the coordination nodes and semaphores in this file, "+
			"which is written as 'coordd-standin ctl dump' writes them")
	command.Flags().BoolVar(&f.fakeTime, "fake-time", false,
		"have time stand still for sessions and waits until 'coordd-standin ctl advance'")
	command.Flags().BoolVar(&f.demo, "demo", false,
		"begin with a node "+demoNode+" and clients that take locks in it, as something to look at in the console")
	command.AddCommand(p.ctlCommand(), cmdline.PrintCommand("version", "Print the version",
		"  coordd-standin version", cmdline.VersionText("coordd-standin")+"\n"))
	return command
}

// flags are those that a server has not.
type flags struct {
	record, load   cmdline.RawFlag
	fakeTime, demo bool
}

// maxFixtureBytes bounds the file of --load.
const maxFixtureBytes = 64 << 20

// standinGCPercent has a stand-in do with less memory at the price of processor time, unless GOGC says
// something else: a machine that runs tests has many processes.
const standinGCPercent = 50

func (p *program) standIn(set *pflag.FlagSet, f flags) error {
	s, values, err := resolve(set, p.Environ)
	if err != nil {
		return err
	}
	if s.Listen == "" {
		return exit.With(exit.Config, fmt.Errorf("%s: a stand-in needs an address for plain text, which its orders use",
			values[serve.ListenName].Origin))
	}
	var with []standin.Option
	if f.fakeTime {
		with = append(with, standin.FakeTime())
	}
	fixture := ""
	if f.demo {
		if s.Auth.Mode == server.AuthRequired {
			return exit.Usagef("--demo and --auth=required do not go together: its clients have no users")
		}
		fixture = demoFixture
	}
	if f.load.Text != "" {
		loaded, err := readAtMost(f.load.Text, maxFixtureBytes)
		if err != nil {
			return exit.With(exit.Config, err)
		}
		fixture += loaded
	}
	if fixture != "" {
		with = append(with, standin.Fixture(fixture))
	}
	var besides []beside
	if f.demo {
		besides = append(besides, startDemo)
	}
	if f.record.Text == "" {
		if !f.fakeTime {
			besides = append(besides, takeRecordings)
		}
		return p.serve(s, values, with, besides)
	}
	if f.fakeTime {
		return exit.Usagef("--record and --fake-time do not go together: a recording goes by real time")
	}
	recorder, err := record.Start(f.record.Text, string(s.Database), record.MaxBytes)
	if err != nil {
		return exit.With(exit.Config, err)
	}
	var closed error
	besides = append(besides, func(*standin.Process, *slog.Logger) func() {
		return func() { closed = recorder.Close() }
	})
	return cmp.Or(p.serve(s, values, append(with, standin.Tap(recorder)), besides), closed)
}

// readAtMost reads a file that is to have no more bytes than most.
func readAtMost(name string, most int64) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(content)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return string(content), err
}

// beside starts something that runs beside a stand-in, and returns a function that ends it.
type beside func(*standin.Process, *slog.Logger) (end func())

// serve runs a stand-in. Everything beside it ends before its streams do.
func (p *program) serve(s serve.Settings, values map[string]serve.Given, with []standin.Option,
	besides []beside) error {
	if p.Environ.Value("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(standinGCPercent))
	}
	process := serve.Process{Env: &p.Env, StopTimeout: p.stopTimeout, LogConsole: true}
	process.Start = func(ctx context.Context, s serve.Settings, values map[string]serve.Given,
		logger *slog.Logger) (serve.Server, error) {
		running, err := start(ctx, s, values, logger, with)
		if err != nil {
			return nil, err
		}
		started := &runningServer{Process: running}
		for _, start := range besides {
			started.ends = append(started.ends, start(running, logger))
		}
		return started, nil
	}
	return process.Run(s, values)
}

// resolve finds the values of the settings.
func resolve(set *pflag.FlagSet, env cmdline.Environment) (serve.Settings, map[string]serve.Given, error) {
	s, values, err := serve.ResolveEach(options(), set, env)
	if err != nil {
		return serve.Settings{}, nil, err
	}
	s.InMemory = true
	for _, o := range serve.Options {
		if _, found := values[o.Name]; !found {
			values[o.Name] = serve.Given{Value: o.Fallback, Origin: "default", Code: exit.Config}
		}
	}
	return s, values, nil
}

// The user that local-ydb has.
const (
	localYDBUser     = "root"
	localYDBPassword = "1234"
)

// start starts the real server with faults.
func start(ctx context.Context, s serve.Settings, values map[string]serve.Given, logger *slog.Logger,
	with []standin.Option) (*standin.Process, error) {
	config, err := serve.ServerConfig(s, values, logger)
	if err != nil {
		return nil, err
	}
	if s.LocalYDB && config.InitialAdmin == "" {
		config.InitialAdmin, config.InitialAdminPassword = localYDBUser, localYDBPassword
		logger.Warn("everybody knows the user root with the password 1234", "listen", s.Listen)
	}
	if err := config.Validate(); err != nil {
		return nil, exit.With(exit.Config, &server.ConfigError{Err: err})
	}
	started, err := standin.RunProcess(ctx, config, with...)
	var unreadable *standin.FixtureError
	if errors.As(err, &unreadable) {
		return nil, exit.With(exit.Config, fmt.Errorf("the file of --load: %w", unreadable))
	}
	if err != nil {
		return nil, serve.AboutListener(serve.Coded(err), s, values)
	}
	logger.Warn("this is a stand-in for tests: it keeps nothing, and "+
		"whoever reaches the address for monitoring programs can have anything go wrong",
		"orders", ordersOf(started.HTTPAddr()))
	return started, nil
}

// ordersOf returns the address for orders, in the form of COORDD_STANDIN.
func ordersOf(address net.Addr) string {
	if address == nil {
		return "nowhere"
	}
	return address.String()
}

// runningServer is a stand-in as serve.Process sees it.
type runningServer struct {
	*standin.Process
	ends []func() // of everything beside it
}

// Err is the reason for which it has ended, with its exit code.
func (s *runningServer) Err() error { return serve.CodedEnd(s.Process.Err()) }

// Stop first ends everything that runs beside the stand-in.
func (s *runningServer) Stop(ctx context.Context) error {
	for _, end := range s.ends {
		end()
	}
	return s.Process.Stop(ctx)
}
