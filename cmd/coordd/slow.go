package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/server/adminpb"
)

// slowShown is a slow request, as the output has it. Times are milliseconds.
type slowShown struct {
	Time      *string            `json:"time"` // of its end
	Server    string             `json:"server"`
	Request   string             `json:"request"`
	Node      string             `json:"node"`
	Session   uint64             `json:"session"`
	Semaphore string             `json:"semaphore"`
	Total     float64            `json:"total_millis"`
	Stages    map[string]float64 `json:"stages_millis"`
	Cause     string             `json:"cause"`
	// What went on in the ten seconds in which it ended.
	Window map[string]float64 `json:"window"`
}

func showSlow(q *adminpb.SlowCall) *slowShown {
	w := q.GetWindow()
	shown := &slowShown{Time: timeShown(q.GetEndedMillis()), Server: q.GetServer(), Request: q.GetKind(),
		Node: q.GetPath(), Session: q.GetSession(), Semaphore: string(q.GetSemaphore()), Cause: q.GetCause(),
		Total: millisOf(q.GetTotalMicros()), Stages: make(map[string]float64),
		Window: map[string]float64{"collections": float64(w.GetCollections()),
			"paused_millis":        millisOf(w.GetPausedMicros()),
			"collection_millis":    millisOf(w.GetCollectionMicros()),
			"assisted_millis":      millisOf(w.GetAssistedMicros()),
			"longest_turn_millis":  millisOf(w.GetLongestTurnMicros()),
			"longest_write_millis": millisOf(w.GetLongestWriteMicros()),
			"longest_sync_millis":  millisOf(w.GetLongestSyncMicros())}}
	for _, s := range q.GetStages() {
		shown.Stages[s.GetStage()] = millisOf(s.GetMicros())
	}
	return shown
}

func millisOf(micros uint32) float64 { return float64(micros) / 1000 }

func slowCommand(env *cmdline.Env) *cobra.Command {
	out, since, limit := new(outputFlag), time.Duration(0), uint32(0)
	command := askCommand(env, &question{use: "slow",
		short: "Show the slowest requests of sessions, and where each spent its time",
		long: "Each server keeps the slowest 64 requests of each ten seconds for a minute, and 8 for an hour, in\n" +
			"memory; the asked one asks the others, and reports those that do not answer. A request counts\n" +
			"from when its message has come until gRPC has taken its first answer: what the network takes,\n" +
			"an acquire's time in the queue after that, and requests that got no answer, are not in it. For\n" +
			"administrators.\n\n" +
			oursText,
		example: "  coordd slow\n  coordd slow --since 1m --limit 100 -o jsonl",
		check: func(flags *pflag.FlagSet, _ []string) error {
			switch {
			case since <= 0:
				return exit.Usagef("flag --since: value %q is not allowed: want a time such as 10m or 1h", since)
			case limit == 0 || limit > 1000:
				return exit.Usagef("flag --limit: value %d is not allowed: want a number from 1 to 1000", limit)
			}
			return nil
		},
		run: func(ctx context.Context, c *caller, _ []string) error {
			answer := new(adminpb.SlowResponse)
			if err := c.inspect(ctx, adminpb.Inspect_Slow_FullMethodName, &adminpb.SlowRequest{Limit: limit,
				WithinMillis: max(1, uint64(since.Milliseconds()))}, answer); err != nil {
				return err
			}
			for _, why := range answer.GetUnknown() {
				fmt.Fprintf(env.Stderr, "coordd: requests are missing: %s\n", why)
			}
			rows := out.list(env.Stdout, "TIME", "SERVER", "REQUEST", "PATH", "SEMAPHORE", "SESSION", "TOTAL", "CAUSE")
			for _, q := range answer.GetCalls() {
				shown := showSlow(q)
				if err := rows.add(shown, dayText(q.GetEndedMillis()), shown.Server, shown.Request, shown.Node,
					fmt.Sprintf("%q", shown.Semaphore), fmt.Sprint(shown.Session), fmt.Sprintf("%.1f ms", shown.Total),
					shown.Cause); err != nil {
					return err
				}
			}
			return endList(env, rows, "slow requests", nil)
		}}, out)
	command.Flags().DurationVar(&since, "since", time.Hour, "only those of this time until now")
	command.Flags().Uint32Var(&limit, "limit", 20, "the slowest so many")
	return command
}
