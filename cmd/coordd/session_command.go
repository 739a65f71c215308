package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/server/adminpb"
)

func sessionCommand(env *cmdline.Env) *cobra.Command {
	parent := &cobra.Command{
		Use:   "session",
		Short: "Inspect sessions, and end them",
		Long:  "Look at the sessions of clients, and end them.\n\n" + oursText,
		RunE:  cmdline.WantsCommand,
	}
	parent.AddCommand(sessionListCommand(env), sessionShowCommand(env), sessionKillCommand(env))
	return parent
}

// sessionShown is a session, as the output has it.
type sessionShown struct {
	Node          string           `json:"node"`
	ID            uint64           `json:"id"`
	Description   string           `json:"description"`
	TimeoutMillis uint64           `json:"timeout_millis"`
	Since         *string          `json:"since"`
	Protected     bool             `json:"protected"` // by a key
	Attached      bool             `json:"attached"`
	DetachedSince *string          `json:"detached_since"`
	LeftMillis    *uint64          `json:"left_millis"` // if no client has it: how long it lives on
	Client        *clientShown     `json:"client"`
	ClientUnknown string           `json:"client_unknown,omitempty"` // why
	Owns          []*sessionHolds  `json:"owns"`
	Awaits        []*sessionAwaits `json:"awaits"`
}

type sessionHolds struct {
	Name    string  `json:"name"`
	OrderID uint64  `json:"order_id"`
	Count   uint64  `json:"count"`
	Since   *string `json:"since"`
}

type sessionAwaits struct {
	sessionHolds
	TimeoutMillis *uint64 `json:"timeout_millis,omitempty"` // missing: for ever
}

func showSession(s *adminpb.Session) *sessionShown {
	shown := &sessionShown{Node: s.GetPath(), ID: s.GetId(), Description: s.GetDescription(),
		TimeoutMillis: s.GetTimeoutMillis(), Since: timeShown(s.GetBeganMillis()), Protected: s.GetHasKey(),
		Attached: s.GetAttached(), Client: showClient(s), ClientUnknown: s.GetClientUnknown(),
		Owns: []*sessionHolds{}, Awaits: []*sessionAwaits{}}
	if !s.GetAttached() {
		left := s.GetLeftMillis()
		shown.DetachedSince, shown.LeftMillis = timeShown(s.GetDetachedMillis()), &left
	}
	shown.add(s)
	return shown
}

// matches reports whether a text is in the session's description, or in its client's address.
func (s *sessionShown) matches(text string) bool {
	return strings.Contains(s.Description, text) || s.Client != nil && strings.Contains(s.Client.Address, text)
}

// add adds what a page has of a session that began on an earlier one.
func (s *sessionShown) add(page *adminpb.Session) {
	for _, l := range page.GetOwned() {
		s.Owns = append(s.Owns, &sessionHolds{string(l.GetName()), l.GetOrderId(), l.GetCount(),
			timeShown(l.GetSinceMillis())})
	}
	for _, l := range page.GetAwaited() {
		s.Awaits = append(s.Awaits, &sessionAwaits{sessionHolds{string(l.GetName()), l.GetOrderId(), l.GetCount(),
			timeShown(l.GetSinceMillis())}, waitShown(l.GetTimeoutMillis())})
	}
}

// clientText says who has a session.
func clientText(s *adminpb.Session) string { return cmdline.OneLine(clientLine(s)) }

func clientLine(s *adminpb.Session) string {
	switch c := s.GetClient(); {
	case c != nil:
		return fmt.Sprintf("client %s, sdk %q, user %s, on server %s since %s", c.GetAddress(), c.GetSdk(),
			quotedName(c.GetUser()), s.GetServer(), dayText(c.GetSinceMillis()))
	case s.GetAttached():
		return fmt.Sprintf("client on server %s, unknown: %s", s.GetServer(), s.GetClientUnknown())
	default:
		return fmt.Sprintf("no client since %s, ends in %s", dayText(s.GetDetachedMillis()),
			millisText(s.GetLeftMillis()))
	}
}

// sessions calls show for each session that the request is about.
func (c *caller) sessions(ctx context.Context, request *adminpb.PageRequest,
	show func(first *adminpb.Session, s *sessionShown) error) error {
	var first *adminpb.Session
	var last *sessionShown // may continue on the next page
	next := func(s *adminpb.Session) (err error) {
		if s.GetContinued() && last != nil && last.ID == s.GetId() {
			last.add(s)
			return nil
		}
		if last != nil {
			err = show(first, last)
		}
		first, last = s, showSession(s)
		return err
	}
	request.Kind = adminpb.PageRequest_SESSIONS
	err := c.pages(ctx, request, func(page *adminpb.Page) error { return each(page.GetSessions(), next) })
	if err != nil || last == nil {
		return err
	}
	return show(first, last)
}

func sessionListCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	mine, detached, match := false, false, ""
	command := askCommand(env, &question{use: "ls [NODE]",
		short: "List the sessions of a coordination node, or of all below a path", long: oursText,
		example: "  coordd session ls app --detached\n  coordd session ls --match worker- -o jsonl",
		run: func(ctx context.Context, c *caller, args []string) error {
			me := ""
			if mine {
				var err error
				if me, err = c.whoAmI(ctx); err != nil {
					return err
				}
			}
			rows := out.list(env.Stdout, "NODE", "SESSION", "DESCRIPTION", "OWNS", "AWAITS", "TIMEOUT", "SINCE",
				"CLIENT")
			err := c.sessions(ctx, &adminpb.PageRequest{Path: pathOr(c, args, "")},
				func(first *adminpb.Session, s *sessionShown) error {
					if mine && (s.Client == nil || s.Client.User != me) || detached && s.Attached || !s.matches(match) {
						return nil
					}
					who := "none"
					if s.Client != nil {
						who = s.Client.Address
					} else if s.Attached {
						who = "on server " + first.GetServer()
					}
					return rows.add(s, s.Node, fmt.Sprint(s.ID), fmt.Sprintf("%q", s.Description),
						fmt.Sprint(len(s.Owns)), fmt.Sprint(len(s.Awaits)), millisText(s.TimeoutMillis),
						dayText(first.GetBeganMillis()), who)
				})
			return endList(env, rows, "sessions", err)
		}}, out)
	command.Flags().BoolVar(&mine, "mine", false, "only those that a client with your name has")
	command.Flags().BoolVar(&detached, "detached", false, "only those that no client has")
	command.Flags().StringVar(&match, "match", "", "only those with this text in the description or the address")
	return command
}

// whoAmI is the name by which the server knows the caller.
func (c *caller) whoAmI(ctx context.Context) (string, error) {
	result := new(Ydb_Discovery.WhoAmIResult)
	err := c.Call(ctx, Ydb_Discovery_V1.DiscoveryService_WhoAmI_FullMethodName,
		&Ydb_Discovery.WhoAmIRequest{}, result)
	if refused := protocol.StatusOf(err); refused == Ydb.StatusIds_GENERIC_ERROR ||
		refused == Ydb.StatusIds_UNAUTHORIZED || err == nil && result.GetUser() == "" {
		return "", exit.Usagef("flag --mine: the server knows no name of yours; log in with --user or --token-file")
	}
	return result.GetUser(), err
}

// sessionNumber is an argument that names a session.
func sessionNumber(argument string) (uint64, error) {
	id, err := strconv.ParseUint(argument, 10, 64)
	if err != nil || id == 0 {
		return 0, exit.Usagef("argument SESSION: value %q is not allowed: want the number that `coordd session ls` "+
			"shows", argument)
	}
	return id, nil
}

func checkSession(_ *pflag.FlagSet, args []string) error {
	_, err := sessionNumber(args[1])
	return err
}

func sessionShowCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	return askCommand(env, &question{use: "show NODE SESSION",
		short: "Show a session: its client, what it holds and what it waits for", long: oursText,
		example: "  coordd lock app nightly-report -- sh -c 'coordd session show app $COORDD_SESSION_ID'",
		check:   checkSession,
		run: func(ctx context.Context, c *caller, args []string) error {
			id, err := sessionNumber(args[1])
			if err != nil {
				return err
			}
			found := false
			one := &adminpb.PageRequest{Path: c.path(args[0]), Session: id}
			err = c.sessions(ctx, one, func(first *adminpb.Session, s *sessionShown) error {
				found = true
				return out.one(env.Stdout, s, func(w io.Writer) { printSession(w, first, s) })
			})
			if err == nil && !found {
				err = noSession(c.path(args[0]), id)
				if ended := c.howEnded(ctx, c.path(args[0]), id); ended != "" {
					err = exit.With(exit.NotFound,
						fmt.Errorf("%s has no session %d any more: %s", c.path(args[0]), id, ended))
				}
			}
			return err
		}}, out)
}

