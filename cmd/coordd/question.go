package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/server/adminpb"
)

// callerTimeout bounds what a command asks of a server, unless --timeout says otherwise.
const callerTimeout = 30 * time.Second

// oursText is part of the help of commands that a YDB cannot serve.
const oursText = "This needs a coordd server: the protocol of YDB has nothing of the kind (exit code 9)."

// inspect calls the inspection service.
func (c *caller) inspect(ctx context.Context, method string, request, response proto.Message) error {
	c.failed = c.Invoke(ctx, method, request, response)
	return c.inspectError(c.failed)
}

// goesOn reports whether a command that looks again and again goes on after a look: one at another server, if a server
// that has answered before is gone, stops or has no leader. say gets a line when that begins.
func (c *caller) goesOn(ctx context.Context, say func(line string), err error) bool {
	if err == nil {
		if !c.found || c.lasts {
			c.Discover(ctx)
		}
		c.found, c.lasts = true, false
		return true
	}
	code := status.Code(c.failed)
	if !c.found || code != codes.Unavailable && code != codes.DeadlineExceeded || ctx.Err() != nil {
		return false
	}
	if !c.lasts {
		say(fmt.Sprintf("coordd: no answer from %s (%s): trying other servers", c.Asked(),
			status.Convert(c.failed).Message()))
	}
	c.lasts = true
	c.Move()
	return true
}

// inspectError is an error of that service for a person.
func (c *caller) inspectError(err error) error {
	switch status.Code(err) {
	case codes.PermissionDenied:
		return fmt.Errorf("%w: %w", errNotShown, plain(err))
	case codes.NotFound:
		return exit.With(exit.NotFound, plain(err))
	}
	return c.plain(err)
}

var errNotShown = errors.New("the server does not show this to you")

// isNotOurs reports whether a command has to do with what the public protocol tells.
func isNotOurs(err error) bool { return errors.Is(err, errNeedsOurs) || errors.Is(err, errNotShown) }

// question is a command that asks a server.
type question struct {
	use, short, long, example string
	run                       func(ctx context.Context, c *caller, args []string) error
	// in the place of run: what was done, for people
	act func(ctx context.Context, c *caller, args []string) (done string, err error)
	// before anybody is asked; nil: there is nothing to check
	check   func(flags *pflag.FlagSet, args []string) error
	timeout time.Duration // the default of --timeout; 0: callerTimeout
	late    time.Duration // how much later than --timeout the answer may come
	// the help of a command for administrators, in the place of callerText: it uses the socket if there is one
	about string
	// goes on until a signal stops the program, instead of up to --timeout
	stays bool
}

// ask makes the command. Its arguments are named in its use.
func askCommand(env *cmdline.Env, q *question, out *outputFlag) *cobra.Command {
	f := new(callerFlags)
	timeout := cmp.Or(q.timeout, callerTimeout)
	command := &cobra.Command{Use: q.use, Short: q.short, Example: q.example, Args: argumentsOf(q.use)}
	command.Long = q.short + ".\n\n"
	if q.long != "" {
		command.Long += q.long + "\n\n"
	}
	command.Long += cmp.Or(q.about, callerText)
	command.RunE = func(command *cobra.Command, args []string) error {
		if timeout <= 0 {
			return exit.Usagef("flag --timeout: value %q is not allowed: want a time such as 30s or 10m",
				timeout)
		}
		if out != nil {
			if err := out.check(); err != nil {
				return err
			}
		}
		if q.check != nil {
			if err := q.check(command.Flags(), args); err != nil {
				return err
			}
		}
		do := func(ctx context.Context, c *caller) error { return answerQuestion(ctx, env, q, c, args) }
		if q.stays {
			return watching(env, f, do)
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeout+q.late)
		defer cancel()
		c, err := f.open(ctx, env)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.plain(do(ctx, c))
	}
	f.declareCaller(env, command)
	if q.about != "" {
		f.onlyAsks, command.ValidArgsFunction = false, nil
	}
	if !q.stays {
		command.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the result")
		command.Flags().Lookup("timeout").DefValue = serve.DurationText(timeout)
	}
	if out != nil {
		out.declareOutput(command)
	}
	return command
}

// watching runs until it is interrupted, which is no failure.
func watching(env *cmdline.Env, f *callerFlags, do func(ctx context.Context, c *caller) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	c, err := f.open(ctx, env)
	if err != nil {
		return err
	}
	defer c.Close()
	if err = do(ctx, c); ctx.Err() != nil || errors.Is(err, errEnough) {
		return nil
	}
	return c.plain(err)
}

