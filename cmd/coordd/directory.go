package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
)

// aboutPath is an error of a call that names a path.
func (c *caller) aboutPath(path string, err error) error {
	if plain := c.plain(err); exit.Of(plain) != exit.Failure {
		return plain
	}
	path = c.path(path)
	return &adviceError{err, fmt.Sprintf("%s: %v%s", path, c.plain(err), c.elsewhere(path))}
}

// adviceError is an error with a text for a person.
type adviceError struct {
	error
	text string
}

func (e *adviceError) Error() string { return e.text }

func (e *adviceError) Unwrap() error { return e.error }

// elsewhereMost bounds how long an error message waits for the name of the server's database.
const elsewhereMost = 2 * time.Second

// elsewhere returns the likely mistake about a path that does not exist: a missing slash, or another database than the
// server's. It is "" where the path may be meant.
func (c *caller) elsewhere(path string) string {
	if within, found := strings.CutPrefix(path, c.database+c.database+"/"); found && c.database != "/" {
		return fmt.Sprintf("; did you mean %s/%s, with a slash at the beginning?", c.database, within)
	}
	ctx, cancel := context.WithTimeout(context.Background(), elsewhereMost)
	defer cancel()
	root := new(Ydb_Scheme.ListDirectoryResult)
	if err := c.Call(ctx, Ydb_Scheme_V1.SchemeService_ListDirectory_FullMethodName,
		&Ydb_Scheme.ListDirectoryRequest{Path: "/"}, root); err != nil || len(root.GetChildren()) != 1 {
		return ""
	}
	database := "/" + root.GetChildren()[0].GetName()
	if path != database && !strings.HasPrefix(path, database+"/") {
		return "; the database of this server is " + database
	}
	return ""
}

// entryRow is something in a directory.
type entryRow struct {
	Name    string  `json:"name"`
	Type    string  `json:"type"`
	Owner   string  `json:"owner"`
	Created *string `json:"created"`
}

func listCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	return askCommand(env, &question{use: "ls [PATH]", short: "List a directory",
		example: "  coordd ls\n  coordd ls /local -o json",
		run: func(ctx context.Context, c *caller, args []string) error {
			path := pathOr(c, args, c.database)
			result := new(Ydb_Scheme.ListDirectoryResult)
			if err := c.Call(ctx, Ydb_Scheme_V1.SchemeService_ListDirectory_FullMethodName,
				&Ydb_Scheme.ListDirectoryRequest{Path: path}, result); err != nil {
				return c.aboutPath(path, err)
			}
			rows := out.list(env.Stdout, "NAME", "OWNER", "CREATED")
			for _, child := range result.GetChildren() {
				created := child.GetCreatedAt().GetPlanStep()
				row := &entryRow{child.GetName(), strings.ToLower(child.GetType().String()), child.GetOwner(),
					timeShown(created)}
				if err := rows.add(row, nameText(child), quotedName(row.Owner),
					dayText(created)); err != nil {
					return err
				}
			}
			return endList(env, rows, "entries", nil)
		}}, out)
}

func makeDirectoryCommand(env *cmdline.Env) *cobra.Command {
	return askCommand(env, &question{use: "mkdir PATH", short: "Create a directory, and missing ones above it",
		example: "  coordd mkdir services/eu",
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			path := c.path(args[0])
			return path + " is there", c.aboutPath(path,
				c.Call(ctx, Ydb_Scheme_V1.SchemeService_MakeDirectory_FullMethodName,
					&Ydb_Scheme.MakeDirectoryRequest{Path: path}, nil))
		}}, nil)
}

func removeDirectoryCommand(env *cmdline.Env) *cobra.Command {
	return askCommand(env, &question{use: "rmdir PATH", short: "Remove an empty directory",
		example: "  coordd mkdir attic\n  coordd rmdir attic",
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			return "removed " + c.path(args[0]), c.removeDirectory(ctx, args[0])
		}}, nil)
}

func (c *caller) removeDirectory(ctx context.Context, path string) error {
	return c.aboutPath(path, c.Call(ctx, Ydb_Scheme_V1.SchemeService_RemoveDirectory_FullMethodName,
		&Ydb_Scheme.RemoveDirectoryRequest{Path: c.path(path)}, nil))
}

