package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/serve"
)

const (
	sessionTimeoutDefault = 10 * time.Second
	// sessionTimeoutLeast leaves room for a signal, its effect and a kill before the lock is anybody else's.
	sessionTimeoutLeast = 3 * time.Second
	// marginLeast is the least time between the end of a command and the earliest moment at which another one
	// may have its lock; marginPart is what part of the session's timeout it is where that is more.
	marginLeast = 500 * time.Millisecond
	marginPart  = 10
	// partingMost bounds how long the lock's release may delay the end.
	partingMost = 2 * time.Second
	// connectMost bounds how long the first contact may take.
	connectMost = 30 * time.Second
	// againPause is the pause before a wait that was lost is begun anew.
	againPause = 200 * time.Millisecond
)

const lockText = `Wait for a lock, run a command while it is held, and pass on its exit code.

NAME is a semaphore of the coordination node NODE. If it does not exist, it is created for
as long as a client holds it or waits for it. By default the lock is exclusive: it takes all
of the semaphore's limit. Signals are forwarded to the command, which runs in its own process
group with these variables:
  COORDD_SESSION_ID     the session that holds the lock
  COORDD_FENCING_TOKEN  a number that grows from one holder to the next (until the node is
                        dropped and recreated): make the guarded resource refuse smaller ones

If the servers do not answer, the command is stopped before another client can get the lock:
it gets SIGTERM when two margins of the session's timeout are left and its process group
SIGKILL when one is; a margin is a tenth of the timeout, at least half a second. If the
lock is lost, by the end of the session or a forced delete, it gets SIGKILL at once.
'coordd lock' then exits with code 123. On Linux, killing 'coordd lock' also kills the
command, but not the command's child processes. A suspended 'coordd lock', or one on a
suspended machine, cannot act in time: use the token for that.`

// lockFlags are the flags of `coordd lock`, and those of other commands that run one.
type lockFlags struct {
	callerFlags
	holdFlags
	shared      bool
	count       uint64
	nonBlocking bool
	keep        bool
	createNode  bool
}

// holdFlags are the flags of commands that run another one while they hold something.
type holdFlags struct {
	wait           time.Duration
	data           string
	sessionTimeout time.Duration
	conflictCode   uint8
}

func (f *holdFlags) declareHold(flags *pflag.FlagSet) {
	flags.DurationVar(&f.wait, "timeout", protocol.Forever, "how long to wait, up to 24h (default: for ever)")
	flags.Lookup("timeout").DefValue = "0s" // help shows no default then
	flags.StringVar(&f.data, "data", "", "what others are shown of the holder, up to 1048576 bytes")
	flags.DurationVar(&f.sessionTimeout, "session-timeout", sessionTimeoutDefault,
		"how long it is held when nothing is heard of this program, 3s to 30m")
	flags.Uint8Var(&f.conflictCode, "conflict-exit-code", uint8(exit.Conflict),
		"the exit code where it cannot be had in time")
}

func (f *holdFlags) check() error {
	switch {
	case f.wait < 0 || f.wait > protocol.WaitMost && f.wait != protocol.Forever:
		return exit.Usagef("flag --timeout: value %q is not allowed: want a time up to 24h; without the flag the "+
			"wait has no end", f.wait)
	case len(f.data) > protocol.DataMost:
		return exit.Usagef("flag --data: %d bytes are not allowed: want up to %d", len(f.data),
			protocol.DataMost)
	}
	return checkSessionTimeout(f.sessionTimeout)
}

func checkSessionTimeout(timeout time.Duration) error {
	if timeout < sessionTimeoutLeast || timeout > protocol.TimeoutMost {
		return exit.Usagef("flag --session-timeout: value %q is not allowed: want a time from %s to %s",
			timeout, serve.DurationText(sessionTimeoutLeast), serve.DurationText(protocol.TimeoutMost))
	}
	return nil
}

