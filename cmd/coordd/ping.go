package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"

	"github.com/coordd/coordd/cmd/coordd/client"
	"github.com/coordd/coordd/conformance/load"
)

const (
	pingEvery   = time.Second
	pingTimeout = 10 * time.Second // of the session that is asked whether it lives
)

// pingShown is how long answers took at a time.
type pingShown struct {
	Time    string   `json:"time"` // by this machine's clock
	Call    float64  `json:"call_millis"`
	Session *float64 `json:"session_millis"` // nil: there is none
}

func (p *program) pingCommand() *cobra.Command {
	out := new(outputFlag)
	var every time.Duration
	var times int
	command := p.untilStopped(&question{use: "ping [NODE]",
		short: "Measure how long a server takes to answer, again and again",
		long: "The call is a question for the servers' addresses, which each server answers by itself. With\n" +
			"NODE a session is asked as well whether it lives, as locks are all the time: its ping. What\n" +
			"took longest decides how short the timeouts of sessions can be.",
		example: "  coordd ping --times 1\n  coordd ping app --times 2 --every 100ms -o jsonl",
		check: func(flags *pflag.FlagSet, _ []string) error {
			if every < 100*time.Millisecond || every > time.Hour {
				return usageError("flag --every: value %q is not allowed: want a time from 100ms to 1h",
					every)
			}
			if flags.Changed("times") && times < 1 {
				return usageError("flag --times: value %d is not allowed: want a number above 0", times)
			}
			return nil
		},
		run: func(ctx context.Context, c *caller, args []string) error {
			g := &pings{caller: c}
			if len(args) > 0 {
				if err := g.open(ctx, c.path(args[0])); err != nil {
					return err
				}
				defer g.close()
			}
			for seen := 0; ; {
				begun := time.Now()
				shown, err := g.ask(ctx)
				if err != nil {
					return err
				}
				line := fmt.Sprintf("%s call %.3f ms", shown.Time, shown.Call)
				if shown.Session != nil {
					line += fmt.Sprintf(", session %.3f ms", *shown.Session)
				}
				if err := p.shows(out, shown, line); err != nil {
					return err
				}
				if seen++; seen == times {
					break
				}
				select {
				case <-time.After(every - time.Since(begun)):
					continue
				case <-ctx.Done():
				}
				break
			}
			if out.form == formTable {
				g.print(p.stdout)
			}
			return nil
		}}, out)
	command.Flags().DurationVar(&every, "every", pingEvery, "how often to ask")
	command.Flags().IntVar(&times, "times", 0, "end after so many (default: never)")
	return command
}

// pings asks a server how it is.
type pings struct {
	caller          *caller
	session         *client.Session // nil: no node is given
	calls, answered load.Histogram
}

func (g *pings) open(ctx context.Context, node string) error {
	opening, cancel := context.WithTimeout(ctx, connectMost)
	defer cancel()
	config := client.SessionConfig{Node: node, Timeout: pingTimeout, Description: describedAs("ping", nil)}
	var err error
	if g.session, err = g.caller.Open(opening, config); err != nil {
		return g.caller.aboutNode(node, err)
	}
	return nil
}

func (g *pings) close() {
	parting, cancel := context.WithTimeout(context.Background(), partingMost)
	defer cancel()
	_ = g.session.Close(parting) // it ends by itself otherwise
}

func (g *pings) ask(ctx context.Context) (*pingShown, error) {
	ctx, cancel := context.WithTimeout(ctx, callerTimeout)
	defer cancel()
	shown := &pingShown{Time: time.Now().UTC().Format(time.RFC3339Nano)}
	begun := time.Now()
	err := g.caller.Call(ctx, Ydb_Discovery_V1.DiscoveryService_ListEndpoints_FullMethodName,
		&Ydb_Discovery.ListEndpointsRequest{Database: g.caller.database},
		new(Ydb_Discovery.ListEndpointsResponse), nil)
	if err != nil {
		return nil, err
	}
	took := time.Since(begun)
	g.calls.Add(took)
	shown.Call = millisOf(took)
	if g.session != nil {
		took, err := g.session.Ping(ctx)
		if err != nil {
			return nil, err
		}
		g.answered.Add(took)
		millis := millisOf(took)
		shown.Session = &millis
	}
	return shown, nil
}

// print sums up.
func (g *pings) print(w io.Writer) {
	for _, of := range []struct {
		name string
		took *load.Histogram
	}{{"call", &g.calls}, {"session", &g.answered}} {
		if n := of.took.Count(); n > 0 {
			fmt.Fprintf(w, "%s: %d answered, %.3f ms at the median, %.3f ms at most\n", of.name, n,
				millisOf(of.took.Percentile(50)), millisOf(of.took.Max()))
		}
	}
}
