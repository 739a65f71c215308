package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/server/adminpb"
)

func semaphoreCommand(env *cmdline.Env) *cobra.Command {
	parent := &cobra.Command{
		Use:     "semaphore",
		Aliases: []string{"sem"},
		Short:   "Create, inspect, watch, change and delete semaphores",
		RunE:    cmdline.WantsCommand,
	}
	parent.AddCommand(semaphoreCreateCommand(env), semaphoreShowCommand(env), semaphoreSetCommand(env),
		semaphoreWatchCommand(env), semaphoreDeleteCommand(env), semaphoreListCommand(env),
		semaphoreReleaseCommand(env), semaphoreTakeOverCommand(env))
	return parent
}

// checkData sees to the size of data that a flag or an argument gives.
func checkData(from string, size int) error {
	if size > protocol.DataMost {
		return exit.Usagef("%s: %d bytes are not allowed: want up to %d", from, size, protocol.DataMost)
	}
	return nil
}

func semaphoreCreateCommand(env *cmdline.Env) *cobra.Command {
	var limit uint64
	var data string
	command := askCommand(env, &question{use: "create NODE NAME",
		short: "Create a persistent semaphore",
		long:  "A lock needs none: 'coordd lock' makes it for as long as it is held.",
		example: `  coordd semaphore create app printers --limit 3
  coordd sem create app greeting --limit 1 --data hello`,
		check: func(flags *pflag.FlagSet, args []string) error {
			if limit == 0 {
				if !flags.Changed("limit") {
					return exit.Usagef("flag --limit: no value given; want a number from 1 to 18446744073709551615, " +
						"which is how much may be held at a time")
				}
				return exit.Usagef("flag --limit: value 0 is not allowed: want a number from 1 to 18446744073709551615")
			}
			return errors.Join(checkName(args[1]), checkData("flag --data", len(data)))
		},
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			return fmt.Sprintf("made %q with a limit of %d", args[1], limit), c.withSession(ctx, args[0],
				"semaphore create", func(s *protocol.Session) error {
					return aboutSemaphore(args[1], s.Create(ctx, args[1], limit, []byte(data)))
				})
		}}, nil)
	command.Flags().Uint64Var(&limit, "limit", 0, "how much may be held at a time")
	command.Flags().StringVar(&data, "data", "", "its data, up to 1048576 bytes")
	return command
}

// aboutSemaphore is an error of a request that names a semaphore.
func aboutSemaphore(name string, err error) error {
	if protocol.StatusOf(err) == Ydb.StatusIds_STATUS_CODE_UNSPECIFIED {
		return err
	}
	return fmt.Errorf("%q: %w", name, err)
}

func semaphoreSetCommand(env *cmdline.Env) *cobra.Command {
	return setCommand(env, &question{short: "Replace the data of a semaphore",
		example: `  coordd sem create app greeting --limit 1
  coordd sem set app greeting hello
  echo '{"debug": true}' | coordd sem set app greeting --file -`},
		func(ctx context.Context, c *caller, node, name string, data []byte) error {
			return c.withSession(ctx, node, "semaphore set", func(s *protocol.Session) error {
				return aboutSemaphore(name, s.Update(ctx, name, data))
			})
		})
}

// setCommand makes a command that sets the data of a semaphore.
func setCommand(env *cmdline.Env, q *question,
	set func(ctx context.Context, c *caller, node, name string, data []byte) error) *cobra.Command {
	var file string
	var data []byte
	q.use, q.long = "set NODE NAME [DATA]", strings.TrimSpace(
		"The data is DATA, or what is in the file of --file; - is stdin.\n\n"+q.long)
	q.check = func(_ *pflag.FlagSet, args []string) (err error) {
		data, err = dataOf(env, file, args[2:])
		return errors.Join(checkName(args[1]), err)
	}
	q.act = func(ctx context.Context, c *caller, args []string) (string, error) {
		return fmt.Sprintf("%q has %s of data", args[1], counted(len(data), "byte")),
			set(ctx, c, args[0], args[1], data)
	}
	command := askCommand(env, q, nil)
	command.Flags().StringVar(&file, "file", "", "file with the data, - for stdin")
	return command
}

