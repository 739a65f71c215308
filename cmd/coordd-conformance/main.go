// Command coordd-conformance replays the documented semantics on a server, coordd or YDB. It is for those who develop
// beside the protocol, so it is no part of a release: run it with go run.
//
// connection.go finds the server and logs in, replay.go selects the scripts, runs them and reports.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
)

func main() {
	env := cmdline.OfProcess()
	os.Exit(int(run(&env, conformance.Scripts, os.Args[1:])))
}

const text = `Replay the documented semantics as scripts on a server, coordd or YDB, and show
every difference. The scripts work in a directory of their own below the database,
which is made at the start and removed at the end; nothing else is touched. Scripts
that need more than a client can do (a fake clock, a restart, several servers) are
skipped, and the summary says so.

The exit code is 0 if nothing differs, 5 if something does, 2 for a wrong flag, 4 for a
wrong setting or file, 6 if no server can be reached there, and 1 for any other failure.`

// run carries out a command line.
func run(env *cmdline.Env, all builtIn, args []string) exit.Code {
	var from connectionFlags
	var of selectionFlags
	root := &cobra.Command{
		Use:     "coordd-conformance",
		Short:   "Check that a server behaves as documented",
		Long:    text,
		Example: "  go run ./cmd/coordd-conformance --run '^watch/both$' --junit report.xml",
		Args:    cmdline.NoArguments,
		RunE:    func(*cobra.Command, []string) error { return replay(env, &from, &of, all) },
	}
	root.Flags().SortFlags = false
	from.declare(root.Flags())
	of.declare(root.Flags())
	return cmdline.Run(env, root, "licenses", args)
}
