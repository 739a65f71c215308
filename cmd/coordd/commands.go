package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

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

// execute builds the commands and runs the one that args name. It returns the
// path of that command for messages.
func (p *program) execute(args []string) (string, error) {
	command, err := cmdline.Execute(p.newRoot(), args)
	if kind := command.Annotations[runs]; kind == runsOne || kind == runsSome && slices.Contains(args, "--") {
		err = ownFailure(err)
	}
	return command.CommandPath(), err
}

func (p *program) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "coordd",
		Short: "A coordination server for the YDB SDKs",
		Long:  introduction + "\n\nExit codes:\n" + strings.TrimRight(exitCodeHelp(), "\n"),
		RunE: func(command *cobra.Command, _ []string) error {
			return exit.Usagef("no command given; known are %s", strings.Join(cmdline.CommandNames(command), ", "))
		},
	}
	root.AddCommand(p.serveCommand(), p.checkCommand(), p.doctorCommand(),
		p.certCommand(), p.userCommand(), p.clusterCommand(), p.lockCommand(), p.electCommand(),
		p.discoverCommand(), p.configCommand(), p.topCommand(), p.benchCommand(),
		p.exportCommand(), p.importCommand(), p.nodeCommand(), p.semaphoreCommand(),
		p.sessionCommand(), p.rateLimiterCommand(), p.listCommand(), p.makeDirectoryCommand(),
		p.removeDirectoryCommand(), p.grantCommand(), p.revokeCommand(), p.chownCommand(),
		p.conformanceCommand(), p.healthCommand(), p.versionCommand())
	cmdline.Prepare(root, "semaphore show", p.stdout, p.stderr)
	for command, f := range p.callers {
		p.completeArguments(command, f)
	}
	guardNames(root)
	return root
}

func (p *program) serveCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long:  "Run the server until SIGINT or SIGTERM.\n\n" + serve.SourcesText,
		Example: `  coordd serve
  coordd serve --data-dir data --listen-http off
  COORDD_LOG_LEVEL=warn coordd serve --in-memory`,
		Args: cmdline.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if p.easeTimers != nil { // before anything is read that can be read once only, such as a config from a pipe
				p.easeTimers()
			}
			s, values, err := serve.Resolve(serve.Options, command.Flags(), p.environment, p.uid)
			if err != nil {
				return err
			}
			process := serve.Process{Stdout: p.stdout, Stderr: p.stderr, Environment: p.environment,
				Signals: p.signals, Start: p.start, StopTimeout: p.stopTimeout}
			return process.Run(s, values)
		},
	}
	serve.AddFlags(command.Flags(), serve.Options)
	return command
}

func (p *program) versionCommand() *cobra.Command {
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
			return out.one(p.stdout, &versionShown{cmdline.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH},
				func(w io.Writer) { fmt.Fprintln(w, cmdline.VersionText("coordd")) })
		},
	}
	out.declareOutput(command)
	return command
}