func lockCommand(env *cmdline.Env) *cobra.Command {
	f := &lockFlags{}
	command := &cobra.Command{
		Use:   "lock NODE NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command while a lock is held",
		Long:  lockText + "\n\nWith --keep there is no command:\n" + keptText + "\n\n" + callerText,
		Example: `  coordd node create app
  coordd lock app nightly-report -- echo "nobody else runs this now"
  coordd lock --create-node app nightly-report -- echo "the node is made first, if it has to be"
  coordd lock app nightly-report -n -- echo "if nobody does already"
  coordd lock app nightly-report --timeout 5s --data "$HOSTNAME" -- sh -c 'echo "my token is $COORDD_FENCING_TOKEN"'
  kept=$(coordd lock app nightly-report --keep --session-timeout 5m) && eval "$kept" && ` +
			"coordd semaphore release app nightly-report",
		Annotations: map[string]string{runs: runsOne},
		Args: func(command *cobra.Command, args []string) error {
			switch {
			case !f.keep:
				return commandArguments(2, "NODE NAME")(command, args)
			case command.ArgsLenAtDash() >= 0:
				return exit.Usagef("flag --keep: no command is run, so there is none to give")
			}
			return argumentsOf("lock NODE NAME")(command, args)
		},
		RunE: func(command *cobra.Command, args []string) error {
			return runLock(env, f, args[0], args[1], args[2:], command.Flags())
		},
	}
	flags := command.Flags()
	f.declareCaller(env, command)
	f.declareHold(flags)
	flags.BoolVar(&f.shared, "shared", false,
		"take 1 of the semaphore's limit, so that others who do so may run as well")
	flags.Uint64Var(&f.count, "count", 0, "take that many of it")
	flags.BoolVarP(&f.nonBlocking, "nonblock", "n", false, "do not wait")
	flags.BoolVar(&f.createNode, "create-node", false, "make the coordination node if it does not exist")
	flags.BoolVar(&f.keep, "keep", false,
		"keep the lock for as long as --session-timeout says, and run nothing")
	return command
}

// commandArguments wants a number of arguments before the two dashes, and a command behind them.
func commandArguments(before int, names string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		dash := command.ArgsLenAtDash()
		switch {
		case dash < 0:
			return exit.Usagef("%s takes %s -- COMMAND: there is no --", command.CommandPath(), names)
		case dash != before:
			return exit.Usagef("%s takes %s before the --, %s given", command.CommandPath(), names,
				counted(dash, "argument"))
		case len(args) == dash:
			return exit.Usagef("%s: no command given behind the --", command.CommandPath())
		}
		return nil
	}
}

func runLock(env *cmdline.Env, f *lockFlags, node, name string, argv []string, flags *pflag.FlagSet) error {
	if err := f.check(); err != nil {
		return err
	}
	switch {
	case f.nonBlocking && flags.Changed("timeout"):
		return exit.Usagef("flags --nonblock and --timeout: give one of them")
	case f.shared && flags.Changed("count"):
		return exit.Usagef("flags --shared and --count: give one of them; --shared is --count 1")
	case flags.Changed("count") && f.count == 0:
		return exit.Usagef("flag --count: value 0 is not allowed: want a number from 1 to the semaphore's limit")
	}
	if err := checkName(name); err != nil {
		return err
	}
	if f.keep {
		if err := checkKept(flags); err != nil {
			return err
		}
	}
	if f.nonBlocking {
		f.wait = 0
	}
	f.keepStdin = !f.keep
	h := &holder{env: env, flags: &f.holdFlags, name: name, argv: argv, verb: "lock", keeps: f.keep,
		createsNode: f.createNode,
		amount:      func(d *protocol.Description) (uint64, error) { return f.amount(name, d) }}
	return h.hold(&f.callerFlags, node)
}

// amountFunc returns how much to take of a semaphore, nil if it does not exist.
type amountFunc func(*protocol.Description) (uint64, error)

// allOf takes all of a semaphore.
func allOf(name string) amountFunc {
	return func(d *protocol.Description) (uint64, error) { return new(lockFlags).amount(name, d) }
}

// amount is an amountFunc.
func (f *lockFlags) amount(name string, d *protocol.Description) (uint64, error) {
	limit := d.GetLimit()
	switch {
	case d == nil && f.count > 0:
		return 0, fmt.Errorf("flag --count: there is no semaphore %q; make it with `coordd semaphore create --limit`",
			name)
	case d == nil && f.shared:
		return 1, nil
	case d == nil:
		return math.MaxUint64, nil
	case f.count > limit:
		return 0, exit.Usagef("flag --count: value %d is not allowed: %q has a limit of %d", f.count, name,
			limit)
	case f.count > 0:
		return f.count, nil
	case f.shared && limit == 1:
		return 0, exit.Usagef("flag --shared: %q has a limit of 1, so it cannot be shared", name)
	case f.shared:
		return 1, nil
	default:
		return limit, nil
	}
}

// holder runs a command while it holds a semaphore.
type holder struct {
	env    *cmdline.Env
	flags  *holdFlags
	caller *caller
	node   string
	name   string
	argv   []string
	verb   string // for messages
	// what whoever holds without a command does
	holds string
	// makes the node if it does not exist
	createsNode bool
	// the session, instead of doing anything while it lives
	keeps bool
	// ends the sessions of the owners; nil: they stay
	evict  func(ctx context.Context, waits *protocol.Session) error
	amount amountFunc
}

