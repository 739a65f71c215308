package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/server/adminpb"
)

const (
	// clusterCallTimeout bounds what a `coordd cluster` command asks of a server, unless --timeout says
	// otherwise.
	clusterCallTimeout = 30 * time.Second
	// clusterLongTimeout is the same for what depends on the size of the data.
	clusterLongTimeout = time.Hour
)

const clusterText = `Any server of the cluster can be asked: it passes changes on to the leader. A server
is named by its name or by its id. Administrators may do this, and whoever owns the data
directory of a server on this machine, by way of the socket in it. docs/cluster.md has
the procedures.`

// clusterExamples are those of the commands by their names.
var clusterExamples = map[string]string{
	"status":          "  coordd cluster status\n  coordd cluster status -o json",
	"add":             "  coordd cluster add d d.example.com:2380",
	"promote":         "  coordd cluster promote d --wait",
	"remove":          "  coordd cluster add e e.example.com:2380 && coordd cluster remove e",
	"transfer-leader": "  coordd cluster transfer-leader\n  coordd cluster transfer-leader a",
	"limits":          "  coordd cluster limits\n  coordd cluster limits --state 512MiB",
	"snapshot":        "  coordd cluster snapshot --to backup",
	"restore": "  coordd cluster restore --from backup --check\n" +
		"  coordd cluster restore --from backup --data-dir restored",
	"recover": "  coordd check --data-dir survivor && coordd cluster recover --data-dir survivor --yes",
}

// clusterFlags are the flags of a `coordd cluster` command that asks a server.
type clusterFlags struct {
	connectionFlags
	timeout time.Duration
	output  *outputFlag // nil: the command prints in one form
	wait    bool
	to      string
}

func (p *program) clusterCommand() *cobra.Command {
	parent := &cobra.Command{
		Use:   "cluster",
		Short: "Look at and change the servers of a cluster, back up and restore",
		Long: "Look at and change the servers of a cluster, make backups and restore them.\n\n" +
			clusterText,
		RunE: cmdline.WantsCommand,
	}
	parent.AddCommand(p.clusterStatusCommand(), p.clusterAddCommand(), p.clusterPromoteCommand(),
		p.clusterRemoveCommand(), p.clusterTransferCommand(), p.clusterLimitsCommand(),
		p.clusterSnapshotCommand(), p.clusterRestoreCommand(), p.clusterRecoverCommand())
	for _, command := range parent.Commands() {
		command.Example = clusterExamples[command.Name()]
	}
	return parent
}