const rightsText = `Permissions have YDB's names: ydb.generic.use, ydb.generic.read, ydb.generic.write,
ydb.generic.manage, ydb.generic.full, ydb.granular.select_row and so on. They hold for
everything below PATH as well, and count where the server runs with --auth=required.`

// permissionNames are those that coordd knows.
var permissionNames = []string{"ydb.generic.read", "ydb.generic.write", "ydb.generic.use", "ydb.generic.list",
	"ydb.generic.manage", "ydb.generic.full", "ydb.access.grant", "ydb.granular.select_row",
	"ydb.granular.update_row", "ydb.granular.erase_row", "ydb.granular.describe_schema",
	"ydb.granular.create_directory", "ydb.granular.alter_schema", "ydb.granular.remove_schema"}

// modify changes the permissions of a path.
func (c *caller) modify(ctx context.Context, path string, action *Ydb_Scheme.PermissionsAction) error {
	err := c.Call(ctx, Ydb_Scheme_V1.SchemeService_ModifyPermissions_FullMethodName,
		&Ydb_Scheme.ModifyPermissionsRequest{Path: c.path(path), Actions: []*Ydb_Scheme.PermissionsAction{action}}, nil)
	if protocol.StatusOf(err) == Ydb.StatusIds_BAD_REQUEST {
		err = fmt.Errorf("%w; known are %s", err, strings.Join(permissionNames, ", "))
	}
	return c.aboutPath(path, err)
}

// permissionsCommand makes a command that takes a path, a user and at least one permission.
func permissionsCommand(env *cmdline.Env, q *question, done string,
	action func(*Ydb_Scheme.Permissions) *Ydb_Scheme.PermissionsAction) *cobra.Command {
	q.use += " PATH USER PERMISSION..."
	q.check = func(_ *pflag.FlagSet, args []string) error {
		for _, name := range args[2:] {
			if !strings.HasPrefix(name, "ydb.") {
				return exit.Usagef("argument PERMISSION: value %q is not allowed: want a name such as ydb.generic.use",
					name)
			}
		}
		return nil
	}
	q.act = func(ctx context.Context, c *caller, args []string) (string, error) {
		return fmt.Sprintf(done, args[1], strings.Join(args[2:], ", "), c.path(args[0])), c.modify(ctx, args[0],
			action(&Ydb_Scheme.Permissions{Subject: args[1], PermissionNames: args[2:]}))
	}
	command := askCommand(env, q, nil)
	command.Args = func(command *cobra.Command, args []string) error {
		if len(args) < 3 {
			return exit.Usagef("%s takes PATH USER PERMISSION..., %s given", command.CommandPath(),
				counted(len(args), "argument"))
		}
		return nil
	}
	return command
}

func grantCommand(env *cmdline.Env) *cobra.Command {
	return permissionsCommand(env, &question{use: "grant", long: rightsText,
		short: "Grant a user permissions on a path",
		example: "  coordd grant app reporter ydb.generic.read\n" +
			"  coordd grant /local all-users@well-known ydb.granular.describe_schema"}, "%s may %s on %s",
		func(rights *Ydb_Scheme.Permissions) *Ydb_Scheme.PermissionsAction {
			return &Ydb_Scheme.PermissionsAction{Action: &Ydb_Scheme.PermissionsAction_Grant{Grant: rights}}
		})
}

func revokeCommand(env *cmdline.Env) *cobra.Command {
	return permissionsCommand(env, &question{use: "revoke", short: "Revoke a user's permissions on a path",
		long: rightsText + "\nWhat was given above PATH stays.",
		example: "  coordd grant app reporter ydb.generic.read\n" +
			"  coordd revoke app reporter ydb.generic.read"}, "%s has no longer %s on %s itself",
		func(rights *Ydb_Scheme.Permissions) *Ydb_Scheme.PermissionsAction {
			return &Ydb_Scheme.PermissionsAction{Action: &Ydb_Scheme.PermissionsAction_Revoke{Revoke: rights}}
		})
}

func chownCommand(env *cmdline.Env) *cobra.Command {
	return askCommand(env, &question{use: "chown PATH USER",
		short:   "Change the owner of a path, which has all permissions on it",
		example: "  coordd chown app billing",
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			return c.path(args[0]) + " belongs to " + args[1], c.modify(ctx, args[0], &Ydb_Scheme.PermissionsAction{
				Action: &Ydb_Scheme.PermissionsAction_ChangeOwner{ChangeOwner: args[1]}})
		}}, nil)
}
