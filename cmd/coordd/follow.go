package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
)

// watchTimeout is the session timeout of commands that only read.
const watchTimeout = 10 * time.Second

// changesFlag ends a watch after a number of changes; 0: never.
type changesFlag struct{ most int }

func (f *changesFlag) declare(flags *pflag.FlagSet, usage string) {
	flags.IntVar(&f.most, "changes", 0, usage+"end after so many (default: never)")
}

func (f *changesFlag) check(flags *pflag.FlagSet) error {
	if flags.Changed("changes") && f.most < 1 {
		return exit.Usagef("flag --changes: value %d is not allowed: want a number above 0", f.most)
	}
	return nil
}

// watch calls show for each change of a semaphore until ctx ends, or it has changed as often as the flag says.
func (c *caller) watch(ctx context.Context, node, name, verb string, wanted protocol.Wanted, changes changesFlag,
	show func(*protocol.Description) error) error {
	config := protocol.SessionConfig{Node: c.path(node), Timeout: watchTimeout,
		Description: describedAs(verb, nil)}
	seen := 0
	err := c.Watch(ctx, config, name, wanted, func(d *protocol.Description) error {
		err := show(d)
		if seen++; err == nil && seen == changes.most {
			return errEnough
		}
		return err
	})
	if err != nil && ctx.Err() == nil && !errors.Is(err, errEnough) {
		return c.aboutNode(config.Node, err)
	}
	return err
}

// changeShown is a semaphore at a time.
type changeShown struct {
	Time   string `json:"time"` // by this machine's clock
	Exists bool   `json:"exists"`
	*semaphoreShown
}

func semaphoreWatchCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	var changes changesFlag
	command := askCommand(env, &question{use: "watch NODE NAME", stays: true,
		short: "Show a semaphore, and again whenever its data or owners change",
		long: "Each time is a line. What changes and changes back at once may not\n" +
			"be shown. It goes on when servers are lost and come back, until it is stopped.",
		example: `  coordd sem create app greeting --limit 1 --data hello
  coordd sem watch app greeting --changes 1 -o json`,
		check: func(flags *pflag.FlagSet, args []string) error {
			return cmp.Or(changes.check(flags), checkName(args[1]))
		},
		run: func(ctx context.Context, c *caller, args []string) error {
			return c.watch(ctx, args[0], args[1], "semaphore watch",
				protocol.Wanted{Owners: true, WatchData: true, WatchOwners: true}, changes,
				func(d *protocol.Description) error {
					change := &changeShown{Time: time.Now().UTC().Format(time.RFC3339Nano), Exists: d != nil}
					line := "there is no such semaphore"
					if d != nil {
						change.semaphoreShown = showSemaphore(c.path(args[0]), d)
						line = heldText(d.GetCount(), d.GetLimit(), d.GetEphemeral())
						for _, owner := range change.Owners {
							line += fmt.Sprintf(", by session %d", owner.Session)
							if len(owner.data) > 0 {
								line += " " + dataText(owner.data)
							}
						}
						line += ", data " + dataText(d.GetData())
					}
					return showNext(env, out, change, change.Time+" "+line)
				})
		}}, out)
	changes.declare(command.Flags(), "")
	return command
}
