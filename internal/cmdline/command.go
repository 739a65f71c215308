package cmdline

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	repository "github.com/coordd/coordd"
	"github.com/coordd/coordd/internal/exit"
)

// Run prepares the root command of a program, carries out a command line and returns the exit code. Env's streams are
// those that the commands write to, so that control characters in what a server says are escaped.
func Run(env *Env, root *cobra.Command, topic string, args []string) exit.Code {
	env.Stdout, env.Stderr = Escaped(env.Stdout), Escaped(env.Stderr)
	Prepare(root, topic, env.Stdout, env.Stderr)
	command, err := Execute(root, args)
	if err != nil {
		Report(env.Stderr, command.CommandPath(), err)
	}
	return exit.Of(err)
}

// Prepare gives the root command of a program what all programs have: the version, the licences, a help command that
// refuses unknown topics, and errors of one line. topic is a command for the help command's example.
func Prepare(root *cobra.Command, topic string, stdout, stderr io.Writer) {
	root.Version, root.SilenceErrors, root.SilenceUsage = Version, true, true
	root.SetVersionTemplate(VersionText(root.Name()) + "\n")
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(PrintCommand("licenses", "Print the licences of everything that this program contains",
		"  "+root.Name()+" licenses > licences.txt", repository.ThirdPartyNotices))
	root.SetHelpCommand(helpCommand(root.Name(), topic))
	root.InitDefaultHelpCmd() // now, so that root.Find knows it
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		if command.Name() == "completion" { // without a shell it would print its help and succeed
			command.Args, command.RunE = nil, WantsCommand
		}
	}
}

// Execute runs the command that args name, and returns it: messages name its path.
func Execute(root *cobra.Command, args []string) (*cobra.Command, error) {
	if found, _, err := root.Find(args); err != nil && !completing(args) {
		// Cobra found a word where a command has to be. Its error is of several
		// lines, ours is of one.
		return found, unknownCommand(found, found.Flags().Args(), args)
	}
	root.SetArgs(args)
	return root.ExecuteC()
}

// Report prints an error in lines that start with the program's name. command is the path of the one that failed.
func Report(stderr io.Writer, command string, err error) {
	program, _, _ := strings.Cut(command, " ")
	// An error may contain texts of a server, which must not look like lines of this program.
	fmt.Fprintf(stderr, "%s: %s\n", program, strings.ReplaceAll(err.Error(), "\n", "\n  "))
	if exit.IsUsage(err) {
		fmt.Fprintf(stderr, "Run '%s --help' for usage.\n", command)
	}
}

// completing reports whether a command line is a question of a shell's.
func completing(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd ||
		args[0] == cobra.ShellCompNoDescRequestCmd)
}

// version is stamped by the linker (see the Makefile).
var version string

// Version is the program's: the linker's or, as after go install, that of its module.
var Version = cmp.Or(version, moduleVersion(), "development")

// moduleVersion is the version of the main module in the build information, "" if that names none.
func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return ""
}

// VersionText names a program, its version and what it was built with and for.
func VersionText(program string) string {
	return fmt.Sprintf("%s %s (%s %s/%s)", program, Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// PrintCommand returns a command that prints a text.
func PrintCommand(name, short, example, text string) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Example: example, Args: NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := io.WriteString(command.OutOrStdout(), text)
			return err
		}}
}

// helpCommand differs from cobra's own in that an unknown command is an error.
func helpCommand(program, topic string) *cobra.Command {
	return &cobra.Command{
		Use:     "help [command]",
		Short:   "Explain a command, or all of them",
		Example: "  " + program + " help\n  " + program + " help " + topic,
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

// NoArguments refuses anything but flags.
func NoArguments(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usagef("argument %q is not allowed: %s takes only flags", args[0], command.CommandPath())
	}
	return nil
}

// WantsCommand refuses to run a command that only groups others.
func WantsCommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return exit.Usagef("no command given; known are %s", strings.Join(CommandNames(command), ", "))
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
	names := CommandNames(parent)
	if near := Closest(word, names); near != "" {
		return exit.Usagef("unknown command %q; did you mean %s?", word, near)
	}
	if below := commandsBelow(parent, word); len(below) > 0 {
		return exit.Usagef("unknown command %q; did you mean %s?", word, strings.Join(below, " or "))
	}
	return exit.Usagef("unknown command %q; known are %s", word, strings.Join(names, ", "))
}

// commandsBelow returns the paths of the commands of a name that stand two steps below one.
func commandsBelow(parent *cobra.Command, name string) (paths []string) {
	for _, group := range parent.Commands() {
		for _, command := range group.Commands() {
			if command.Name() == name {
				paths = append(paths, "'"+command.CommandPath()+"'")
			}
		}
	}
	return paths
}

// CommandNames lists the commands below one.
func CommandNames(parent *cobra.Command) []string {
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
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		var names []string
		command.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, "--"+flag.Name) })
		name := "--" + unknown.GetSpecifiedName()
		if near := Closest(name, names); near != "" {
			return exit.Usagef("unknown flag %s; did you mean %s?", name, near)
		}
		return exit.Usagef("unknown flag %s; %s knows %s", name, command.CommandPath(),
			strings.Join(names, ", "))
	case errors.As(err, &empty):
		flag := empty.GetFlag()
		return exit.Usagef("flag --%s: no value given; want %s: %s", flag.Name, flag.Value.Type(), flag.Usage)
	case errors.As(err, &invalid):
		flag := invalid.GetFlag()
		want := cmp.Or(wantedOf[flag.Value.Type()], flag.Value.Type())
		return exit.Usagef("flag --%s: value %q is not allowed: want %s", flag.Name, invalid.GetValue(), want)
	default:
		return exit.With(exit.Usage, err)
	}
}

// wantedOf describes the values of flags by their type.
var wantedOf = map[string]string{"duration": "a time such as 30s or 10m", "bool": "true or false",
	"uint64": "a number from 0 to 18446744073709551615", "int": "a number", "uint8": "a number from 0 to 255",
	"float64": "a number"}

// RawFlag keeps a flag's text as it is; it is checked when all sources are known,
// so that every source gets the same checks and messages.
type RawFlag struct {
	Text        string
	Placeholder string
}

// Set implements pflag.Value, as the rest does.
func (f *RawFlag) Set(text string) error { f.Text = text; return nil }

// String returns the text.
func (f *RawFlag) String() string { return f.Text }

// Type returns the placeholder, for help texts.
func (f *RawFlag) Type() string { return f.Placeholder }