// clusterSubcommand makes a command that asks a server. Its arguments are named in use.
func (p *program) clusterSubcommand(
	use, short string,
	timeout time.Duration,
	run func(ctx context.Context, f *clusterFlags, client *adminClient, args []string) error,
) (*cobra.Command, *clusterFlags) {
	f := &clusterFlags{}
	command := &cobra.Command{Use: use, Short: short, Long: short + ".\n\n" + clusterText,
		Args: argumentsOf(use)}
	command.RunE = func(_ *cobra.Command, args []string) error {
		if f.timeout <= 0 {
			return exit.Usagef("flag --timeout: value %q is not allowed: want a time such as 30s or 10m",
				f.timeout)
		}
		if f.output != nil {
			if err := f.output.check(); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
		defer cancel()
		client, err := f.connect(ctx, &passwordReader{program: p})
		if err != nil {
			return err
		}
		defer client.close()
		return run(ctx, f, client, args)
	}
	f.declareConnection(command.Flags())
	command.Flags().DurationVar(&f.timeout, "timeout", timeout, "how long to wait for the result")
	return command, f
}

// declareOutput lets the command print in each form.
func (f *clusterFlags) declareOutput(command *cobra.Command) {
	f.output = new(outputFlag)
	f.output.declareOutput(command)
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

// cluster calls the cluster's service.
func (c *adminClient) cluster(ctx context.Context, method string, request, response proto.Message) error {
	return c.clusterError(c.conn.Invoke(c.headers(ctx), method, request, response))
}

// clusterError is an error of the cluster's service for a person.
func (c *adminClient) clusterError(err error) error {
	switch s, _ := status.FromError(err); s.Code() {
	case codes.OK:
		return nil
	case codes.DeadlineExceeded:
		if strings.HasPrefix(s.Message(), "Cannot ") {
			return c.plain(err)
		}
		return errors.New("no answer in time; what was asked for may still happen, `coordd cluster status` tells")
	case codes.Unimplemented:
		return errors.New("the server has no service for clusters: is it a coordd of this version?")
	}
	return c.plain(err)
}

func (p *program) clusterAddCommand() *cobra.Command {
	command, _ := p.clusterSubcommand("add NAME PEER-HOST:PORT",
		"Add a server: it gets all data and has no vote until it is promoted", clusterCallTimeout,
		func(ctx context.Context, _ *clusterFlags, client *adminClient, args []string) error {
			name, address := args[0], args[1]
			if err := serve.SetMemberName(&serve.Settings{}, name); err != nil {
				return exit.Usagef("argument NAME: value %q is not allowed: %w", name, err)
			}
			if err := serve.PeerAddress(address); err != nil {
				return exit.Usagef("argument PEER-HOST:PORT: value %q is not allowed: %w", address, err)
			}
			added := new(adminpb.AddMemberResponse)
			if err := client.cluster(ctx, adminpb.Cluster_Add_FullMethodName,
				&adminpb.AddMemberRequest{Name: name, PeerAddress: address}, added); err != nil {
				return err
			}
			now := new(adminpb.ClusterStatus)
			if err := client.cluster(ctx, adminpb.Cluster_Status_FullMethodName,
				&adminpb.ClusterStatusRequest{}, now); err != nil {
				return err
			}
			fmt.Fprintf(p.stdout,
				"%s was added with id %s. Start it with an empty data directory and what the others have, and\n"+
					"  coordd serve --name %s --listen-peer %s --join %s\nthen give it a vote:\n"+
					"  coordd cluster promote %s --wait\n",
				name, cmdline.OneLine(added.GetId()),
				name, address, cmdline.OneLine(joinList(now, added.GetId())), name)
			return nil
		})
	return command
}

// joinList is the peer addresses of all members but the new one.
func joinList(now *adminpb.ClusterStatus, except string) string {
	var addresses []string
	for _, m := range byName(now.GetMembers()) {
		if m.GetId() != except {
			addresses = append(addresses, m.GetPeerAddress())
		}
	}
	return strings.Join(addresses, ",")
}

func (p *program) clusterPromoteCommand() *cobra.Command {
	var command *cobra.Command
	command, f := p.clusterSubcommand("promote NAME", "Give a server that was added its vote",
		clusterCallTimeout,
		func(ctx context.Context, f *clusterFlags, client *adminClient, args []string) error {
			request := &adminpb.PromoteMemberRequest{Member: args[0], Wait: f.wait}
			if err := client.cluster(ctx, adminpb.Cluster_Promote_FullMethodName, request,
				new(adminpb.PromoteMemberResponse)); err != nil {
				return err
			}
			fmt.Fprintf(p.stdout, "%s has a vote now\n", args[0])
			return nil
		})
	command.Flags().BoolVar(&f.wait, "wait", false,
		"wait until it has got all data (--timeout bounds it, 1h by default then)")
	command.PreRun = func(command *cobra.Command, _ []string) {
		if f.wait && !command.Flags().Changed("timeout") {
			f.timeout = clusterLongTimeout
		}
	}
	return command
}

func (p *program) clusterRemoveCommand() *cobra.Command {
	command, _ := p.clusterSubcommand("remove NAME", "Remove a server for ever; if it runs, it ends",
		clusterCallTimeout,
		func(ctx context.Context, _ *clusterFlags, client *adminClient, args []string) error {
			request := &adminpb.RemoveMemberRequest{Member: args[0]}
			if err := client.cluster(ctx, adminpb.Cluster_Remove_FullMethodName, request,
				new(adminpb.RemoveMemberResponse)); err != nil {
				return err
			}
			fmt.Fprintf(p.stdout, "%s was removed; its data directory can be deleted\n", args[0])
			return nil
		})
	return command
}

func (p *program) clusterTransferCommand() *cobra.Command {
	command, _ := p.clusterSubcommand("transfer-leader [NAME]",
		"Have another server lead: NAME, or the one that has most of the log", clusterCallTimeout,
		func(ctx context.Context, _ *clusterFlags, client *adminClient, args []string) error {
			request, led := new(adminpb.TransferLeaderRequest), new(adminpb.TransferLeaderResponse)
			if len(args) == 1 {
				request.To = args[0]
			}
			if err := client.cluster(ctx, adminpb.Cluster_TransferLeader_FullMethodName, request,
				led); err != nil {
				return err
			}
			name := led.GetLeader()
			now := new(adminpb.ClusterStatus)
			if err := client.cluster(ctx, adminpb.Cluster_Status_FullMethodName,
				&adminpb.ClusterStatusRequest{}, now); err == nil {
				name = memberName(now, name)
			}
			return cmdline.PrintLine(p.stdout, "%s leads", name)
		})
	return command
}