func noSession(node string, id uint64) error {
	return exit.With(exit.NotFound,
		fmt.Errorf("%s has no session %d; `coordd session ls` lists those that it has", node, id))
}

func printSession(w io.Writer, first *adminpb.Session, s *sessionShown) {
	fmt.Fprintf(w, "%s session %d %q, since %s, timeout %s\n  %s\n", cmdline.OneLine(s.Node), s.ID, s.Description,
		dayText(first.GetBeganMillis()), millisText(s.TimeoutMillis), clientText(first))
	since := func(at *string) string {
		if at == nil {
			return "unknown"
		}
		return *at
	}
	for _, l := range s.Owns {
		fmt.Fprintf(w, "  holds   %q, order id %d, since %s\n", l.Name, l.OrderID, since(l.Since))
	}
	for _, l := range s.Awaits {
		patience := "for ever"
		if l.TimeoutMillis != nil {
			patience = "for up to " + millisText(*l.TimeoutMillis)
		}
		fmt.Fprintf(w, "  awaits  %q, order id %d, since %s, %s\n", l.Name, l.OrderID, since(l.Since),
			patience)
	}
}

func sessionKillCommand(env *cmdline.Env) *cobra.Command {
	var reason string
	var detached bool
	var older time.Duration
	end := func(ctx context.Context, c *caller, node string, id uint64) error {
		err := c.inspect(ctx, adminpb.Inspect_EndSession_FullMethodName,
			&adminpb.EndSessionRequest{Path: node, Session: id, Reason: reason}, new(adminpb.EndSessionResponse))
		if err != nil && strings.Contains(err.Error(), "Session does not exist") {
			return noSession(node, id)
		}
		return err
	}
	command := askCommand(env, &question{use: "kill NODE [SESSION]",
		short: "End a session: what it holds goes to the next waiters",
		long: "Its client is notified if it is connected. One that is stopped or cut off believes in its\n" +
			"session until the timeout has passed: make sure first that it is dead if two holders would\n" +
			"do harm. With --detached all sessions of NODE end that no client has, with --older only\n" +
			"those that none has had for that long.\n\n" + oursText,
		example: `  coordd lock app nightly-report -- ` +
			`sh -c 'coordd session kill app $COORDD_SESSION_ID --reason "it hangs"' || true
  coordd session kill app --detached --older 1h`,
		check: func(flags *pflag.FlagSet, args []string) error {
			switch {
			case detached == (len(args) > 1):
				return exit.Usagef("want a SESSION or --detached, one of them")
			case flags.Changed("older") && (!detached || older < 0):
				return exit.Usagef("flag --older: value %q is not allowed: want a time such as 1h, with --detached",
					older)
			case detached:
				return nil
			}
			return checkSession(flags, args)
		},
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			node := c.path(args[0])
			if !detached {
				id, _ := sessionNumber(args[1])
				return fmt.Sprintf("ended session %d of %s", id, node), end(ctx, c, node, id)
			}
			ended, most := 0, uint64(time.Now().Add(-older).UnixMilli())
			detached := &adminpb.PageRequest{Path: node, Filter: adminpb.PageRequest_DETACHED}
			err := c.sessions(ctx, detached, func(s *adminpb.Session, _ *sessionShown) error {
				if since := s.GetDetachedMillis(); older > 0 && (since == 0 || since > most) {
					return nil
				}
				err := end(ctx, c, s.GetPath(), s.GetId())
				if exit.Of(err) == exit.NotFound { // it has ended meanwhile
					return nil
				}
				ended++
				return err
			})
			return fmt.Sprintf("ended %s of %s", counted(ended, "session"), node), err
		}}, nil)
	command.Flags().StringVar(&reason, "reason", "", "why, for the log; up to 128 bytes of it are kept")
	command.Flags().BoolVar(&detached, "detached", false, "all sessions that no client has")
	command.Flags().DurationVar(&older, "older", 0, "with --detached: for how long no client has had them, 1h say")
	return command
}

// clientShown is who has a session.
type clientShown struct {
	Address string  `json:"address"`
	SDK     string  `json:"sdk"`
	User    string  `json:"user"`
	Server  string  `json:"server"`
	Since   *string `json:"since"`
}

func showClient(s *adminpb.Session) *clientShown {
	c := s.GetClient()
	if c == nil {
		return nil
	}
	return &clientShown{c.GetAddress(), c.GetSdk(), c.GetUser(), s.GetServer(), timeShown(c.GetSinceMillis())}
}
