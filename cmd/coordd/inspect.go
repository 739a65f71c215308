package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/server/adminpb"
)

const inspectText = `Any server answers. Without --endpoint it is the one whose data directory is on this
machine, asked as an administrator. With --auth=required you see the nodes on which you
may read rows; ending a session needs the right to erase rows there. A listing is not a
snapshot: what comes and goes meanwhile may be in it or not.`

func (p *program) inspectCommand() *cobra.Command {
	parent := &cobra.Command{
		Use:   "inspect",
		Short: "Look at nodes, locks and sessions, and end a session",
		Long:  "Look at nodes, locks and sessions, and end a session.\n\n" + inspectText,
		RunE:  wantsCommand,
	}
	parent.AddCommand(p.inspectNodesCommand(), p.inspectSemaphoresCommand(), p.inspectSessionsCommand(), p.inspectEndCommand())
	return parent
}

// inspectSubcommand makes a command that asks a server.
func (p *program) inspectSubcommand(use, short string, run func(ctx context.Context, client *adminClient, args []string) error) *cobra.Command {
	command, _ := p.clusterSubcommand(use, short, clusterCallTimeout,
		func(ctx context.Context, _ *clusterFlags, client *adminClient, args []string) error {
			return run(ctx, client, args)
		})
	command.Long = short + ".\n\n" + inspectText
	return command
}

// allPages shows one page after the other, and says so if there is nothing on any. show is given the place of a page, and
// tells how many rows it has shown and where the next one is, if there is one.
func (p *program) allPages(what string, show func(token string) (rows int, next string, err error)) error {
	for token, all := "", 0; ; {
		rows, next, err := show(token)
		if err != nil {
			return err
		}
		if token, all = next, all+rows; token != "" {
			continue
		}
		if all == 0 {
			fmt.Fprintln(p.stderr, "no "+what)
		}
		return nil
	}
}

// inspect calls the inspection service.
func (c *adminClient) inspect(ctx context.Context, method string, request, response proto.Message) error {
	err := c.conn.Invoke(c.headers(ctx), method, request, response)
	switch status.Code(err) {
	case codes.Unimplemented:
		return errors.New("the server has no inspection service: is it a coordd of this version?")
	case codes.DeadlineExceeded:
		return errors.New("no answer in time")
	}
	return c.plain(err)
}

// pathOf is the first argument, empty without one.
func pathOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func (p *program) inspectNodesCommand() *cobra.Command {
	return p.inspectSubcommand("nodes [PATH]", "List the coordination nodes below a path", func(ctx context.Context, client *adminClient, args []string) error {
		request := &adminpb.ListNodesRequest{Path: pathOf(args)}
		return p.allPages("coordination nodes", func(token string) (int, string, error) {
			page := new(adminpb.ListNodesResponse)
			request.PageToken = token
			if err := client.inspect(ctx, adminpb.Inspect_ListNodes_FullMethodName, request, page); err != nil {
				return 0, "", err
			}
			for _, n := range page.GetNodes() {
				fmt.Fprintf(p.stdout, "%s %s, %s\n", n.GetPath(), counted(int(n.GetSessions()), "session"), counted(int(n.GetSemaphores()), "semaphore"))
			}
			return len(page.GetNodes()), page.GetNextPageToken(), nil
		})
	})
}

func (p *program) inspectSemaphoresCommand() *cobra.Command {
	var prefix string
	command := p.inspectSubcommand("semaphores [PATH]", "List semaphores, who holds them and who waits", func(ctx context.Context, client *adminClient, args []string) error {
		request := &adminpb.ListSemaphoresRequest{Path: pathOf(args), Prefix: prefix}
		return p.allPages("semaphores", func(token string) (int, string, error) {
			page := new(adminpb.ListSemaphoresResponse)
			request.PageToken = token
			if err := client.inspect(ctx, adminpb.Inspect_ListSemaphores_FullMethodName, request, page); err != nil {
				return 0, "", err
			}
			for _, s := range page.GetSemaphores() {
				printSemaphore(p.stdout, s)
			}
			return len(page.GetSemaphores()), page.GetNextPageToken(), nil
		})
	})
	command.Flags().StringVar(&prefix, "prefix", "", "what the names begin with")
	return command
}

