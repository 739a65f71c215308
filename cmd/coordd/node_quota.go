package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/server/adminpb"
)

const quotaText = `A quota bounds what a directory or coordination node and everything below it take: bytes, which
count as they do towards the limit of the state, and entries, which are the paths below a
directory. Every quota above a path counts. What would go beyond one is refused; a quota below
what is used takes nothing away. Only administrators set and see quotas.`

// quotaRow is a quota that bounds a path. A bound of 0 is none.
type quotaRow struct {
	Path        string `json:"path"`
	Bytes       uint64 `json:"bytes"`
	UsedBytes   uint64 `json:"used_bytes"`
	Entries     uint64 `json:"entries"`
	UsedEntries uint64 `json:"used_entries"`
}

func (q *quotaRow) cells() []string {
	most := func(bound uint64, text string) string {
		if bound == 0 {
			return "unlimited"
		}
		return text
	}
	return []string{q.Path, most(q.Bytes, sizeOf(q.Bytes)), sizeOf(q.UsedBytes),
		most(q.Entries, fmt.Sprint(q.Entries)), fmt.Sprint(q.UsedEntries)}
}

func nodeQuotaCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	var size string
	var request adminpb.SetQuotaRequest
	var none, sets bool
	command := askCommand(env, &question{use: "quota PATH",
		short: "Show the quotas that apply to a path, the nearest first, or set the path's own", long: quotaText,
		example: "  coordd node quota /local --bytes 256MiB --entries 1000\n  coordd node quota /local -o json\n" +
			"  coordd node quota /local --none",
		check: func(flags *pflag.FlagSet, _ []string) error {
			bounds := flags.Changed("bytes") || flags.Changed("entries")
			sets = bounds || none
			switch {
			case bounds && none:
				return exit.Usagef("--none takes the quota away: it goes with neither --bytes nor --entries")
			case flags.Changed("entries") && request.Entries == 0:
				return exit.Usagef("flag --entries: want 1 or more, or no --entries for no bound")
			case !flags.Changed("bytes"):
				return nil
			}
			var bytes serve.Size
			if err := bytes.UnmarshalText([]byte(size)); err != nil || bytes == 0 {
				return exit.Usagef("flag --bytes: value %q is not allowed: want a SIZE such as 256MiB", size)
			}
			request.Bytes = uint64(bytes)
			return nil
		},
		run: func(ctx context.Context, c *caller, args []string) error {
			path, answer := c.path(args[0]), new(adminpb.QuotasStatus)
			request.Path = path
			var err error
			if sets {
				err = c.inspect(ctx, adminpb.Cluster_SetQuota_FullMethodName, &request, answer)
			} else {
				err = c.inspect(ctx, adminpb.Cluster_Quotas_FullMethodName, &adminpb.QuotasRequest{Path: path}, answer)
			}
			if err != nil {
				return c.aboutPath(args[0], err)
			}
			rows := out.list(env.Stdout, "PATH", "BYTES", "USED", "ENTRIES", "USED")
			for _, q := range answer.GetQuotas() {
				row := &quotaRow{q.GetPath(), q.GetBytes(), q.GetUsedBytes(), q.GetEntries(), q.GetUsedEntries()}
				err = errors.Join(err, rows.add(row, row.cells()...))
			}
			return endList(env, rows, "quotas", err)
		}}, out)
	command.Flags().StringVar(&size, "bytes", "", "most bytes, a SIZE such as 256MiB; without it there is no bound")
	command.Flags().Uint64Var(&request.Entries, "entries", 0, "most paths below; without it there is no bound")
	command.Flags().BoolVar(&none, "none", false, "take the quota of the path away")
	return command
}
