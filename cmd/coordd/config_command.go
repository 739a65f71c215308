package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/server/adminpb"
)

func configCommand(env *cmdline.Env) *cobra.Command {
	parent := &cobra.Command{
		Use:   "config",
		Short: "Read, set and follow configuration that lives in a coordination node",
		Long: "Read, set and follow configuration that lives in a coordination node, as the data of a\n" +
			"semaphore of up to 1048576 bytes.",
		RunE: cmdline.WantsCommand,
	}
	parent.AddCommand(configGetCommand(env), configSetCommand(env), configWatchCommand(env),
		configHistoryCommand(env))
	return parent
}

// configShown is a configuration.
type configShown struct {
	Node   string `json:"node"`
	Name   string `json:"name"`
	Exists bool   `json:"exists"`
	bytesShown
}

func configGetCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	var meta bool
	command := askCommand(env, &question{use: "get NODE NAME", short: "Print a configuration",
		long: "It is printed as it is, byte by byte, unless --output says otherwise. With --meta its version,\n" +
			"and the time and author of its last change, are printed instead, with --output beside it.",
		example: "  coordd config set app settings '{\"debug\": false}'\n  coordd config get app settings\n" +
			"  coordd config get app settings --meta",
		run: func(ctx context.Context, c *caller, args []string) error {
			if meta {
				shown, err := c.configMeta(ctx, args[0], args[1])
				if err != nil {
					return err
				}
				return out.one(env.Stdout, shown, shown.text)
			}
			var data []byte
			err := c.withSession(ctx, args[0], "config get", func(s *protocol.Session) error {
				d, _, err := s.Describe(ctx, args[1], protocol.Wanted{})
				data = d.GetData()
				return aboutSemaphore(args[1], err)
			})
			if protocol.Full(err) {
				data, err = c.inspectData(ctx, c.path(args[0]), args[1])
			}
			switch {
			case err != nil:
				return err
			case out.form == formTable:
				_, err := cmdline.Exact(env.Stdout).Write(data)
				return err
			}
			return out.one(env.Stdout, &configShown{c.path(args[0]), args[1], true, showBytes(data)}, nil)
		}}, out)
	command.Flags().BoolVar(&meta, "meta", false, "print the version, its time and its author; needs a coordd server")
	return command
}

// configMeta is a configuration with what is known of its last change.
type configMeta struct {
	configShown
	lastChange
	DataBytes uint64 `json:"data_bytes"`
}

func (m *configMeta) text(w io.Writer) {
	orNone := func(text *string, none string) string {
		if text == nil {
			return none
		}
		return *text
	}
	author := "unknown, or nobody"
	if m.Author != nil {
		author = quotedName(*m.Author)
	}
	fmt.Fprintf(w, "version  %d\nchanged  %s\nauthor   %s\nbytes    %d\n", *m.Version, orNone(m.Changed, "unknown"),
		author, m.DataBytes)
}

// configMeta asks for a configuration with its version.
func (c *caller) configMeta(ctx context.Context, node, name string) (*configMeta, error) {
	answer, err := c.versions(ctx, node, name, false)
	v := answer.GetPresent()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q of %s: %w", name, c.path(node), err)
	case v == nil:
		return nil, fmt.Errorf("%q: it goes with its last owner, and its data has no version", name)
	}
	return &configMeta{configShown{c.path(node), name, true, showBytes(v.GetData())}, showVersion(v), v.GetDataBytes()},
		nil
}

const configSetText = `With --if-version the server changes it only if it still has the version which
'coordd config get --meta' has printed; 0 is for one that is not there. Otherwise nothing is
changed, and the exit code is 124.`

// inspectData returns the data of a semaphore without a session, which a server with a full disk refuses.
func (c *caller) inspectData(ctx context.Context, node, name string) (data []byte, err error) {
	found := false
	request := &adminpb.PageRequest{Kind: adminpb.PageRequest_SEMAPHORES, Path: node, Prefix: []byte(name),
		DataBytes: protocol.DataMost}
	err = c.pages(ctx, request, func(page *adminpb.Page) error {
		for _, s := range page.GetSemaphores() {
			if string(s.GetName()) == name && !s.GetContinued() {
				found, data = true, s.GetData()
			}
		}
		return nil
	})
	if err == nil && !found {
		err = exit.With(exit.NotFound, fmt.Errorf("%q: there is no such semaphore", name))
	}
	return data, err
}

