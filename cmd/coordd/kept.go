package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/server/adminpb"
)

// keptVariable names a session that lives on when the command that began it has ended, with what it takes to
// come back to it: its number, its key and its timeout.
const keptVariable = cmdline.VariablePrefix + "KEPT_SESSION"

const keptText = `Print how to come back to the session that holds it, for a shell to take up, and end. Nobody
renews the session: what it holds is given back by 'coordd semaphore release', or goes to
others when --session-timeout has passed, whatever the script is doing. What it guards had
better refuse small COORDD_FENCING_TOKEN, as with 'coordd lock'. COORDD_KEPT_SESSION is for
'coordd semaphore release', and a secret: whoever has it has what is held.`

// keptSession is what the variable says.
type keptSession struct {
	id      uint64
	key     []byte
	timeout time.Duration
}

func (k *keptSession) String() string {
	return fmt.Sprintf("%d:%s:%d", k.id, hex.EncodeToString(k.key), k.timeout.Milliseconds())
}

// keptSessionOf is the session that the environment names.
func keptSessionOf(env cmdline.Environment) (*keptSession, error) {
	value := env.Value(keptVariable)
	if value == "" {
		return nil, exit.Usagef("variable %s: no value given; `coordd lock --keep` and `coordd semaphore take-over` "+
			"print it", keptVariable)
	}
	// The value is a secret.
	wrong := exit.With(exit.Config,
		fmt.Errorf("variable %s: its value is none that `coordd lock --keep` prints", keptVariable))
	parts := strings.Split(value, ":")
	if len(parts) != 3 {
		return nil, wrong
	}
	id, idErr := strconv.ParseUint(parts[0], 10, 64)
	key, keyErr := hex.DecodeString(parts[1])
	millis, millisErr := strconv.ParseUint(parts[2], 10, 64)
	if errors.Join(idErr, keyErr, millisErr) != nil || id == 0 ||
		millis > uint64(protocol.TimeoutMost.Milliseconds()) {
		return nil, wrong
	}
	return &keptSession{id, key, time.Duration(millis) * time.Millisecond}, nil
}

// checkKept sees that whoever keeps a session has said for how long.
func checkKept(flags *pflag.FlagSet) error {
	if !flags.Changed("session-timeout") {
		return exit.Usagef("flag --session-timeout: no value given; want how long it is to be kept, 3s to 30m: " +
			"nobody renews it")
	}
	return nil
}

// keep leaves the session with what it holds, and prints how to come back to it.
func (h *holder) keep(what *held) error {
	what.grant.Forget()
	kept := &keptSession{what.session.ID(), what.session.Key(), h.flags.sessionTimeout}
	for _, variable := range []struct{ name, value string }{
		{"COORDD_SESSION_ID", fmt.Sprint(kept.id)}, {"COORDD_FENCING_TOKEN", fmt.Sprint(what.grant.Order)},
		{keptVariable, kept.String()},
	} {
		if _, err := fmt.Fprintf(h.env.Stdout, "%s=%s; export %s;\n", variable.name, variable.value,
			variable.name); err != nil {
			h.part(what)
			return err
		}
	}
	what.session.Abandon()
	return nil
}

func semaphoreReleaseCommand(env *cmdline.Env) *cobra.Command {
	return askCommand(env, &question{use: "release NODE NAME",
		short: "Release a lock kept by 'coordd lock --keep' or a take-over",
		long: "The session is the one of COORDD_KEPT_SESSION. It ends with it. If it was over before, or its\n" +
			"semaphore was deleted, the exit code is 123: others may have had it since.",
		example: `  kept=$(coordd lock app deploy --keep --session-timeout 5m) && eval "$kept" && ` +
			"coordd semaphore release app deploy",
		check: func(_ *pflag.FlagSet, args []string) error {
			if _, err := keptSessionOf(env.Environ); err != nil {
				return err
			}
			return checkName(args[1])
		},
		run: func(ctx context.Context, c *caller, args []string) error {
			kept, err := keptSessionOf(env.Environ)
			if err != nil {
				return err
			}
			node := c.path(args[0])
			s, err := c.Open(ctx, protocol.SessionConfig{Node: node, Timeout: kept.timeout,
				Description: describedAs("semaphore release", nil), ID: kept.id, Key: kept.key})
			switch {
			case protocol.StatusOf(err) == Ydb.StatusIds_SESSION_EXPIRED,
				protocol.StatusOf(err) == Ydb.StatusIds_BAD_SESSION:
				return exit.With(exit.Lost, fmt.Errorf("%q was lost before: session %d of %s is over: %w",
					args[1], kept.id, node, err))
			case err != nil:
				return c.aboutNode(node, err)
			}
			defer s.Abandon()
			released, err := s.Release(ctx, args[1])
			if protocol.StatusOf(err) == Ydb.StatusIds_NOT_FOUND {
				released, err = false, nil
			}
			if err != nil {
				return aboutSemaphore(args[1], err)
			}
			if !released {
				return exit.With(exit.Lost,
					fmt.Errorf("session %d of %s does not hold %q: it was taken away, or the name is another one",
						kept.id, node, args[1]))
			}
			parting, cancel := context.WithTimeout(ctx, partingMost)
			defer cancel()
			_ = s.Close(parting) // it ends by itself otherwise
			fmt.Fprintf(env.Stdout, "gave back %q\n", args[1])
			return nil
		}}, nil)
}

