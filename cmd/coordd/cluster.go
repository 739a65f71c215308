package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/internal/serve"
	"github.com/coordd/coordd/internal/tty"
	"github.com/coordd/coordd/server/adminpb"
)

// clusterLongTimeout bounds what depends on the size of the data, unless --timeout says otherwise.
const clusterLongTimeout = time.Hour

const clusterText = `Any server of the cluster can be asked: it passes changes on to the leader. A server
is named by its name or by its id. Administrators may do this, and whoever owns the data
directory of a server on this machine, by way of the socket in it. docs/cluster.md has
the procedures.`

func clusterCommand(env *cmdline.Env) *cobra.Command {
	parent := &cobra.Command{
		Use:   "cluster",
		Short: "Inspect and change the servers of a cluster, back up and restore",
		Long: "Inspect and change the servers of a cluster, create and restore backups.\n\n" +
			clusterText,
		RunE: cmdline.WantsCommand,
	}
	parent.AddCommand(clusterStatusCommand(env), clusterAddCommand(env), clusterPromoteCommand(env),
		clusterRemoveCommand(env), clusterTransferCommand(env), clusterLimitsCommand(env),
		clusterSnapshotCommand(env), clusterRestoreCommand(env), clusterRecoverCommand(env))
	return parent
}

// cluster calls the cluster's service.
func (c *caller) cluster(ctx context.Context, method string, request, response proto.Message) error {
	return c.clusterError(c.Invoke(ctx, method, request, response))
}

// clusterStatus asks for the status of the cluster.
func (c *caller) clusterStatus(ctx context.Context) (*adminpb.ClusterStatus, error) {
	now := new(adminpb.ClusterStatus)
	return now, c.cluster(ctx, adminpb.Cluster_Status_FullMethodName, &adminpb.ClusterStatusRequest{}, now)
}

// clusterError is an error of the cluster's service for a person.
func (c *caller) clusterError(err error) error {
	switch s, _ := status.FromError(err); s.Code() {
	case codes.OK:
		return nil
	case codes.DeadlineExceeded:
		if strings.HasPrefix(s.Message(), "Cannot ") {
			return plain(err)
		}
		return errors.New("no answer in time; what was asked for may still happen, `coordd cluster status` tells")
	case codes.Unimplemented:
		return errors.New("the server has no service for clusters: is it a coordd of this version?")
	}
	return c.plain(err)
}

func clusterAddCommand(env *cmdline.Env) *cobra.Command {
	return askCommand(env, &question{use: "add NAME PEER-HOST:PORT", about: clusterText,
		short:   "Add a server: it gets all data and has no vote until it is promoted",
		example: "  coordd cluster add d d.example.com:2380",
		check: func(_ *pflag.FlagSet, args []string) error {
			if err := new(serve.MemberName).UnmarshalText([]byte(args[0])); err != nil {
				return exit.Usagef("argument NAME: value %q is not allowed: %w", args[0], err)
			}
			if err := new(serve.PeerAddress).UnmarshalText([]byte(args[1])); err != nil {
				return exit.Usagef("argument PEER-HOST:PORT: value %q is not allowed: %w", args[1], err)
			}
			return nil
		},
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			name, address := args[0], args[1]
			added := new(adminpb.AddMemberResponse)
			if err := c.cluster(ctx, adminpb.Cluster_Add_FullMethodName,
				&adminpb.AddMemberRequest{Name: name, PeerAddress: address}, added); err != nil {
				return "", err
			}
			now, err := c.clusterStatus(ctx)
			return fmt.Sprintf(
				"%s was added with id %s. Start it with an empty data directory and what the others have, and\n"+
					"  coordd serve --name %s --listen-peer %s --join %s\nthen give it a vote:\n"+
					"  coordd cluster promote %s --wait",
				name, cmdline.OneLine(added.GetId()),
				name, address, cmdline.OneLine(joinList(now, added.GetId())), name), err
		}}, nil)
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

func clusterPromoteCommand(env *cmdline.Env) *cobra.Command {
	var wait bool
	q := &question{use: "promote NAME", short: "Give a server that was added its vote", about: clusterText,
		example: "  coordd cluster promote d --wait",
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			looking, end := context.WithCancel(ctx)
			var look sync.WaitGroup
			if wait && tty.Of(cmdline.FileOf(env.Stderr)) != nil {
				look.Go(func() { c.showCopying(looking, args[0], progressOf(env)) })
			}
			err := c.cluster(ctx, adminpb.Cluster_Promote_FullMethodName,
				&adminpb.PromoteMemberRequest{Member: args[0], Wait: wait}, new(adminpb.PromoteMemberResponse))
			end()
			look.Wait()
			return args[0] + " has a vote now", err
		}}
	q.check = func(flags *pflag.FlagSet, _ []string) error {
		if wait && !flags.Changed("timeout") {
			q.late = clusterLongTimeout
		}
		return nil
	}
	command := askCommand(env, q, nil)
	command.Flags().BoolVar(&wait, "wait", false,
		"wait until it has got all data (--timeout bounds it, 1h by default then)")
	return command
}

// showCopying shows how much of the log a server has, until ctx ends.
func (c *caller) showCopying(ctx context.Context, name string, progress *tty.Progress) {
	defer progress.End()
	for ctx.Err() == nil {
		if now, err := c.clusterStatus(ctx); err == nil && now.GetLeaderAnswered() {
			for _, m := range now.GetMembers() {
				if m.GetName() == name || m.GetId() == name {
					progress.Show("copying the log to "+name, "entries", m.GetMatch(), m.GetMatch()+m.GetLag())
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func clusterRemoveCommand(env *cmdline.Env) *cobra.Command {
	return askCommand(env, &question{use: "remove NAME", short: "Remove a server permanently; if it runs, it exits",
		about: clusterText, example: "  coordd cluster add e e.example.com:2380 && coordd cluster remove e",
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			return args[0] + " was removed; its data directory can be deleted",
				c.cluster(ctx, adminpb.Cluster_Remove_FullMethodName, &adminpb.RemoveMemberRequest{Member: args[0]},
					new(adminpb.RemoveMemberResponse))
		}}, nil)
}

func clusterTransferCommand(env *cmdline.Env) *cobra.Command {
	return askCommand(env, &question{use: "transfer-leader [NAME]", about: clusterText,
		short:   "Hand the leadership to NAME, or to the server with the most complete log",
		example: "  coordd cluster transfer-leader\n  coordd cluster transfer-leader a",
		act: func(ctx context.Context, c *caller, args []string) (string, error) {
			request, led := new(adminpb.TransferLeaderRequest), new(adminpb.TransferLeaderResponse)
			if len(args) == 1 {
				request.To = args[0]
			}
			if err := c.cluster(ctx, adminpb.Cluster_TransferLeader_FullMethodName, request, led); err != nil {
				return "", err
			}
			name := led.GetLeader()
			if now, err := c.clusterStatus(ctx); err == nil {
				name = memberName(now, name)
			}
			return cmdline.OneLine(name) + " leads", nil
		}}, nil)
}
