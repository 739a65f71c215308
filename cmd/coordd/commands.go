package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// version is stamped by the linker (see the Makefile).
var version = "development"

// versionShown is the version of the program, and what it was built with and for.
type versionShown struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func versionText() string {
	return fmt.Sprintf("coordd %s (%s %s/%s)", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

const introduction = `coordd is a coordination server: locks, leader election, service discovery and
live configuration for programs that use the official YDB SDKs.

Start it with 'coordd serve'. When it is ready it prints one line, the connection
string to give to the SDK; its log goes to stderr. SIGINT and SIGTERM stop it
cleanly, a second one at once.`

const sourcesText = `Every flag can also be set by an environment variable (--data-dir is
COORDD_DATA_DIR; an empty one counts as not set) and by a line of the YAML file that
--config or COORDD_CONFIG names (data-dir: DIR). A flag wins over the environment,
which wins over the file.`

// execute builds the commands and runs the one that args name. It returns the
// path of that command for messages.
func (p *program) execute(args []string) (string, error) {
	root := p.newRoot()
	if found, _, err := root.Find(args); err != nil && !completing(args) {
		// Cobra found a word where a command has to be. Its error is of several
		// lines, ours is of one.
		return found.CommandPath(), unknownCommand(found, found.Flags().Args(), args)
	}
	root.SetArgs(args)
	command, err := root.ExecuteC()
	if kind := command.Annotations[runs]; kind == runsOne || kind == runsSome && slices.Contains(args, "--") {
		err = ownFailure(err)
	}
	return command.CommandPath(), err
}

func (p *program) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "coordd",
		Short:         "A coordination server for the YDB SDKs",
		Long:          introduction + "\n\nExit codes:\n" + strings.TrimRight(exitCodeHelp(), "\n"),
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(command *cobra.Command, _ []string) error {
			return usageError("no command given; known are %s", strings.Join(commandNames(command), ", "))
		},
	}
	root.SetVersionTemplate(versionText() + "\n")
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(p.serveCommand(), p.standinCommand(), p.checkCommand(), p.doctorCommand(),
		p.certCommand(), p.userCommand(), p.clusterCommand(), p.lockCommand(), p.electCommand(),
		p.discoverCommand(), p.configCommand(), p.topCommand(), p.benchCommand(),
		p.batchCommand(), p.exportCommand(), p.importCommand(), p.nodeCommand(), p.semaphoreCommand(),
		p.sessionCommand(), p.rateLimiterCommand(), p.listCommand(), p.makeDirectoryCommand(),
		p.removeDirectoryCommand(), p.grantCommand(), p.revokeCommand(), p.chownCommand(),
		p.conformanceCommand(), p.healthCommand(), p.licensesCommand(), p.versionCommand())
	root.SetHelpCommand(helpCommand())
	root.InitDefaultHelpCmd() // now, so that root.Find knows it
	root.InitDefaultCompletionCmd()
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
		Long:  "Run the server until SIGINT or SIGTERM.\n\n" + sourcesText,
		Example: `  coordd serve
  coordd serve --data-dir data --listen-http off
  COORDD_LOG_LEVEL=warn coordd serve --in-memory`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if p.easeTimers != nil { // before anything is read that can be read once only, such as a config from a pipe
				p.easeTimers()
			}
			s, values, err := resolve(serveOptions, command.Flags(), p.environment, p.uid)
			if err != nil {
				return err
			}
			return p.serve(s, values)
		},
	}
	addFlags(command.Flags(), serveOptions)
	return command
}

func (p *program) versionCommand() *cobra.Command {
	out := new(outputFlag)
	command := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  coordd version\n  coordd version -o json",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return out.one(p.stdout, &versionShown{version, runtime.Version(), runtime.GOOS, runtime.GOARCH},
				func(w io.Writer) { fmt.Fprintln(w, versionText()) })
		},
	}
	out.declareOutput(command)
	return command
}

// helpCommand differs from cobra's own in that an unknown command is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [command]",
		Short:   "Explain a command, or all of them",
		Example: "  coordd help\n  coordd help semaphore show",
		RunE: func(command *cobra.Command, args []string) error {
			topic, rest, err := command.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(command.Root(), rest, args)
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
	}
}

// noArguments refuses anything but flags.
func noArguments(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError("argument %q is not allowed: %s takes only flags", args[0], command.CommandPath())
	}
	return nil
}

// counted is a number of things in words, such as "1 argument".
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// wantsCommand is what a command does that only has others below it.
func wantsCommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError("no command given; known are %s", commandList(command))
	}
	return unknownCommand(command, args, args)
}

// unknownCommand is the error for a word where a command has to be: the first of
// rest, or else the first word of args that is no flag.
func unknownCommand(parent *cobra.Command, rest, args []string) error {
	word := ""
	for _, candidate := range append(rest, args...) {
		if word == "" && !strings.HasPrefix(candidate, "-") {
			word = candidate
		}
	}
	names := commandNames(parent)
	if near := closest(word, names); near != "" {
		return usageError("unknown command %q; did you mean %s?", word, near)
	}
	return usageError("unknown command %q; known are %s", word, strings.Join(names, ", "))
}

func commandNames(parent *cobra.Command) []string {
	var names []string
	for _, command := range parent.Commands() {
		names = append(names, command.Name())
	}
	return names
}

// flagError turns the flag parser's errors into ours, which name the flag and
// what is allowed.
func flagError(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		var names []string
		command.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, "--"+flag.Name) })
		name := "--" + unknown.GetSpecifiedName()
		if near := closest(name, names); near != "" {
			return usageError("unknown flag %s; did you mean %s?", name, near)
		}
		return usageError("unknown flag %s; %s knows %s", name, command.CommandPath(),
			strings.Join(names, ", "))
	case errors.As(err, &empty):
		flag := empty.GetFlag()
		return usageError("flag --%s: no value given; want %s: %s", flag.Name, flag.Value.Type(), flag.Usage)
	default:
		return withCode(exitUsage, err)
	}
}