// held is a semaphore that a session has.
type held struct {
	session *protocol.Session
	grant   *protocol.Grant
	gone    <-chan error // has the reason when the session has it no longer
}

// hold acquires, runs the command, and gives back.
func (h *holder) hold(f *callerFlags, node string) error {
	var path string
	var err error
	if len(h.argv) > 0 {
		if path, err = commandPath(h.argv[0]); err != nil {
			return err
		}
	}
	asked := forwardedSignals()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if h.caller, err = f.open(ctx, h.env); err != nil {
		return err
	}
	defer h.caller.Close()
	h.node = h.caller.path(node)
	acquired := make(chan acquisition, 1)
	go func() {
		got, err := h.acquire(ctx)
		acquired <- acquisition{got, err}
	}()
	for {
		select {
		case sig := <-asked:
			if !ends(sig) {
				continue
			}
			cancel(fmt.Errorf("ended by %s while waiting", sig))
			if a := <-acquired; a.err == nil {
				h.part(a.held)
			}
			return &commandEnded{exit.Signal + exit.Code(signalNumber(sig))}
		case a := <-acquired:
			if a.err != nil {
				return a.err
			}
			return h.run(a.held, path, asked)
		}
	}
}

type acquisition struct {
	held *held
	err  error
}

// acquire waits until a session has the semaphore. A session that is lost while it waits is replaced by
// another one, at the end of the queue.
func (h *holder) acquire(ctx context.Context) (*held, error) {
	begun := time.Now()
	left := func() time.Duration {
		if h.flags.wait == protocol.Forever {
			return protocol.Forever
		}
		return max(h.flags.wait-time.Since(begun), 0)
	}
	for first := true; ; first = false {
		got, err := h.try(ctx, left)
		var held *heldByOthers
		switch {
		case err == nil:
			return got, nil
		case errors.As(err, &held) || ctx.Err() != nil:
			return nil, err
		case protocol.StatusOf(err) == Ydb.StatusIds_NOT_FOUND && h.createsNode:
			h.createsNode = false
			if _, err := h.caller.makeNode(ctx, h.node, nil); err != nil {
				return nil, err
			}
			continue
		case protocol.StatusOf(err) == Ydb.StatusIds_NOT_FOUND: // the node
			return nil, h.caller.aboutNode(h.node, err)
		case !errors.Is(err, protocol.ErrLost) && (first || !passesAway(err)):
			return nil, err
		case left() == 0:
			return nil, h.notInTime("others")
		}
		fmt.Fprintf(h.env.Stderr, "coordd: %s: %v; waiting anew\n", h.verb, err)
		select {
		case <-time.After(againPause):
		case <-ctx.Done():
		}
	}
}

// passesAway reports whether a server that cannot be had now may be had later.
func passesAway(err error) bool {
	switch protocol.StatusOf(err) {
	case Ydb.StatusIds_UNAVAILABLE, Ydb.StatusIds_OVERLOADED, Ydb.StatusIds_TIMEOUT,
		Ydb.StatusIds_BAD_SESSION:
		return true
	}
	return exit.Of(err) == exit.NotServing
}

// notInTime is the end of a wait for what others hold.
func (h *holder) notInTime(by string) error {
	return exit.With(exit.Code(h.flags.conflictCode),
		fmt.Errorf("%s: %q of %s %w", h.verb, h.name, h.node, &heldByOthers{by}))
}

// try is acquire with one session.
func (h *holder) try(ctx context.Context, left func() time.Duration) (*held, error) {
	opening, cancel := context.WithTimeout(ctx, connectMost)
	defer cancel()
	session, err := h.caller.Open(opening, protocol.SessionConfig{Node: h.node, Timeout: h.flags.sessionTimeout,
		Description: describedAs(h.verb, h.argv), Impatient: h.flags.wait == 0})
	switch {
	case protocol.StatusOf(err) == Ydb.StatusIds_NOT_FOUND:
		// acquire says so, as of a node that is dropped later
		return nil, err
	case err != nil:
		return nil, h.caller.aboutNode(h.node, err)
	}
	got, err := h.acquireBy(ctx, session, left)
	if got == nil {
		h.part(&held{session: session})
	}
	return got, err
}

// changedMeanwhile are refusals of an acquire after a semaphore was made, deleted, or replaced by one of
// another kind.
func changedMeanwhile(err error) bool {
	switch protocol.StatusOf(err) {
	case Ydb.StatusIds_NOT_FOUND, Ydb.StatusIds_ABORTED:
		return true
	case Ydb.StatusIds_PRECONDITION_FAILED: // or there are too many
		return strings.Contains(err.Error(), "mode mismatch")
	}
	return false
}

