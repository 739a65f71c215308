package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/server/adminpb"
)

const usersText = `Users log in with a name and a password, as the SDKs' static credentials do. The first
user is an administrator. Whoever owns the data directory of a server on this machine
may do everything, by way of the socket in it; from elsewhere an administrator's --user
is needed. Users change their own password with --user NAME. A password is the first
line of the file that the flag names, or of stdin; at a terminal it is asked for.`

func userCommand(env *cmdline.Env) *cobra.Command {
	parent := &cobra.Command{
		Use:   "user",
		Short: "Manage the users who log in with a password",
		Long:  "Manage the users of a running server who log in with a password.\n\n" + usersText,
		RunE:  cmdline.WantsCommand,
	}
	parent.AddCommand(userAddCommand(env), userListCommand(env),
		newPasswordCommand(env, &question{use: "passwd NAME",
			short:   "Change a user's password, and invalidate earlier tokens",
			example: "  echo 'another horse' | coordd user passwd alice"},
			func(ctx context.Context, c *caller, name, password string) (string, error) {
				request := &adminpb.SetPasswordRequest{Name: name, Password: password}
				if c.flags.login == name {
					request.OwnPassword = c.flags.password
				}
				return name + " has another password now; the tokens from before are void",
					c.Invoke(ctx, adminpb.Users_SetPassword_FullMethodName, request, new(adminpb.SetPasswordResponse))
			}),
		askCommand(env, &question{use: "remove NAME", short: "Remove a user", about: usersText,
			example: "  echo 'short stay' | coordd user add guest && coordd user remove guest",
			act: func(ctx context.Context, c *caller, args []string) (string, error) {
				return "removed " + args[0], c.Invoke(ctx, adminpb.Users_Remove_FullMethodName,
					&adminpb.RemoveRequest{Name: args[0]}, new(adminpb.RemoveResponse))
			}}, nil),
		askCommand(env, &question{use: "rotate-key", about: usersText,
			short:   "Invalidate all login tokens, and sign with a new key",
			example: "  coordd user rotate-key",
			act: func(ctx context.Context, c *caller, _ []string) (string, error) {
				return "all login tokens are void; tokens are signed with a new key now",
					c.Invoke(ctx, adminpb.Users_RotateKey_FullMethodName, &adminpb.RotateKeyRequest{},
						new(adminpb.RotateKeyResponse))
			}}, nil))
	return parent
}

// newPasswordCommand makes a command that sets a password of the user NAME.
func newPasswordCommand(env *cmdline.Env, q *question,
	set func(ctx context.Context, c *caller, name, password string) (done string, err error)) *cobra.Command {
	var file string
	q.about = usersText
	q.act = func(ctx context.Context, c *caller, args []string) (string, error) {
		password, err := readPassword(env, file, "new password of "+args[0])
		if err != nil {
			return "", err
		}
		return set(ctx, c, args[0], password)
	}
	command := askCommand(env, q, nil)
	command.Flags().StringVar(&file, "new-password-file", "", "file with the password to set (default: stdin)")
	return command
}

func userAddCommand(env *cmdline.Env) *cobra.Command {
	var administrator bool
	command := newPasswordCommand(env, &question{use: "add NAME", short: "Add a user",
		example: "  echo 'correct horse' | coordd user add alice"},
		func(ctx context.Context, c *caller, name, password string) (string, error) {
			err := c.Invoke(ctx, adminpb.Users_Add_FullMethodName,
				&adminpb.AddRequest{Name: name, Password: password, Administrator: administrator},
				new(adminpb.AddResponse))
			if err != nil {
				return "", err
			}
			return "added " + name + c.roleOf(ctx, name), nil
		})
	command.Flags().BoolVar(&administrator, "administrator", false, "the user may do everything")
	return command
}

func userListCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	return askCommand(env, &question{use: "list", short: "List the users", about: usersText,
		example: "  coordd user list\n  coordd user list -o json",
		run: func(ctx context.Context, c *caller, _ []string) error {
			list := new(adminpb.ListResponse)
			if err := c.Invoke(ctx, adminpb.Users_List_FullMethodName, &adminpb.ListRequest{}, list); err != nil {
				return err
			}
			rows := out.list(env.Stdout, "NAME", "ROLE")
			return endList(env, rows, "users", each(list.GetUsers(), func(user *adminpb.ListResponse_User) error {
				role := "user"
				if user.GetAdministrator() {
					role = "administrator"
				}
				return rows.add(&userRow{user.GetName(), user.GetAdministrator()}, user.GetName(), role)
			}))
		}}, out)
}

// roleOf is what a user is, for a sentence: the first one is an administrator, asked for or not. It is empty
// if the caller is not told.
func (c *caller) roleOf(ctx context.Context, name string) string {
	list := new(adminpb.ListResponse)
	if err := c.Invoke(ctx, adminpb.Users_List_FullMethodName, &adminpb.ListRequest{}, list); err != nil {
		return ""
	}
	for _, user := range list.GetUsers() {
		if user.GetName() == name && user.GetAdministrator() {
			return ", an administrator"
		}
	}
	return ""
}

// userRow is a user of the list.
type userRow struct {
	Name          string `json:"name"`
	Administrator bool   `json:"administrator"`
}