// dataOf is data that is an argument or in a file.
func dataOf(env *cmdline.Env, file string, argument []string) (data []byte, err error) {
	switch {
	case file == "" && len(argument) == 0:
		return nil, exit.Usagef("no data given: want DATA or --file")
	case file != "" && len(argument) > 0:
		return nil, exit.Usagef("DATA and --file: give one of them")
	case file == "":
		return []byte(argument[0]), checkData("argument DATA", len(argument[0]))
	}
	from := env.Stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, exit.Usagef("flag --file: %w", err)
		}
		defer opened.Close()
		from = opened
	}
	if data, err = io.ReadAll(io.LimitReader(from, protocol.DataMost+1)); err != nil {
		return nil, fmt.Errorf("flag --file: %w", err)
	}
	if len(data) > protocol.DataMost {
		return nil, exit.Usagef("flag --file: more than %d bytes are not allowed", protocol.DataMost)
	}
	return data, nil
}

func semaphoreDeleteCommand(env *cmdline.Env) *cobra.Command {
	var force bool
	command := askCommand(env, &question{use: "delete NODE NAME", short: "Delete a semaphore",
		long: "With --force it may have owners and waiters. Owners are not notified and keep running: to\n" +
			"take a lock away, end the session that holds it with 'coordd session kill'. An ephemeral\n" +
			"semaphore, such as those of 'coordd lock', cannot be deleted at all.",
		example: "  coordd sem create app old --limit 1\n  coordd sem delete app old",
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			return fmt.Sprintf("deleted %q", args[1]), c.withSession(ctx, args[0], "semaphore delete",
				func(s *protocol.Session) error {
					err := s.Delete(ctx, args[1], force)
					if protocol.StatusOf(err) == Ydb.StatusIds_PRECONDITION_FAILED {
						return whyNotDeleted(ctx, s, args[0], args[1], err)
					}
					return aboutSemaphore(args[1], err)
				})
		}}, nil)
	command.Flags().BoolVar(&force, "force", false, "also while it is held or waited for")
	return command
}

// whyNotDeleted says what helps.
func whyNotDeleted(ctx context.Context, s *protocol.Session, node, name string, err error) error {
	d, _, describeErr := s.Describe(ctx, name, protocol.Wanted{Owners: true})
	switch {
	case describeErr != nil:
		return aboutSemaphore(name, err)
	case d.GetEphemeral() && len(d.GetOwners()) > 0:
		return fmt.Errorf("%q: %w: it goes with its last owner; `coordd session kill %s %d` ends one", name,
			err, node, d.GetOwners()[0].GetSessionId())
	default:
		return fmt.Errorf("%q: %w: --force deletes it all the same, and tells its owners nothing", name, err)
	}
}

// linkShown is an owner or a waiter.
type linkShown struct {
	Session       uint64  `json:"session"`
	OrderID       uint64  `json:"order_id"`
	Count         uint64  `json:"count"`
	TimeoutMillis *uint64 `json:"timeout_millis,omitempty"` // of a wait; missing: for ever
	bytesShown
	Since       *string      `json:"since"`
	Description *string      `json:"description"`
	Client      *clientShown `json:"client"`

	told  *adminpb.Session // what a coordd server tells of the session, nil: nothing
	data  []byte
	waits bool
}

// semaphoreShown is a semaphore, as the output has it.
type semaphoreShown struct {
	Node      string `json:"node"`
	Name      string `json:"name"`
	Limit     uint64 `json:"limit"`
	Count     uint64 `json:"count"`
	Ephemeral bool   `json:"ephemeral"`
	bytesShown
	lastChange
	Owners  []*linkShown `json:"owners"`
	History []*holdShown `json:"history,omitempty"` // with --history
	Waiters []*linkShown `json:"waiters"`

	data []byte
}