// errEnough ends a watch that has seen all it should.
var errEnough = errors.New("enough was seen")

// answer carries out a question.
func answerQuestion(ctx context.Context, env *cmdline.Env, q *question, c *caller, args []string) error {
	if q.act == nil {
		return q.run(ctx, c, args)
	}
	done, err := q.act(ctx, c, args)
	if err == nil {
		fmt.Fprintln(env.Stdout, done)
	}
	return err
}

// argumentsOf wants the arguments that a usage names; those in brackets may be missing.
func argumentsOf(use string) cobra.PositionalArgs {
	names := strings.Fields(use)[1:]
	least := 0
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			least++
		}
	}
	return func(command *cobra.Command, args []string) error {
		switch {
		case len(names) == 0:
			return cmdline.NoArguments(command, args)
		case len(args) < least || len(args) > len(names):
			return exit.Usagef("%s takes %s, %s given", command.CommandPath(), strings.Join(names, " "),
				counted(len(args), "argument"))
		}
		return nil
	}
}

// oneShotTimeout is that of the sessions of commands that end when they are answered.
const oneShotTimeout = 10 * time.Second

// withSession does something in a session of its own.
func (c *caller) withSession(ctx context.Context, node, verb string, do func(s *protocol.Session) error) error {
	node = c.path(node)
	s, err := c.Open(ctx, protocol.SessionConfig{Node: node, Timeout: oneShotTimeout,
		Description: describedAs(verb, nil), Impatient: true})
	if err != nil {
		return c.aboutNode(node, err)
	}
	err = do(s)
	parting, cancel := context.WithTimeout(context.Background(), partingMost)
	defer cancel()
	_ = s.Close(parting) // the session ends by itself otherwise
	return err
}

// checkName sees to the length of a semaphore's name.
func checkName(name string) error {
	if len(name) > protocol.NameMost {
		return exit.Usagef("argument NAME: %d bytes are not allowed: want up to %d", len(name),
			protocol.NameMost)
	}
	return nil
}

// guardNames makes each command below one that takes the NAME of a semaphore refuse the empty name, unless --empty-name
// is given: it is a name like any other, but by accident, such as an unset variable, many scripts would share one lock.
// A name that is not UTF-8 cannot be sent: the stream would break each time.
func guardNames(root *cobra.Command) {
	leaves(root, func(command *cobra.Command) {
		at := slices.Index(strings.Fields(command.Use), "NAME") - 1
		if at < 0 || !strings.Contains(command.Use, " NODE NAME") {
			return
		}
		empty := command.Flags().Bool("empty-name", false, "allow an empty NAME")
		inner := command.Args
		command.Args = func(command *cobra.Command, args []string) error {
			if err := inner(command, args); err != nil {
				return err
			}
			switch {
			case args[at] == "" && !*empty:
				return exit.Usagef("argument NAME: it is empty; --empty-name allows that")
			case !utf8.ValidString(args[at]):
				return exit.Usagef("argument NAME: value %q is not allowed: want UTF-8", args[at])
			}
			return nil
		}
	})
}

// shownDataBytes bounds the data of a semaphore, an owner or a waiter in lists.
const shownDataBytes = 128

// page asks for one page of a list.
func (c *caller) page(ctx context.Context, request *adminpb.PageRequest) (*adminpb.Page, error) {
	page := new(adminpb.Page)
	err := c.inspect(ctx, adminpb.Inspect_List_FullMethodName, request, page)
	if exit.Of(err) == exit.NotFound && request.GetPath() != "" {
		err = fmt.Errorf("%s: %w", request.GetPath(), err)
	}
	return page, err
}

// pages calls show for the pages of a list, one after the other, until one is the last or show fails.
func (c *caller) pages(ctx context.Context, request *adminpb.PageRequest, show func(*adminpb.Page) error) error {
	for {
		page, err := c.page(ctx, request)
		if err != nil {
			return err
		}
		if err := show(page); err != nil || page.GetNextPageToken() == "" {
			return err
		}
		request.PageToken = page.GetNextPageToken()
	}
}

// each calls do for each element of a list, until one fails.
func each[E any](list []E, do func(E) error) error {
	for _, element := range list {
		if err := do(element); err != nil {
			return err
		}
	}
	return nil
}

// leaves calls tell for each command below a command that does something itself.
func leaves(command *cobra.Command, tell func(*cobra.Command)) {
	children := slices.Clone(command.Commands())
	if len(children) == 0 {
		tell(command)
	}
	for _, child := range children {
		leaves(child, tell)
	}
}
