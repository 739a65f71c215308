package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/conformance/testlog"
	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/adminpb"
)

// cluster is three servers in this process, talking over loopback.
type cluster struct {
	begin   starter
	configs []server.Config
	servers []*server.Server
	first   int // the server that scripts talk to
}

// starter starts a server: server.Start, or standin.Slow where the scripts are not about time.
type starter func(context.Context, server.Config) (*server.Server, error)

func startCluster(t *testing.T, begin starter) *cluster {
	t.Helper()
	c := newCluster(t, begin)
	c.run(t)
	return c
}

// newCluster starts nobody yet.
func newCluster(t *testing.T, begin starter) *cluster {
	t.Helper()
	const size = 3
	c := &cluster{begin: begin}
	addresses := testserver.Addresses(t, 2*size)
	initial := make(map[string]string)
	for i := range size {
		initial[memberName(i)] = addresses[i]
	}
	dir, logger := t.TempDir(), testlog.New(t)
	for i := range size {
		c.configs = append(c.configs, server.Config{Listen: addresses[size+i], Database: "/local",
			DataDir: filepath.Join(dir, memberName(i)), LoopbackAdmin: true,
			HoldStartFailureMillis: new(uint64(0)), Logger: logger.With("server", memberName(i)),
			Cluster: raftstore.Cluster{Name: memberName(i), ListenPeer: addresses[i], Initial: initial}})
	}
	return c
}

// run starts the servers, and stops them when the test ends.
func (c *cluster) run(t *testing.T) {
	t.Helper()
	if err := c.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	// which come once every server knows that the others can read them
	if err := c.awaitLimits(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// awaitLimits waits until each server has applied the limits of the cluster.
func (c *cluster) awaitLimits(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return c.each(func(i int) error {
		conn, err := grpc.NewClient(c.configs[i].Listen,
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer conn.Close()
		for {
			now, err := adminpb.NewClusterClient(conn).Limits(ctx, &adminpb.LimitsRequest{})
			if err != nil || now.GetStateLimitBytes() != 0 {
				return err
			}
			time.Sleep(time.Millisecond)
		}
	})
}

func memberName(i int) string { return fmt.Sprint("server-", i) }

// start starts all servers; each returns once there is a leader.
func (c *cluster) start(ctx context.Context) error {
	c.servers = make([]*server.Server, len(c.configs))
	return c.each(func(i int) (err error) {
		c.servers[i], err = c.begin(ctx, c.configs[i])
		return err
	})
}

// stop stops all servers.
func (c *cluster) stop(ctx context.Context) error {
	return c.each(func(i int) error {
		if c.servers[i] == nil {
			return nil
		}
		return stop(ctx, c.servers[i])
	})
}

// each does something with all servers at once.
func (c *cluster) each(do func(i int) error) error {
	errs := make(chan error, len(c.configs))
	for i := range c.configs {
		go func() { errs <- do(i) }()
	}
	var all error
	for range c.configs {
		all = errors.Join(all, <-errs)
	}
	return all
}

// restart restarts all servers and returns the address of one that does not lead. The server that scripts
// talk to stops first: once it has lost the majority it would have to end its streams silently.
func (c *cluster) restart(ctx context.Context) (string, error) {
	if err := cmp.Or(stop(ctx, c.servers[c.first]), c.stop(ctx)); err != nil {
		return "", err
	}
	if err := c.start(ctx); err != nil {
		return "", err
	}
	var err error
	if c.first, err = c.follower(ctx); err != nil {
		return "", err
	}
	return c.configs[c.first].Listen, nil
}

// leader waits until a server leads and returns its number.
func (c *cluster) leader(ctx context.Context) (int, error) {
	for {
		if at := slices.IndexFunc(c.servers, (*server.Server).Leads); at >= 0 {
			return at, nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("no leader: %w", ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// follower is a server that does not lead.
func (c *cluster) follower(ctx context.Context) (int, error) {
	leader, err := c.leader(ctx)
	return (leader + 1) % len(c.servers), err
}

// handOver has another server lead and returns once it does. A transfer that fails because the leadership has
// moved is tried again.
func (c *cluster) handOver(ctx context.Context, to int) error {
	for {
		from, err := c.leader(ctx)
		if err != nil || from == to {
			return err
		}
		err = c.transfer(ctx, from, to)
		if code := status.Code(err); err != nil && code != codes.Unavailable {
			return err
		}
	}
}

// transfer asks a server to have another one lead.
func (c *cluster) transfer(ctx context.Context, at, to int) error {
	conn, err := grpc.NewClient(c.configs[at].Listen,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = adminpb.NewClusterClient(conn).TransferLeader(ctx,
		&adminpb.TransferLeaderRequest{To: memberName(to)})
	return err
}
