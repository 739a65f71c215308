package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
)

// versionShown is the version of the program, and what it was built with and for.
type versionShown struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

const introduction = `coordd is a coordination server: locks, leader election, service discovery and
live configuration for programs that use the official YDB SDKs.

Start it with 'coordd serve'. When it is ready it prints one line, the connection
string to give to the SDK; its log goes to stderr. SIGINT and SIGTERM stop it
cleanly, a second one at once.`

// runCommand carries out the command line and returns the exit code. It prints an error to stderr, in lines that start
// with the program's name.
func runCommand(env cmdline.Env, own seams, args []string) exit.Code {
	env.Stdout, env.Stderr = cmdline.Escaped(env.Stdout), cmdline.Escaped(env.Stderr)
	command, err := cmdline.Execute(newRoot(&env, own), args)
	err = withNotFound(err)
	if kind := command.Annotations[runs]; kind == runsOne || kind == runsSome && slices.Contains(args, "--") {
		err = ownFailure(err)
	}
	var ended *commandEnded
	if err != nil && !errors.As(err, &ended) {
		cmdline.Report(env.Stderr, command.CommandPath(), err)
	}
	return exit.Of(err)
}

// seams are the places where tests put something of their own.
type seams struct {
	// easeTimers comes before the server's settings are read, and may begin the program anew; nil in tests.
	easeTimers  func()
	start       serve.StartFunc
	stopTimeout time.Duration // how long a stopping server may wait for clients
	check       checkFunc
}

func newRoot(env *cmdline.Env, own seams) *cobra.Command {
	root := &cobra.Command{
		Use:   "coordd",
		Short: "A coordination server for the YDB SDKs",
		Long:  introduction + "\n\nExit codes:\n" + strings.TrimRight(exitCodeHelp(), "\n"),
		RunE: func(command *cobra.Command, _ []string) error {
			return exit.Usagef("no command given; known are %s", strings.Join(cmdline.CommandNames(command), ", "))
		},
	}
	root.AddCommand(serveCommand(env, own), checkCommand(env, own.check), doctorCommand(env),
		certCommand(env), userCommand(env), clusterCommand(env), lockCommand(env), electCommand(env),
		discoverCommand(env), configCommand(env), topCommand(env), slowCommand(env), eventsCommand(env),
		consoleCommand(env), benchCommand(env), exportCommand(env), importCommand(env), nodeCommand(env),
		semaphoreCommand(env), sessionCommand(env), rateLimiterCommand(env), listCommand(env),
		makeDirectoryCommand(env), removeDirectoryCommand(env), grantCommand(env), revokeCommand(env),
		chownCommand(env), healthCommand(env), versionCommand(env))
	cmdline.Prepare(root, "semaphore show", env.Stdout, env.Stderr)
	guardNames(root)
	return root
}

func serveCommand(env *cmdline.Env, own seams) *cobra.Command {
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long:  "Run the server until SIGINT or SIGTERM.\n\n" + serve.SourcesText,
		Example: `  coordd serve
  coordd serve --data-dir data --listen-http off
  COORDD_LOG_LEVEL=warn coordd serve --in-memory`,
		Args: cmdline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if own.easeTimers != nil { // before anything is read that can be read only once: a config from a pipe
				own.easeTimers()
			}
			s, values, err := serve.Resolve(serve.Options, command.Flags(), env.Environ, env.UID)
			if err != nil {
				return err
			}
			process := serve.Process{Env: env, Start: own.start, StopTimeout: own.stopTimeout}
			return process.Run(s, values)
		},
	}
	serve.AddFlags(command.Flags(), serve.Options)
	return command
}

func versionCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	command := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  coordd version\n  coordd version -o json",
		Args:    cmdline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return out.one(env.Stdout, &versionShown{cmdline.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH},
				func(w io.Writer) { fmt.Fprintln(w, cmdline.VersionText("coordd")) })
		},
	}
	out.declareOutput(command)
	return command
}