func printSemaphore(w io.Writer, s *adminpb.Semaphore) {
	if !s.GetContinued() {
		held := fmt.Sprintf("held %d of %d", s.GetCount(), s.GetLimit())
		if s.GetEphemeral() && s.GetCount() == math.MaxUint64 {
			held = "held"
		}
		fmt.Fprintf(w, "%s %q %s, %s, %s\n", s.GetPath(), s.GetName(), held,
			counted(int(s.GetOwnerCount()), "owner"), counted(int(s.GetWaiterCount()), "waiter"))
	}
	for _, l := range s.GetOwners() {
		fmt.Fprintf(w, "  owner   session %d%s\n", l.GetSession(), linkText(l))
	}
	for _, l := range s.GetWaiters() {
		fmt.Fprintf(w, "  waiter  session %d%s%s\n", l.GetSession(), linkText(l), patienceText(l))
	}
}

// linkText is what is said of an owner and of a waiter.
func linkText(l *adminpb.Link) string {
	return fmt.Sprintf(", order id %d, since %s", l.GetOrderId(), dayText(l.GetSinceMillis()))
}

func patienceText(l *adminpb.Link) string {
	if l.GetTimeoutMillis() == math.MaxUint64 {
		return ", for ever"
	}
	return ", for up to " + millisText(l.GetTimeoutMillis())
}

func (p *program) inspectSessionsCommand() *cobra.Command {
	var session uint64
	command := p.inspectSubcommand("sessions [PATH]", "List sessions, who has them, what they hold and what they wait for", func(ctx context.Context, client *adminClient, args []string) error {
		request := &adminpb.ListSessionsRequest{Path: pathOf(args), Session: session}
		return p.allPages("sessions", func(token string) (int, string, error) {
			page := new(adminpb.ListSessionsResponse)
			request.PageToken = token
			if err := client.inspect(ctx, adminpb.Inspect_ListSessions_FullMethodName, request, page); err != nil {
				return 0, "", err
			}
			for _, s := range page.GetSessions() {
				printSession(p.stdout, s)
			}
			return len(page.GetSessions()), page.GetNextPageToken(), nil
		})
	})
	command.Flags().Uint64Var(&session, "session", 0, "only this one")
	return command
}

func printSession(w io.Writer, s *adminpb.Session) {
	if !s.GetContinued() {
		fmt.Fprintf(w, "%s session %d %q, since %s, timeout %s\n", s.GetPath(), s.GetId(), s.GetDescription(), dayText(s.GetBeganMillis()), millisText(s.GetTimeoutMillis()))
		switch c := s.GetClient(); {
		case c != nil:
			user := "nobody"
			if c.GetUser() != "" {
				user = fmt.Sprintf("%q", c.GetUser())
			}
			fmt.Fprintf(w, "  client  %s, sdk %q, user %s, on server %s since %s\n", c.GetAddress(), c.GetSdk(), user, s.GetServer(), dayText(c.GetSinceMillis()))
		case s.GetAttached():
			fmt.Fprintf(w, "  client  on server %s, unknown: %s\n", s.GetServer(), s.GetClientUnknown())
		default:
			fmt.Fprintf(w, "  client  none since %s, ends in %s\n", dayText(s.GetDetachedMillis()), millisText(s.GetLeftMillis()))
		}
	}
	for _, l := range s.GetOwned() {
		fmt.Fprintf(w, "  holds   %q%s\n", l.GetName(), linkText(l))
	}
	for _, l := range s.GetAwaited() {
		fmt.Fprintf(w, "  awaits  %q%s%s\n", l.GetName(), linkText(l), patienceText(l))
	}
}

func (p *program) inspectEndCommand() *cobra.Command {
	var reason string
	command := p.inspectSubcommand("end-session PATH SESSION", "End a session: what it holds goes to whoever waits", func(ctx context.Context, client *adminClient, args []string) error {
		session, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil || session == 0 {
			return usageError("session %q: want the number that `coordd inspect sessions` shows", args[1])
		}
		request := &adminpb.EndSessionRequest{Path: args[0], Session: session, Reason: reason}
		if err := client.inspect(ctx, adminpb.Inspect_EndSession_FullMethodName, request, new(adminpb.EndSessionResponse)); err != nil {
			return err
		}
		fmt.Fprintf(p.stdout, "ended session %d of %s\n", session, args[0])
		return nil
	})
	command.Flags().StringVar(&reason, "reason", "", "why, for the log")
	return command
}

// dayText is a time of day of a server.
func dayText(millis uint64) string {
	if millis == 0 || millis > math.MaxInt64 {
		return "unknown"
	}
	return time.UnixMilli(int64(millis)).UTC().Format(time.RFC3339)
}

func millisText(millis uint64) string {
	return durationText(time.Duration(min(millis, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond)
}
