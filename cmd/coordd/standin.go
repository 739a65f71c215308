package main

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/standin/faults"
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
var keptSettings = []string{dataDirName, inMemoryName, "disk-reserve"}

// standinOptions are the settings of `coordd standin`.
func standinOptions() []option {
	return slices.DeleteFunc(slices.Clone(serveOptions), func(o option) bool {
		return slices.Contains(keptSettings, o.name) || slices.ContainsFunc(clusterOptions, func(c option) bool { return c.name == o.name })
	})
}

func (p *program) standinCommand() *cobra.Command {
	record := rawFlag{placeholder: "FILE"}
	command := &cobra.Command{
		Use:   "standin",
		Short: "Run a server for tests, on which things go wrong on demand",
		Long:  standinText + "\n\n" + sourcesText,
		Args:  noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return p.standin(command.Flags(), record.text)
		},
	}
	addFlags(command.Flags(), standinOptions())
	command.Flags().Var(&record, "record", "write what clients and the server say as a script to this new file")
	command.AddCommand(p.standinCtlCommand())
	return command
}

func (p *program) standin(flags *pflag.FlagSet, record string) error {
	s, values, err := resolveStandin(flags, p.environment)
	if err != nil {
		return err
	}
	set := faults.New(nil)
	if record != "" {
		recorder, err := conformance.Record(record, s.database)
		if err != nil {
			return withCode(exitConfig, err)
		}
		set.SetTap(recorder)
		return p.standInWith(set, s, values, recorder.Close)
	}
	return p.standInWith(set, s, values, func() error { return nil })
}

// standInWith runs a stand-in. stopping is called before its clients are told of the end.
func (p *program) standInWith(set *faults.Set, s settings, values map[string]given, stopping func() error) error {
	var recording error
	standIn := *p
	standIn.start = func(ctx context.Context, s settings, values map[string]given, logger *slog.Logger) (runningServer, error) {
		running, err := startStandin(ctx, set, s, values, logger)
		if err != nil {
			return nil, err
		}
		return &standInServer{runningServer: running, set: set, stopping: func() { recording = stopping() }}, nil
	}
	return cmp.Or(standIn.serve(s, values), recording)
}

// resolveStandin is resolve for a stand-in.
func resolveStandin(flags *pflag.FlagSet, env environment) (settings, map[string]given, error) {
	s, values, err := resolveEach(standinOptions(), flags, env)
	if err != nil {
		return settings{}, nil, err
	}
	s.inMemory = true
	for _, o := range serveOptions {
		if _, found := values[o.name]; !found {
			values[o.name] = given{value: o.fallback, origin: "default", code: exitConfig}
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
func startStandin(ctx context.Context, set *faults.Set, s settings, values map[string]given, logger *slog.Logger) (runningServer, error) {
	config, err := serverConfig(s, values, logger)
	if err != nil {
		return nil, err
	}
	if s.localYDB && config.InitialAdmin == "" {
		config.InitialAdmin, config.InitialAdminPassword = localYDBUser, localYDBPassword
		logger.Warn("everybody knows the user root with the password 1234", "listen", s.listen)
	}
	if err := config.Validate(); err != nil {
		return nil, withCode(exitConfig, &server.ConfigError{Err: err})
	}
	started, err := set.Start(ctx, config)
	if err != nil {
		return nil, aboutListener(coded(err), s, values)
	}
	logger.Warn("this is a stand-in for tests: it keeps nothing, and whoever reaches the address for monitoring programs can have anything go wrong",
		"orders", ordersOf(started.HTTPAddr()))
	return failingServer{started}, nil
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
	runningServer
	set      *faults.Set
	stopping func()
}

// Stop takes the faults back first: who is not to hear anything could not be told.
func (s *standInServer) Stop(ctx context.Context) error {
	s.stopping()
	s.set.Reset()
	return s.runningServer.Stop(ctx)
}
