package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/server/adminpb"
)

func consoleCommand(env *cmdline.Env) *cobra.Command {
	return askCommand(env, &question{use: "console",
		short: "Print a link to the console in a browser",
		long: "The link signs one browser in as an administrator, within 5 minutes. It is for the owner of the\n" +
			"server's data directory; others sign in with a user's name and password. In a container:\n" +
			"docker exec NAME /coordd console",
		example: "  coordd console",
		run: func(ctx context.Context, c *caller, _ []string) error {
			answer := new(adminpb.KeyResponse)
			if err := c.inspect(ctx, adminpb.Console_Key_FullMethodName, new(adminpb.KeyRequest), answer); err != nil {
				return err
			}
			_, err := fmt.Fprintln(env.Stdout, answer.GetUrl())
			return err
		}}, nil)
}
