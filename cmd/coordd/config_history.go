package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/server/adminpb"
)

// revisionShown is a version of a configuration, present or former.
type revisionShown struct {
	lastChange
	DataBytes uint64 `json:"data_bytes"`
	bytesShown
}

func showRevision(v *adminpb.Version) *revisionShown {
	shown := &revisionShown{lastChange: showVersion(v), DataBytes: v.GetDataBytes()}
	if !v.GetWithoutData() {
		shown.bytesShown = showBytes(v.GetData())
	}
	return shown
}

const configHistoryText = `Each server remembers in memory which versions it has seen since it started, up to 10 of a
configuration, and all servers are asked; what nobody has seen is missing. A version that has
lasted for less than a second is part of the next. The data of former versions is kept if
'coordd node alter --history data' says so, up to 64 KiB of a configuration, and shown to
callers that may read the node now.`

func configHistoryCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	return askCommand(env, &question{use: "history NODE NAME",
		short: "List the versions of a configuration, the current one last",
		long:  configHistoryText + "\n\n" + oursText,
		example: "  coordd node alter app --history data\n  coordd config set app settings '{\"debug\": true}'\n" +
			"  coordd config history app settings",
		run: func(ctx context.Context, c *caller, args []string) error {
			answer, err := c.versions(ctx, args[0], args[1], true)
			if err != nil {
				return fmt.Errorf("%q of %s: %w", args[1], c.path(args[0]), err)
			}
			for _, unknown := range answer.GetUnknown() {
				fmt.Fprintln(env.Stderr, "coordd:", unknown)
			}
			if answer.GetHistory() == adminpb.History_NONE {
				fmt.Fprintf(env.Stderr, "coordd: %s keeps no former versions; "+
					"`coordd node alter %[1]s --history meta` changes that\n", c.path(args[0]))
			}
			rows := out.list(env.Stdout, "VERSION", "CHANGED", "AUTHOR", "BYTES", "DATA")
			if p := answer.GetPresent(); p != nil {
				err = each(append(answer.GetFormer(), p), func(v *adminpb.Version) error {
					row, changed, data := showRevision(v), "unknown", dataText(v.GetData())
					if row.Changed != nil {
						changed = *row.Changed
					}
					if v.GetWithoutData() {
						data = "not kept"
					}
					return rows.add(row, fmt.Sprint(v.GetVersion()), changed, quotedName(v.GetAuthor()),
						fmt.Sprint(v.GetDataBytes()), data)
				})
			}
			return endList(env, rows, "versions: it goes with its last owner", err)
		}}, out)
}