func configSetCommand(env *cmdline.Env) *cobra.Command {
	var expected uint64
	var command *cobra.Command
	command = setCommand(env, &question{short: "Set a configuration; create it if it does not exist",
		long: configSetText,
		example: `  coordd config set app settings '{"debug": true}'
  echo '{"debug": false}' | coordd config set app settings --file -
  coordd config set app other '{"debug": true}' --if-version 0`},
		func(ctx context.Context, c *caller, node, name string, data []byte) error {
			if command.Flags().Changed("if-version") {
				return c.setVersion(ctx, node, name, data, expected)
			}
			return c.withSession(ctx, node, "config set", func(s *protocol.Session) error {
				return aboutSemaphore(name, setConfig(ctx, s, name, data))
			})
		})
	command.Flags().Uint64Var(&expected, "if-version", 0,
		"the version that it must have, 0 for none; needs a coordd server")
	return command
}

func setConfig(ctx context.Context, s *protocol.Session, name string, data []byte) error {
	err := s.Update(ctx, name, data)
	if protocol.StatusOf(err) != Ydb.StatusIds_NOT_FOUND {
		return err
	}
	if err = s.Create(ctx, name, limitOfConfigs, data); protocol.StatusOf(err) == Ydb.StatusIds_ALREADY_EXISTS {
		err = s.Update(ctx, name, data) // another client has made it meanwhile
	}
	return err
}

const configWatchText = `Each change is a line, or a run of a command that finds the configuration on its stdin. The
command runs once at the start, and never twice at a time: what changes while it runs is seen
when it has ended, the last state only. If it fails that is said, and the next change runs
it again. A configuration that is missing, or is deleted, is a line and no run.`

func configWatchCommand(env *cmdline.Env) *cobra.Command {
	i := newIdiom(env, "watch", "Follow a configuration, or run a command at each change", configWatchText,
		`  coordd config set app settings '{"debug": false}'
  coordd config watch app settings --changes 1
  coordd config watch app settings --changes 1 -- sh -c 'cat > settings.json'`)
	i.command.RunE = func(command *cobra.Command, args []string) error {
		if err := i.checkFollow(); err != nil {
			return err
		}
		if len(args) > 2 {
			return i.runAtChanges(env, args)
		}
		return i.follow(env, args, protocol.Wanted{WatchData: true},
			func(c *caller, d *protocol.Description, _ string) (any, string) {
				if d == nil {
					return &configShown{Node: c.path(args[0]), Name: args[1]}, "there is none"
				}
				return &configShown{c.path(args[0]), args[1], true, showBytes(d.GetData())}, dataText(d.GetData())
			})
	}
	i.changesFlag.declare(i.command.Flags(), "")
	return i.command
}

// runAtChanges runs the command in args with the configuration on its stdin, and again at each change.
func (i *idiom) runAtChanges(env *cmdline.Env, args []string) error {
	if i.command.Flags().Changed("output") {
		return exit.Usagef(
			"flag --output: has no meaning with a command, which finds the configuration on its stdin")
	}
	path, err := commandPath(args[2])
	if err != nil {
		return err
	}
	i.keepStdin = true
	return watching(env, &i.callerFlags, func(ctx context.Context, c *caller) error {
		return c.watch(ctx, args[0], args[1], "config watch", protocol.Wanted{WatchData: true}, i.changesFlag,
			func(d *protocol.Description) error {
				if d == nil {
					fmt.Fprintf(env.Stderr, "coordd: %s has no %q now\n", c.path(args[0]), args[1])
					return nil
				}
				return runOnChange(ctx, env, path, args[2:], d.GetData())
			})
	})
}

// limitOfConfigs is that of the semaphores which `coordd config set` makes: nobody is kept from holding them.
const limitOfConfigs = math.MaxUint64

// stopPause is how long a command has to end when this program is told to.
const stopPause = 2 * time.Second

// runOnChange runs a command with data on its stdin. Its failure is said, and is none of this program's.
func runOnChange(ctx context.Context, env *cmdline.Env, path string, argv []string, data []byte) error {
	command := exec.CommandContext(ctx, path, argv[1:]...)
	command.Args[0] = argv[0]
	command.Env, command.Stdin, command.Stdout, command.Stderr = env.Environ, bytes.NewReader(data),
		cmdline.Exact(env.Stdout), cmdline.Exact(env.Stderr)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = stopPause
	err := command.Run()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &ended):
		fmt.Fprintf(env.Stderr, "coordd: command %q: %v\n", argv[0], ended)
		return nil
	case errors.Is(err, syscall.EPIPE): // it has not read all of it, and need not
		return nil
	case err != nil && command.ProcessState == nil:
		return exit.With(exit.Cannot, fmt.Errorf("command %q cannot be run: %w", argv[0], err))
	}
	return err
}
