package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/server/adminpb"
)

// userCallTimeout bounds everything that a `coordd user` command asks of a server.
const userCallTimeout = 30 * time.Second

const usersText = `Users log in with a name and a password, as the SDKs' static credentials do. The first
user is an administrator. Whoever owns the data directory of a server on this machine
may do everything, by way of the socket in it; from elsewhere an administrator's --user
is needed. Users change their own password with --user NAME. A password is the first
line of the file that the flag names, or of stdin; at a terminal it is asked for.`

// userExamples are those of the commands by their names.
var userExamples = map[string]string{
	"add":        "  echo 'correct horse' | coordd user add alice",
	"passwd":     "  echo 'another horse' | coordd user passwd alice",
	"remove":     "  echo 'short stay' | coordd user add guest && coordd user remove guest",
	"list":       "  coordd user list\n  coordd user list -o json",
	"rotate-key": "  coordd user rotate-key",
}

// userFlags are the flags of all `coordd user` commands.
type userFlags struct {
	connectionFlags
	newPasswordFile string
	administrator   bool
	output          outputFlag // of the list
}

func (p *program) userCommand() *cobra.Command {
	var flags userFlags
	parent := &cobra.Command{
		Use:   "user",
		Short: "Manage the users who log in with a password",
		Long:  "Manage the users of a running server who log in with a password.\n\n" + usersText,
		RunE:  cmdline.WantsCommand,
	}
	add := p.userSubcommand(&flags, "add NAME", "Add a user", true,
		func(password, name string) (string, proto.Message, proto.Message) {
			return adminpb.Users_Add_FullMethodName,
				&adminpb.AddRequest{Name: name, Password: password, Administrator: flags.administrator},
				new(adminpb.AddResponse)
		})
	add.Flags().BoolVar(&flags.administrator, "administrator", false, "the user may do everything")
	list := p.userSubcommand(&flags, "list", "List the users", false,
		func(string, string) (string, proto.Message, proto.Message) {
			return adminpb.Users_List_FullMethodName, &adminpb.ListRequest{}, new(adminpb.ListResponse)
		})
	flags.output.declareOutput(list)
	parent.AddCommand(add, list,
		p.userSubcommand(&flags, "passwd NAME", "Change a user's password; tokens from before are void", true,
			func(password, name string) (string, proto.Message, proto.Message) {
				request := &adminpb.SetPasswordRequest{Name: name, Password: password}
				if flags.login == name {
					request.OwnPassword = flags.password
				}
				return adminpb.Users_SetPassword_FullMethodName, request, new(adminpb.SetPasswordResponse)
			}),
		p.userSubcommand(&flags, "remove NAME", "Remove a user", false,
			func(_, name string) (string, proto.Message, proto.Message) {
				return adminpb.Users_Remove_FullMethodName, &adminpb.RemoveRequest{Name: name},
					new(adminpb.RemoveResponse)
			}),
		p.userSubcommand(&flags, "rotate-key", "Make all login tokens void, and sign with a new key", false,
			func(string, string) (string, proto.Message, proto.Message) {
				return adminpb.Users_RotateKey_FullMethodName, &adminpb.RotateKeyRequest{},
					new(adminpb.RotateKeyResponse)
			}),
	)
	for _, command := range parent.Commands() {
		command.Example = userExamples[command.Name()]
	}
	return parent
}

// userSubcommand makes a command that sends one request. build gets the new password, where the command takes
// one, and NAME, where its usage has it.
func (p *program) userSubcommand(flags *userFlags, use, short string, newPassword bool,
	build func(password, name string) (method string, request, response proto.Message)) *cobra.Command {
	command := &cobra.Command{Use: use, Short: short, Long: short + ".\n\n" + usersText}
	named := use != command.Name()
	command.Args = func(command *cobra.Command, args []string) error {
		switch {
		case !named:
			return cmdline.NoArguments(command, args)
		case len(args) != 1:
			return exit.Usagef("%s takes one name, %d given", command.CommandPath(), len(args))
		}
		return nil
	}
	command.RunE = func(_ *cobra.Command, args []string) error {
		if err := flags.output.check(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), userCallTimeout)
		defer cancel()
		passwords := &passwordReader{program: p}
		client, err := flags.connect(ctx, passwords)
		if err != nil {
			return err
		}
		defer client.close()
		name, password := "", ""
		if named {
			name = args[0]
		}
		if newPassword {
			if password, err = flags.newPassword(passwords, name); err != nil {
				return err
			}
		}
		method, request, response := build(password, name)
		if err := client.call(ctx, method, request, response); err != nil {
			return err
		}
		return p.printDone(ctx, flags, client, response, name)
	}
	flags.declare(command, newPassword)
	return command
}

func (f *userFlags) declare(command *cobra.Command, newPassword bool) {
	flags := command.Flags()
	f.declareConnection(flags)
	if newPassword {
		flags.StringVar(&f.newPasswordFile, "new-password-file", "",
			"file with the password to set (default: stdin)")
	}
}

func (f *userFlags) newPassword(passwords *passwordReader, name string) (string, error) {
	if f.newPasswordFile != "" {
		return serve.ReadPasswordFile(f.newPasswordFile)
	}
	return passwords.read("new password of " + name)
}

// printDone tells what was done.
func (p *program) printDone(ctx context.Context, flags *userFlags, client *adminClient, response proto.Message,
	name string) error {
	switch answer := response.(type) {
	case *adminpb.ListResponse:
		return p.printUsers(&flags.output, answer)
	case *adminpb.AddResponse:
		fmt.Fprintf(p.stdout, "added %s%s\n", name, client.roleOf(ctx, name))
	case *adminpb.SetPasswordResponse:
		fmt.Fprintf(p.stdout, "%s has another password now; the tokens from before are void\n", name)
	case *adminpb.RemoveResponse:
		fmt.Fprintf(p.stdout, "removed %s\n", name)
	case *adminpb.RotateKeyResponse:
		fmt.Fprintln(p.stdout, "all login tokens are void; tokens are signed with a new key now")
	}
	return nil
}

// roleOf is what a user is, for a sentence: the first one is an administrator, asked for or not. It is empty
// if the caller is not told.
func (c *adminClient) roleOf(ctx context.Context, name string) string {
	list := new(adminpb.ListResponse)
	if err := c.call(ctx, adminpb.Users_List_FullMethodName, &adminpb.ListRequest{}, list); err != nil {
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

func (p *program) printUsers(out *outputFlag, list *adminpb.ListResponse) (err error) {
	rows := out.list(p.stdout, "NAME", "ROLE")
	for _, user := range list.GetUsers() {
		role := "user"
		if user.GetAdministrator() {
			role = "administrator"
		}
		err = errors.Join(err, rows.add(&userRow{user.GetName(), user.GetAdministrator()}, user.GetName(), role))
	}
	return p.endList(rows, "users", err)
}
