package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/client"
	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
)

const electText = `Be elected, and lead until this program is told to stop, or while a command runs: then it
is 'coordd lock' with data, and has its exit codes. Without a command a line says that it
leads, and it ends with code 123 when it does no longer. With --observe it does not stand
for election and shows who leads, whenever that is somebody else.`

// electFlags are the flags of `coordd elect`.
type electFlags struct {
	callerFlags
	holdFlags
	outputFlag
	observe bool
	changes changesFlag
}

// optionalCommand takes a node and a name, and a command behind two dashes or none.
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

func electCommand(env *cmdline.Env) *cobra.Command {
	f := new(electFlags)
	command := &cobra.Command{
		Use:   "elect NODE NAME [flags] [-- COMMAND [ARGUMENT...]]",
		Short: "Be elected, or see who is",
		Long:  "Be elected, or see who is.\n\n" + electText + "\n\n" + callerText,
		Example: `  coordd elect app leader --data "$HOSTNAME" -- echo "I lead"
  coordd elect app leader --observe --changes 1`,
		Annotations: map[string]string{runs: runsSome},
		Args:        optionalCommand,
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		flags := command.Flags()
		switch {
		case f.observe && len(args) > 2:
			return exit.Usagef("flag --observe: whoever observes does not lead, so there is no command to run")
		case f.observe:
			if err := cmp.Or(f.outputFlag.check(), f.changes.check(flags)); err != nil {
				return err
			}
			return followLeader(env, f, args[0], args[1])
		case flags.Changed("changes") || flags.Changed("output"):
			return exit.Usagef("flags --changes and --output: have no meaning without --observe")
		}
		if err := f.holdFlags.check(); err != nil {
			return err
		}
		if !flags.Changed("timeout") {
			f.wait = client.Forever
		}
		f.keepStdin = len(args) > 2
		h := &holder{env: env, flags: &f.holdFlags, name: args[1], argv: args[2:], verb: "elect",
			holds: "leads"}
		h.amount = func(d *client.Description) (uint64, error) { return new(lockFlags).amount(args[1], d) }
		return h.hold(&f.callerFlags, args[0])
	}
	flags := command.Flags()
	f.declareCaller(env, command)
	f.declareHold(flags)
	f.declareOutput(command)
	flags.BoolVar(&f.observe, "observe", false, "show who leads, again whenever it is another one")
	f.changes.declare(flags, "with --observe: ")
	return command
}

// leaderShown is who leads at a time.
type leaderShown struct {
	Time    string  `json:"time"` // by this machine's clock
	Session *uint64 `json:"session"`
	OrderID *uint64 `json:"order_id"`
	bytesShown
}

func followLeader(env *cmdline.Env, f *electFlags, node, name string) error {
	return watching(env, &f.callerFlags, func(ctx context.Context, c *caller) error {
		return c.watch(ctx, node, name, "elect", client.Wanted{Owners: true, WatchOwners: true}, f.changes,
			func(d *client.Description) error {
				shown, line := &leaderShown{Time: time.Now().UTC().Format(time.RFC3339Nano)}, "nobody leads"
				if owners := d.GetOwners(); len(owners) > 0 {
					session, order := owners[0].GetSessionId(), owners[0].GetOrderId()
					shown.Session, shown.OrderID, shown.bytesShown = &session, &order,
						showBytes(owners[0].GetData())
					line = fmt.Sprintf("session %d leads, token %d, data %s", session, order,
						dataText(owners[0].GetData()))
				}
				return showNext(env, &f.outputFlag, shown, shown.Time+" "+line)
			})
	})
}

const discoverText = `A service is a semaphore; whoever offers it holds one of it, with his address as data.
Without a flag those who offer it now are listed. With --publish this program offers it
until it is told to stop, or while a command runs, with the exit codes of 'coordd lock'.
With --watch the list is shown again whenever it is another one.`

// discoverFlags are the flags of `coordd discover`.
type discoverFlags struct {
	callerFlags
	outputFlag
	publish        string
	sessionTimeout time.Duration
	watch          bool
	changes        changesFlag
}

