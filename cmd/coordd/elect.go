package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/protocol"
)

// idiom is a command that holds or follows the semaphore NAME and may run another command meanwhile.
type idiom struct {
	callerFlags
	outputFlag
	changesFlag
	holdFlags
	command *cobra.Command
}

func newIdiom(env *cmdline.Env, name, short, text, example string) *idiom {
	i := &idiom{command: &cobra.Command{Use: name + " NODE NAME [flags] [-- COMMAND [ARGUMENT...]]", Short: short,
		Long: short + ".\n\n" + text + "\n\n" + callerText, Example: example,
		Annotations: map[string]string{runs: runsSome}, Args: optionalCommand}}
	i.declareCaller(env, i.command)
	i.declareOutput(i.command)
	return i
}

// optionalCommand takes a node and a name, and a command after two dashes or none.
func optionalCommand(command *cobra.Command, args []string) error {
	if command.ArgsLenAtDash() < 0 {
		if len(args) != 2 {
			return exit.Usagef("%s takes NODE NAME, and a command only behind --; %s given",
				command.CommandPath(), counted(len(args), "argument"))
		}
		return nil
	}
	return commandArguments(2, "NODE NAME")(command, args)
}

// checkFollow checks the flags of follow.
func (i *idiom) checkFollow() error {
	return cmp.Or(i.outputFlag.check(), i.changesFlag.check(i.command.Flags()))
}

// follow shows the semaphore, and again at each change, until it is interrupted or the flags say that it is enough.
func (i *idiom) follow(env *cmdline.Env, args []string, wanted protocol.Wanted,
	show func(c *caller, d *protocol.Description, now string) (value any, line string)) error {
	return watching(env, &i.callerFlags, func(ctx context.Context, c *caller) error {
		verb := strings.TrimPrefix(i.command.CommandPath(), "coordd ")
		return c.watch(ctx, args[0], args[1], verb, wanted, i.changesFlag, func(d *protocol.Description) error {
			now := time.Now().UTC().Format(time.RFC3339Nano)
			value, line := show(c, d, now)
			return showNext(env, &i.outputFlag, value, now+" "+line)
		})
	})
}

// keep holds the semaphore until it is interrupted, or while a command runs.
func (i *idiom) keep(env *cmdline.Env, args []string, holds string, amount amountFunc) error {
	if err := i.holdFlags.check(); err != nil {
		return err
	}
	i.keepStdin = len(args) > 2
	h := &holder{env: env, flags: &i.holdFlags, name: args[1], argv: args[2:], verb: i.command.Name(), holds: holds,
		amount: amount}
	return h.hold(&i.callerFlags, args[0])
}

const electText = `Be elected, and lead until this program is told to stop, or while a command runs: then it
is 'coordd lock' with data, and has its exit codes. Without a command a line says that it
leads, and it ends with code 123 when it does no longer. With --observe it does not stand
for election and shows who leads, whenever that is somebody else.`

func electCommand(env *cmdline.Env) *cobra.Command {
	observe := false
	i := newIdiom(env, "elect", "Take part in an election, or show the leader", electText,
		`  coordd elect app leader --data "$HOSTNAME" -- echo "I lead"
  coordd elect app leader --observe --changes 1`)
	i.command.RunE = func(command *cobra.Command, args []string) error {
		flags := command.Flags()
		switch {
		case observe && len(args) > 2:
			return exit.Usagef("flag --observe: whoever observes does not lead, so there is no command to run")
		case observe:
			if err := i.checkFollow(); err != nil {
				return err
			}
			return i.follow(env, args, protocol.Wanted{Owners: true, WatchOwners: true}, showLeader)
		case flags.Changed("changes") || flags.Changed("output"):
			return exit.Usagef("flags --changes and --output: have no meaning without --observe")
		}
		return i.keep(env, args, "leads", allOf(args[1]))
	}
	flags := i.command.Flags()
	i.declareHold(flags)
	flags.BoolVar(&observe, "observe", false, "show who leads, again whenever it is another one")
	i.changesFlag.declare(flags, "with --observe: ")
	return i.command
}