const takeOverText = `End the sessions that hold a semaphore, and hold it instead. Whoever has waited longer comes
first. Clients whose sessions end are told so, if they listen. One that cannot be told,
because it is stopped or cut off, believes in its session until its timeout has passed: see
that it is dead first, if two holders would do harm.`

func semaphoreTakeOverCommand(env *cmdline.Env) *cobra.Command {
	f := new(callerFlags)
	hold := new(holdFlags)
	var reason string
	command := &cobra.Command{
		Use:   "take-over NODE NAME",
		Short: "Take a semaphore from its holders",
		Long: "Take a semaphore from its holders.\n\n" + takeOverText + "\n\n" + keptText + "\n\n" +
			oursText + "\n\n" + callerText,
		Example: `  kept=$(coordd sem take-over app deploy --session-timeout 5m --reason "it hangs") && ` +
			`eval "$kept" && coordd sem release app deploy`,
		Args: argumentsOf("take-over NODE NAME"),
		RunE: func(command *cobra.Command, args []string) error {
			if err := errors.Join(checkKept(command.Flags()), hold.check(), checkName(args[1])); err != nil {
				return err
			}
			h := &holder{env: env, flags: hold, name: args[1], verb: "take-over", keeps: true, amount: allOf(args[1])}
			h.evict = func(ctx context.Context, s *protocol.Session) error {
				return h.endOwners(ctx, s, reason)
			}
			return h.hold(f, args[0])
		},
	}
	f.declareCaller(env, command)
	hold.declareHold(command.Flags())
	command.Flags().StringVar(&reason, "reason", "", "why, for the log; up to 128 bytes of it are kept")
	return command
}

// endOwners ends the sessions that hold what a session waits for.
func (h *holder) endOwners(ctx context.Context, waits *protocol.Session, reason string) error {
	d, _, err := waits.Describe(ctx, h.name, protocol.Wanted{Owners: true})
	if err != nil {
		return aboutSemaphore(h.name, err)
	}
	for _, owner := range d.GetOwners() {
		if owner.GetSessionId() == waits.ID() {
			continue
		}
		request := &adminpb.EndSessionRequest{Path: h.node, Session: owner.GetSessionId(), Reason: reason}
		err := h.caller.Invoke(ctx, adminpb.Inspect_EndSession_FullMethodName, request,
			new(adminpb.EndSessionResponse))
		if status.Code(err) == codes.NotFound { // it has ended meanwhile
			continue
		}
		if err != nil {
			return fmt.Errorf("end session %d: %w", owner.GetSessionId(), h.caller.inspectError(err))
		}
		fmt.Fprintf(h.env.Stderr, "coordd: %s: ended session %d\n", h.verb, owner.GetSessionId())
	}
	return nil
}

// eviction ends the sessions of the owners, once, as soon as there is a place in the queue.
type eviction struct {
	holder  *holder
	session *protocol.Session
	fail    context.CancelCauseFunc // ends the wait
	once    sync.Once
	runs    sync.WaitGroup
}

// evicting prepares that. The result is the context of the wait, which ends with a failure, what to call when
// there is a place, which does not wait, and what to call when the wait has ended, which waits for what was
// begun.
func (h *holder) evicting(
	ctx context.Context,
	s *protocol.Session,
	waiting func(),
) (waits context.Context, placed, ended func()) {
	if h.evict == nil {
		return ctx, waiting, func() {}
	}
	waits, fail := context.WithCancelCause(ctx)
	e := &eviction{holder: h, session: s, fail: fail}
	return waits, func() { waiting(); e.begin(waits) }, e.runs.Wait
}

func (e *eviction) begin(ctx context.Context) {
	e.once.Do(func() {
		e.runs.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, callerTimeout)
			defer cancel()
			if err := e.holder.evict(ctx, e.session); err != nil {
				e.fail(err)
			}
		})
	})
}