func discoverCommand(env *cmdline.Env) *cobra.Command {
	f := new(discoverFlags)
	command := &cobra.Command{
		Use:   "discover NODE NAME [flags] [-- COMMAND [ARGUMENT...]]",
		Short: "Find the instances of a service, or offer one",
		Long:  "Find the instances of a service, or offer one.\n\n" + discoverText + "\n\n" + callerText,
		Example: `  coordd discover app web --publish 10.0.0.7:8080 -- coordd discover app web
  coordd discover app web -o json
  coordd discover app web --watch --changes 1`,
		Annotations: map[string]string{runs: runsSome},
		Args:        optionalCommand,
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		flags := command.Flags()
		publishes := flags.Changed("publish")
		switch {
		case publishes && (f.watch || flags.Changed("output")):
			return exit.Usagef("flag --publish: goes neither with --watch nor with --output")
		case !publishes && len(args) > 2:
			return exit.Usagef("a command is run only with --publish")
		case !f.watch && flags.Changed("changes"):
			return exit.Usagef("flag --changes: has no meaning without --watch")
		}
		if !publishes {
			if err := cmp.Or(f.outputFlag.check(), f.changes.check(flags)); err != nil {
				return err
			}
			if !f.watch {
				f.changes.most = 1
			}
			return followOffers(env, f, args[0], args[1])
		}
		if err := checkData("flag --publish", len(f.publish)); err != nil {
			return err
		}
		if err := checkSessionTimeout(f.sessionTimeout); err != nil {
			return err
		}
		f.keepStdin = len(args) > 2
		hold := &holdFlags{wait: client.Forever, data: f.publish, sessionTimeout: f.sessionTimeout,
			conflictCode: uint8(exit.Conflict)}
		h := &holder{env: env, flags: hold, name: args[1], argv: args[2:], verb: "discover",
			holds: "offers"}
		h.amount = func(*client.Description) (uint64, error) { return 1, nil }
		return h.hold(&f.callerFlags, args[0])
	}
	flags := command.Flags()
	f.declareCaller(env, command)
	f.declareOutput(command)
	flags.StringVar(&f.publish, "publish", "", "offer the service at this address, up to 1048576 bytes")
	flags.DurationVar(&f.sessionTimeout, "session-timeout", sessionTimeoutDefault,
		"how long it stays listed when nothing is heard of this program, 3s to 30m")
	flags.BoolVar(&f.watch, "watch", false, "show the list again whenever it is another one")
	f.changes.declare(flags, "with --watch: ")
	return command
}

// offerShown is one who offers a service.
type offerShown struct {
	Session uint64 `json:"session"`
	OrderID uint64 `json:"order_id"`
	bytesShown
}

// offersShown are all, at a time.
type offersShown struct {
	Time   string       `json:"time"` // by this machine's clock
	Offers []offerShown `json:"offers"`
}

func followOffers(env *cmdline.Env, f *discoverFlags, node, name string) error {
	return watching(env, &f.callerFlags, func(ctx context.Context, c *caller) error {
		return c.watch(ctx, node, name, "discover", client.Wanted{Owners: true, WatchOwners: true}, f.changes,
			func(d *client.Description) error {
				shown, line := &offersShown{time.Now().UTC().Format(time.RFC3339Nano), []offerShown{}}, ""
				for _, owner := range d.GetOwners() {
					shown.Offers = append(shown.Offers,
						offerShown{owner.GetSessionId(), owner.GetOrderId(), showBytes(owner.GetData())})
					line += fmt.Sprintf("\n  %s, session %d", dataText(owner.GetData()), owner.GetSessionId())
				}
				return showNext(env, &f.outputFlag, shown,
					fmt.Sprintf("%s %s by %s%s", shown.Time, name, counted(len(shown.Offers), "session"),
						line))
			})
	})
}

// limitOfConfigs is that of the semaphores which `coordd config set` makes: nobody is kept from holding them.
const limitOfConfigs = math.MaxUint64
