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

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/standin"
)

const standinText = `Run a server for other people's tests until SIGINT or SIGTERM. It keeps everything in
memory, and whoever reaches the address for monitoring programs can make things go
wrong on it: 'coordd standin ctl help' lists what. Never let anything depend on it.

With --local-ydb, which the image sets, it is to clients what the local-ydb image is:
ports, certificates, the user root with the password 1234.

--record writes what clients and the server say to each other, data included, as a
script that 'coordd conformance --file' replays on any server. Protection keys become
names; headers, tokens and passwords are not in it. What a client never sent because
its connection was lost cannot be in it either.`

// keptSettings are the settings of serve that a stand-in has not: it is alone, and keeps nothing.
var keptSettings = []string{serve.DataDirName, serve.InMemoryName, "disk-reserve"}

// standinOptions are the settings of `coordd standin`.
func standinOptions() []serve.Option {
	return slices.DeleteFunc(slices.Clone(serve.Options), func(o serve.Option) bool {
		return slices.Contains(keptSettings, o.Name) ||
			slices.ContainsFunc(serve.ClusterOptions, func(c serve.Option) bool { return c.Name == o.Name })
	})
}

func (p *program) standinCommand() *cobra.Command {
	var given standinFlags
	command := &cobra.Command{
		Use:   "standin",
		Short: "Run a server for tests, on which things go wrong on demand",
		Long:  standinText + "\n\n" + sourcesText,
		Args:  cmdline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return p.standin(command.Flags(), given)
		},
	}
	serve.AddFlags(command.Flags(), standinOptions())
	given.record.Placeholder, given.load.Placeholder = "FILE", "FILE"
	command.Flags().Var(&given.record, "record",
		"write what clients and the server say as a script to this new file")
	command.Flags().Var(&given.load, "load",
		"begin with the coordination nodes and semaphores in this file, which is written as 'coordd standin ctl dump' writes them")
	command.Flags().BoolVar(&given.fakeTime, "fake-time", false,
		"have time stand still for sessions and waits until 'coordd standin ctl advance'")
	command.AddCommand(p.standinCtlCommand())
	return command
}

// standinFlags are the flags of `coordd standin` that serve has not.
type standinFlags struct {
	record, load cmdline.RawFlag
	fakeTime     bool
}

// maxFixtureBytes bounds the file of --load.
const maxFixtureBytes = 64 << 20

// standinGCPercent has a stand-in do with less memory at the price of processor time, unless GOGC says
// something else: a machine that runs tests has many processes.
const standinGCPercent = 50

func (p *program) standin(flags *pflag.FlagSet, given standinFlags) error {
	s, values, err := resolveStandin(flags, p.environment)
	if err != nil {
		return err
	}
	var options []standin.Option
	if given.fakeTime {
		options = append(options, standin.FakeTime())
	}
	if given.load.Text != "" {
		fixture, err := readAtMost(given.load.Text, maxFixtureBytes)
		if err != nil {
			return exit.With(exit.Config, err)
		}
		options = append(options, standin.Fixture(fixture))
	}
	if given.record.Text == "" {
		return p.standInWith(s, values, options, func() error { return nil })
	}
	if given.fakeTime {
		return exit.Usagef("--record and --fake-time do not go together: a recording goes by real time")
	}
	recorder, err := conformance.Record(given.record.Text, s.Database)
	if err != nil {
		return exit.With(exit.Config, err)
	}
	return p.standInWith(s, values, append(options, standin.Tap(recorder)), recorder.Close)
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

// standInWith runs a stand-in. stopping is called before its clients are told of the end.
func (p *program) standInWith(s serve.Settings, values map[string]serve.Given, options []standin.Option,
	stopping func() error) error {
	var recording error
	if p.environment.Value("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(standinGCPercent))
	}
	process := serve.Process{Stdout: p.stdout, Stderr: p.stderr, Environment: p.environment, Signals: p.signals,
		StopTimeout: p.stopTimeout}
	process.Start = func(ctx context.Context, s serve.Settings, values map[string]serve.Given,
		logger *slog.Logger) (serve.Server, error) {
		running, err := startStandin(ctx, s, values, logger, options)
		if err != nil {
			return nil, err
		}
		return &standInServer{Process: running, stopping: func() { recording = stopping() }}, nil
	}
	return cmp.Or(process.Run(s, values), recording)
}

// resolveStandin is resolve for a stand-in.
func resolveStandin(flags *pflag.FlagSet, env cmdline.Environment) (serve.Settings, map[string]serve.Given, error) {
	s, values, err := serve.ResolveEach(standinOptions(), flags, env)
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

// startStandin starts the real server with faults.
func startStandin(ctx context.Context, s serve.Settings, values map[string]serve.Given, logger *slog.Logger,
	options []standin.Option) (*standin.Process, error) {
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
	started, err := standin.RunProcess(ctx, config, options...)
	var unreadable *standin.FixtureError
	if errors.As(err, &unreadable) {
		return nil, exit.With(exit.Config, fmt.Errorf("the file of --load: %w", unreadable))
	}
	if err != nil {
		return nil, serve.AboutListener(serve.Coded(err), s, values)
	}
	logger.Warn("this is a stand-in for tests: it keeps nothing, and whoever reaches the address for monitoring programs can have anything go wrong",
		"orders", ordersOf(started.HTTPAddr()))
	return started, nil
}

// ordersOf is where orders are taken, as COORDD_STANDIN has it.
func ordersOf(address net.Addr) string {
	if address == nil {
		return "nowhere"
	}
	return address.String()
}

// standInServer is a stand-in that stops.
type standInServer struct {
	*standin.Process
	stopping func()
}

// Err is the reason for which it has ended, with its exit code.
func (s *standInServer) Err() error { return serve.CodedEnd(s.Process.Err()) }

// Stop ends the recording first.
func (s *standInServer) Stop(ctx context.Context) error {
	s.stopping()
	return s.Process.Stop(ctx)
}