func showSemaphore(node string, d *protocol.Description) *semaphoreShown {
	shown := &semaphoreShown{Node: node, Name: d.GetName(), Limit: d.GetLimit(), Count: d.GetCount(),
		Ephemeral: d.GetEphemeral(), bytesShown: showBytes(d.GetData()), Owners: []*linkShown{},
		Waiters: []*linkShown{}, data: d.GetData()}
	for _, l := range d.GetOwners() {
		shown.Owners = append(shown.Owners, &linkShown{Session: l.GetSessionId(), OrderID: l.GetOrderId(),
			Count: l.GetCount(), bytesShown: showBytes(l.GetData()), data: l.GetData()})
	}
	for _, l := range d.GetWaiters() {
		shown.Waiters = append(shown.Waiters,
			&linkShown{Session: l.GetSessionId(), OrderID: l.GetOrderId(), Count: l.GetCount(),
				TimeoutMillis: waitShown(l.GetTimeoutMillis()), bytesShown: showBytes(l.GetData()),
				data: l.GetData(), waits: true})
	}
	return shown
}

// heldText says how much of a semaphore is held.
func heldText(count, limit uint64, ephemeral bool) string {
	switch {
	case ephemeral && count == 0:
		return "held by nobody"
	case ephemeral && count == math.MaxUint64:
		return "held"
	case ephemeral:
		return fmt.Sprintf("held by %d who share it", count)
	}
	return fmt.Sprintf("held %d of %d", count, limit)
}

func (s *semaphoreShown) text(w io.Writer) {
	fmt.Fprintf(w, "%s %q %s, %s, %s\n", s.Node, s.Name, heldText(s.Count, s.Limit, s.Ephemeral),
		counted(len(s.Owners), "owner"), counted(len(s.Waiters), "waiter"))
	if len(s.data) > 0 {
		fmt.Fprintf(w, "  data    %s\n", dataText(s.data))
	}
	if s.Version != nil {
		fmt.Fprintf(w, "  version %s\n", &s.lastChange)
	}
	for _, l := range s.Owners {
		l.text(w, "owner ", s.Ephemeral)
	}
	for _, l := range s.Waiters {
		l.text(w, "waiter", s.Ephemeral)
	}
	for _, h := range s.History {
		fmt.Fprintf(w, "  before  %s\n", h)
	}
}

func (l *linkShown) text(w io.Writer, what string, ephemeral bool) {
	line := fmt.Sprintf("  %s  session %d", what, l.Session)
	if l.told != nil {
		line += fmt.Sprintf(" %q", l.told.GetDescription())
	}
	line += fmt.Sprintf(", order id %d", l.OrderID)
	if !ephemeral {
		line += fmt.Sprintf(", count %d", l.Count)
	}
	if l.Since != nil {
		line += ", since " + *l.Since
	}
	switch {
	case !l.waits:
	case l.TimeoutMillis == nil:
		line += ", for ever"
	default:
		line += ", for up to " + millisText(*l.TimeoutMillis)
	}
	if len(l.data) > 0 {
		line += ", data " + dataText(l.data)
	}
	fmt.Fprintln(w, line)
	if l.told != nil {
		fmt.Fprintf(w, "          %s\n", clientText(l.told))
	}
}

// toldMost is of how many sessions of a semaphore a command asks who has them.
const toldMost = 32

// whoHas adds what only a coordd server tells. What it does not tell this caller is left out.
func (c *caller) whoHas(ctx context.Context, s *semaphoreShown) error {
	asked := 0
	for _, links := range [][]*linkShown{s.Owners, s.Waiters} {
		for _, l := range links {
			if asked++; asked > toldMost {
				return nil
			}
			page, err := c.page(ctx, &adminpb.PageRequest{Kind: adminpb.PageRequest_SESSIONS, Path: s.Node,
				Session: l.Session})
			if isNotOurs(err) {
				return nil
			}
			if err != nil {
				return err
			}
			if len(page.GetSessions()) == 0 {
				continue
			}
			told := page.GetSessions()[0]
			description := told.GetDescription()
			l.told, l.Description, l.Client = told, &description, showClient(told)
			for _, of := range append(told.GetOwned(), told.GetAwaited()...) {
				if of.GetOrderId() == l.OrderID {
					l.Since = timeShown(of.GetSinceMillis())
				}
			}
		}
	}
	return nil
}

