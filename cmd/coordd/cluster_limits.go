package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/statelimit"
)

const limitsText = `Everything that the cluster keeps counts: names, texts and data, and a charge for each
session, semaphore, owner, waiter, path and user (docs/limits.md). What would go beyond
the limit is refused; whatever makes the state smaller is always possible.

The first server that leads a cluster without a limit sets that of its --state-limit.
Afterwards only --state, here, changes it, for all servers at once.`

func clusterLimitsCommand(env *cmdline.Env) *cobra.Command {
	var state string
	var wanted serve.StateLimit
	out := new(outputFlag)
	command := askCommand(env, &question{use: "limits", about: clusterText, long: limitsText,
		short:   "Show the limit of the state and how much of it is used, or set it",
		example: "  coordd cluster limits\n  coordd cluster limits --state 512MiB",
		check: func(*pflag.FlagSet, []string) error {
			if state == "" {
				return nil
			}
			if err := wanted.UnmarshalText([]byte(state)); err != nil {
				return exit.Usagef("flag --state: value %q is not allowed: %w", state, err)
			}
			return nil
		},
		run: func(ctx context.Context, c *caller, _ []string) (err error) {
			now := new(adminpb.LimitsStatus)
			if state == "" {
				err = c.cluster(ctx, adminpb.Cluster_Limits_FullMethodName, &adminpb.LimitsRequest{}, now)
			} else {
				err = c.cluster(ctx, adminpb.Cluster_SetLimits_FullMethodName,
					&adminpb.SetLimitsRequest{StateBytes: uint64(wanted)}, now)
			}
			if err != nil {
				return err
			}
			return out.one(env.Stdout, showLimits(now), func(w io.Writer) { printLimits(w, now) })
		}}, out)
	command.Flags().StringVar(&state, "state", "",
		"new limit: a SIZE such as 512MiB, or "+serve.UnlimitedText+" (default: only show it)")
	return command
}

// limitsShown is the limits, as the output has them.
type limitsShown struct {
	Server string `json:"server"` // that was asked
	// null as long as none is set, and where it is unlimited
	StateLimit     *uint64 `json:"state_limit_bytes"`
	Unlimited      bool    `json:"state_unlimited"`
	StateUsed      uint64  `json:"state_used_bytes"`
	StateHeadroom  *uint64 `json:"state_headroom_bytes"` // null without a limit
	Reserve        uint64  `json:"state_reserve_bytes"`  // of the limit: for administrators only
	NodeLimit      uint64  `json:"node_limit_bytes"`
	ConfiguredHere uint64  `json:"server_state_limit_bytes"` // 0: not given
	Memory         uint64  `json:"server_memory_bytes"`      // 0: unknown
	MemorySource   string  `json:"server_memory_source"`
}

func showLimits(now *adminpb.LimitsStatus) *limitsShown {
	shown := &limitsShown{Server: now.GetServerName(),
		Unlimited: now.GetStateLimitBytes() == statelimit.Unlimited, StateUsed: now.GetStateUsedBytes(),
		NodeLimit: now.GetNodeLimitBytes(), ConfiguredHere: now.GetConfiguredBytes(),
		Reserve: now.GetReserveBytes(), Memory: now.GetMemoryBytes(), MemorySource: now.GetMemorySource()}
	if limit := now.GetStateLimitBytes(); limit != 0 && !shown.Unlimited {
		headroom := limit - min(limit, shown.StateUsed)
		shown.StateLimit, shown.StateHeadroom = &limit, &headroom
	}
	return shown
}

func printLimits(w io.Writer, now *adminpb.LimitsStatus) {
	fmt.Fprintln(w, stateText(now))
	fmt.Fprintf(w, "names and data of one coordination node: %s at most\n", sizeOf(now.GetNodeLimitBytes()))
	name := cmp.Or(now.GetServerName(), "this server")
	if own := now.GetConfiguredBytes(); own != 0 && now.GetStateLimitBytes() != 0 &&
		own != now.GetStateLimitBytes() {
		limit := "--state-limit=" + sizeOf(own)
		if own == statelimit.Unlimited {
			limit = "--state-limit=" + serve.UnlimitedText
		}
		_ = cmdline.PrintLine(w, "asked %s: started with %s, which does not count", name, limit)
	}
	if memory := now.GetMemoryBytes(); memory != 0 {
		_ = cmdline.PrintLine(w, "asked %s: %s of memory (%s)%s", name, sizeOf(memory), now.GetMemorySource(),
			memoryText(now))
	}
}

// stateText is the limit of the state in one line.
func stateText(now *adminpb.LimitsStatus) string {
	limit, used := now.GetStateLimitBytes(), now.GetStateUsedBytes()
	switch {
	case limit == 0:
		return fmt.Sprintf("the state has no limit yet, %s are used", sizeOf(used))
	case limit == statelimit.Unlimited:
		return fmt.Sprintf("the state is unlimited, %s are used", sizeOf(used))
	case used > limit:
		return fmt.Sprintf("the state is limited to %s, %s ARE USED: nothing new is accepted", sizeOf(limit),
			sizeOf(used))
	}
	text := fmt.Sprintf("the state is limited to %s, %s are used, %s are left", sizeOf(limit), sizeOf(used),
		sizeOf(limit-used))
	if reserve := now.GetReserveBytes(); reserve != 0 {
		text += ", the last " + sizeOf(reserve) + " for administrators only"
	}
	return text
}

// memoryText warns of a limit that the server may not have the memory for.
func memoryText(now *adminpb.LimitsStatus) string {
	if limit := now.GetStateLimitBytes(); limit != 0 && limit > now.GetMemoryBytes()/2 {
		return ", LESS THAN TWICE THE LIMIT: it may run out of memory before"
	}
	return ""
}

// limitsLine is what `coordd cluster status` says of the limits; empty from a server that does not tell.
func limitsLine(ctx context.Context, c *caller) (*adminpb.LimitsStatus, error) {
	now := new(adminpb.LimitsStatus)
	err := c.Invoke(ctx, adminpb.Cluster_Limits_FullMethodName, &adminpb.LimitsRequest{}, now)
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	return now, c.clusterError(err)
}

// sizeOf is a number of bytes for a person, exact where it is a small multiple of a unit.
func sizeOf(bytes uint64) string {
	for i := len(serve.SizeUnits) - 2; i >= 0; i-- { // TiB first; the last is bytes
		if unit := serve.SizeUnits[i]; bytes >= unit.Bytes && bytes%unit.Bytes == 0 && bytes/unit.Bytes < 10_000 {
			return fmt.Sprintf("%d %s", bytes/unit.Bytes, unit.Ending)
		}
	}
	for i := len(serve.SizeUnits) - 2; i >= 0; i-- {
		if unit := serve.SizeUnits[i]; bytes >= 10*unit.Bytes {
			return fmt.Sprintf("%d %s", bytes/unit.Bytes, unit.Ending)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}