// changesMost bounds how often a semaphore may be another one than it has just been.
const changesMost = 100

func (h *holder) acquireBy(ctx context.Context, session *protocol.Session, left func() time.Duration) (*held, error) {
	if wait := left(); wait != protocol.Forever { // also where no server is there to say that the time is over
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait+connectMost)
		defer cancel()
	}
	for range changesMost {
		d, _, err := session.Describe(ctx, h.name, protocol.Wanted{})
		if err != nil && protocol.StatusOf(err) != Ydb.StatusIds_NOT_FOUND {
			return nil, h.caller.plain(err)
		}
		count, err := h.amount(d)
		if err != nil {
			return nil, err
		}
		progress := &queueShown{caller: h.caller, env: h.env, verb: h.verb, node: h.node, name: h.name,
			session: session}
		progress.start(ctx)
		waits, placed, ended := h.evicting(ctx, session, progress.begin)
		acquired, err := session.Acquire(waits,
			protocol.Acquisition{Name: h.name, Count: count, Wait: left(), Data: []byte(h.flags.data),
				Ephemeral: d == nil || d.GetEphemeral(), Waiting: placed})
		progress.end()
		ended()
		switch {
		case err != nil && waits.Err() != nil && ctx.Err() == nil:
			return nil, h.caller.plain(context.Cause(waits))
		case changedMeanwhile(err):
			continue
		case err != nil && ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil, h.notInTime("others")
		case err != nil:
			return nil, h.caller.plain(err)
		case !acquired:
			by := "others"
			if d, _, err := session.Describe(ctx, h.name, protocol.Wanted{Owners: true}); err == nil {
				by = h.caller.ownersText(ctx, h.node, d)
			}
			return nil, h.notInTime(by)
		}
		return h.watch(ctx, session)
	}
	return nil, fmt.Errorf("%q of %s is made and deleted all the time", h.name, h.node)
}

// watch reads the order id of what a session has acquired, and watches it from then on.
func (h *holder) watch(ctx context.Context, session *protocol.Session) (*held, error) {
	gone := make(chan error, 1)
	grant, err := session.Confirm(ctx, h.name, func(err error) { gone <- err })
	if errors.Is(err, protocol.ErrTakenAway) { // before it was looked at
		err = fmt.Errorf("%w: %w", protocol.ErrLost, err)
	}
	if err != nil {
		return nil, err
	}
	return &held{session: session, grant: grant, gone: gone}, nil
}

// part gives back what is held and ends the session. It does not keep anybody waiting for long: what is not
// said in time the servers find out by themselves.
func (h *holder) part(what *held) {
	if what.grant != nil {
		what.grant.Forget()
	}
	if what.session.Left() <= 0 {
		what.session.Abandon()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), partingMost)
	defer cancel()
	if _, err := what.session.Release(ctx, h.name); err == nil || ctx.Err() == nil {
		_ = what.session.Close(ctx)
	}
	what.session.Abandon()
}

// describedAs is what an operator sees of a session.
func describedAs(verb string, argv []string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	text := fmt.Sprintf("coordd %s on %s, pid %d", verb, host, os.Getpid())
	if len(argv) > 0 {
		text += ": " + filepath.Base(argv[0])
	}
	return strings.ToValidUTF8(text[:min(len(text), protocol.DescriptionMost)], "")
}

// aboutNode is an error of a session's start for a person.
func (c *caller) aboutNode(node string, err error) error {
	switch protocol.StatusOf(err) {
	case Ydb.StatusIds_STATUS_CODE_UNSPECIFIED:
		if errors.Is(err, protocol.ErrSilent) {
			return c.whySilent(err)
		}
		return c.plain(err)
	case Ydb.StatusIds_NOT_FOUND:
		advice := c.elsewhere(node)
		if advice == "" {
			advice = fmt.Sprintf("; `coordd node create %s` makes it", node)
		}
		return &adviceError{err, fmt.Sprintf("there is no coordination node %s%s", node, advice)}
	default:
		return fmt.Errorf("coordination node %s: %w", node, err)
	}
}

// whySilent is the error of a server that does not answer sessions, with the reason if its health check has one.
func (c *caller) whySilent(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), partingMost)
	defer cancel()
	serves, issues, unknown := c.serving(ctx)
	if serves || unknown != nil {
		return c.plain(err)
	}
	return exit.With(exit.NotServing, fmt.Errorf("the server is not serving: %s", strings.Join(issues, "; ")))
}