// leaderShown is an observed leader, as the output has it.
type leaderShown struct {
	Time    string  `json:"time"` // by this machine's clock
	Session *uint64 `json:"session"`
	OrderID *uint64 `json:"order_id"`
	bytesShown
}

func showLeader(_ *caller, d *protocol.Description, now string) (any, string) {
	owners := d.GetOwners()
	if len(owners) == 0 {
		return &leaderShown{Time: now}, "nobody leads"
	}
	session, order, data := owners[0].GetSessionId(), owners[0].GetOrderId(), owners[0].GetData()
	return &leaderShown{now, &session, &order, showBytes(data)},
		fmt.Sprintf("session %d leads, token %d, data %s", session, order, dataText(data))
}

const discoverText = `A service is a semaphore; whoever offers it holds one of it, with his address as data.
Without a flag those who offer it now are listed. With --publish this program offers it
until it is told to stop, or while a command runs, with the exit codes of 'coordd lock'.
With --watch the list is shown again whenever it is another one.`

func discoverCommand(env *cmdline.Env) *cobra.Command {
	watch := false
	i := newIdiom(env, "discover", "Find the instances of a service, or offer one", discoverText,
		`  coordd discover app web --publish 10.0.0.7:8080 -- coordd discover app web
  coordd discover app web -o json
  coordd discover app web --watch --changes 1`)
	i.command.RunE = func(command *cobra.Command, args []string) error {
		flags := command.Flags()
		publishes := flags.Changed("publish")
		switch {
		case publishes && (watch || flags.Changed("output")):
			return exit.Usagef("flag --publish: goes neither with --watch nor with --output")
		case !publishes && len(args) > 2:
			return exit.Usagef("a command is run only with --publish")
		case !watch && flags.Changed("changes"):
			return exit.Usagef("flag --changes: has no meaning without --watch")
		case publishes:
			if err := checkData("flag --publish", len(i.data)); err != nil {
				return err
			}
			return i.keep(env, args, "offers", func(*protocol.Description) (uint64, error) { return 1, nil })
		}
		if err := i.checkFollow(); err != nil {
			return err
		}
		if !watch {
			i.most = 1
		}
		return i.follow(env, args, protocol.Wanted{Owners: true, WatchOwners: true},
			func(_ *caller, d *protocol.Description, now string) (any, string) { return showOffers(args[1], d, now) })
	}
	flags := i.command.Flags()
	i.wait, i.conflictCode = protocol.Forever, uint8(exit.Conflict)
	flags.StringVar(&i.data, "publish", "", "offer the service at this address, up to 1048576 bytes")
	flags.DurationVar(&i.sessionTimeout, "session-timeout", sessionTimeoutDefault,
		"how long it stays listed when nothing is heard of this program, 3s to 30m")
	flags.BoolVar(&watch, "watch", false, "show the list again whenever it is another one")
	i.changesFlag.declare(flags, "with --watch: ")
	return i.command
}

// offerShown is an instance of a service.
type offerShown struct {
	Session uint64 `json:"session"`
	OrderID uint64 `json:"order_id"`
	bytesShown
}

// offersShown are all instances, at a time.
type offersShown struct {
	Time   string       `json:"time"` // by this machine's clock
	Offers []offerShown `json:"offers"`
}

func showOffers(name string, d *protocol.Description, now string) (any, string) {
	shown, lines := &offersShown{now, []offerShown{}}, ""
	for _, owner := range d.GetOwners() {
		shown.Offers = append(shown.Offers,
			offerShown{owner.GetSessionId(), owner.GetOrderId(), showBytes(owner.GetData())})
		lines += fmt.Sprintf("\n  %s, session %d", dataText(owner.GetData()), owner.GetSessionId())
	}
	return shown, fmt.Sprintf("%s by %s%s", name, counted(len(shown.Offers), "session"), lines)
}