func semaphoreShowCommand(env *cmdline.Env) *cobra.Command {
	out, history := new(outputFlag), false
	command := askCommand(env, &question{use: "show NODE NAME", short: "Show a semaphore, its owners and its waiters",
		long: "Any server of the protocol lists the sessions. A coordd server also names their clients,\n" +
			"with addresses and times.",
		example: `  coordd sem create app printers --limit 3
  coordd semaphore show app printers
  coordd sem show app printers -o json`,
		run: func(ctx context.Context, c *caller, args []string) error {
			return c.withSession(ctx, args[0], "semaphore show", func(s *protocol.Session) error {
				// before the data, which may be younger then
				version, unknown := c.versions(ctx, args[0], args[1], false)
				d, _, err := s.Describe(ctx, args[1], protocol.Wanted{Owners: true, Waiters: true})
				var holds []*holdShown
				if history && (err == nil || protocol.StatusOf(err) == Ydb.StatusIds_NOT_FOUND) {
					var failed error
					if holds, failed = c.holds(ctx, args[0], args[1]); failed != nil {
						return cmp.Or(err, failed)
					}
					if err != nil && len(holds) > 0 { // an ephemeral semaphore is there only while it is used
						d, err = &protocol.Description{Name: args[1], Limit: math.MaxUint64, Ephemeral: true}, nil
					}
				}
				if err != nil {
					return aboutSemaphore(args[1], err)
				}
				shown := showSemaphore(c.path(args[0]), d)
				shown.History = holds
				if unknown == nil && !d.GetEphemeral() {
					shown.lastChange = showVersion(version.GetPresent())
				}
				if err := c.whoHas(ctx, shown); err != nil {
					return err
				}
				return out.one(env.Stdout, shown, shown.text)
			})
		}}, out)
	command.Flags().BoolVar(&history, "history", false,
		"also up to 20 sessions that held it before, since the asked server was started")
	return command
}

// semaphoreRow is a semaphore of a list.
type semaphoreRow struct {
	Node      string `json:"node"`
	Name      string `json:"name"`
	NameBytes uint64 `json:"name_bytes"`
	Limit     uint64 `json:"limit"`
	Count     uint64 `json:"count"`
	Ephemeral bool   `json:"ephemeral"`
	bytesShown
	DataBytes uint64 `json:"data_bytes"`
	Owners    uint64 `json:"owners"`
	Waiters   uint64 `json:"waiters"`
}

func semaphoreListCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	return askCommand(env, &question{use: "ls [NODE] [PREFIX]",
		short: "List the semaphores of a coordination node, or of all below a path",
		long: "Data is shown up to 128 bytes. A listing is not a snapshot.\n\n" +
			oursText,
		example: "  coordd semaphore ls app\n  coordd sem ls app nightly -o json",
		run: func(ctx context.Context, c *caller, args []string) error {
			rows := out.list(env.Stdout, "NODE", "NAME", "HELD", "OWNERS", "WAITERS", "DATA")
			prefix := ""
			if len(args) > 1 {
				prefix = args[1]
			}
			return endList(env, rows, "semaphores", c.listSemaphores(ctx, pathOr(c, args, ""), prefix,
				func(s *adminpb.Semaphore) error {
					data := s.GetData()
					if uint64(len(data)) < s.GetDataBytes() {
						data = wholeRunes(data)
					}
					row := &semaphoreRow{s.GetPath(), string(s.GetName()), uint64(len(s.GetName())), s.GetLimit(),
						s.GetCount(), s.GetEphemeral(), showBytes(data), s.GetDataBytes(), s.GetOwnerCount(),
						s.GetWaiterCount()}
					return rows.add(row, row.Node, dataText(s.GetName()),
						heldText(row.Count, row.Limit, row.Ephemeral), fmt.Sprint(row.Owners),
						fmt.Sprint(row.Waiters), dataText(data))
				}))
		}}, out)
}

// listSemaphores calls show for each semaphore below a path whose name has a prefix, once also where its links are
// spread over several pages.
func (c *caller) listSemaphores(ctx context.Context, path, prefix string, show func(*adminpb.Semaphore) error) error {
	return c.pages(ctx, &adminpb.PageRequest{Kind: adminpb.PageRequest_SEMAPHORES, Path: path, Prefix: []byte(prefix),
		DataBytes: shownDataBytes},
		func(page *adminpb.Page) error {
			return each(page.GetSemaphores(), func(s *adminpb.Semaphore) error {
				if s.GetContinued() {
					return nil
				}
				return show(s)
			})
		})
}
