// Package client provides the clients of a simulation. They have real gRPC connections and sessions, know no more than
// the client of an SDK does, and record all that they send and receive.
package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/coordd/coordd/conformance/sim/check"
	"github.com/coordd/coordd/conformance/sim/plan"
	"github.com/coordd/coordd/conformance/sim/trace"
)

// World is the environment of clients.
type World interface {
	Servers() int
	// Dial connects a host to a server's address for clients.
	Dial(ctx context.Context, from string, server int) (net.Conn, error)
	// Shared returns the connection to a server that clients share.
	Shared(server int) (*grpc.ClientConn, error)
	// Bounded reports whether the state has a limit, so that servers may refuse what needs room.
	Bounded() bool
	Trace() *trace.Trace
	History() *check.History
	// Violation reports that a server broke a promise.
	Violation(format string, args ...any)
	// Granted takes units that a node's rate limiter has granted.
	Granted(node int, units uint64)
}

// Client is one client of a plan.
type Client struct {
	world  World
	number int
	plan   plan.Client
	node   plan.Node
	chance *rand.Rand
	steps  atomic.Int64
	idle   atomic.Bool
	over   chan struct{}

	// What follows belongs to the goroutine of Run.

	made    bool   // its node exists
	session uint64 // 0: none
	timeout time.Duration
	seqNo   uint64
	request uint64 // id of the last one
	own     counter
	thefts  int
	nodes   int               // that it has made, if it is a caller
	held    map[string]uint64 // tokens that the session has by the last answer
}

// New returns a client that does nothing yet.
func New(number int, p plan.Client, node plan.Node, chance *rand.Rand, w World) *Client {
	return &Client{world: w, number: number, plan: p, node: node, chance: chance, over: make(chan struct{}),
		timeout: p.Timeout.Std(), held: map[string]uint64{}}
}

// Number returns the client's index in its plan.
func (c *Client) Number() int { return c.number }

// Host returns the host that the client's connections come from.
func (c *Client) Host() string { return fmt.Sprintf("10.0.1.%d", c.number+1) }

// Steps returns how often the client has got what it wanted.
func (c *Client) Steps() int { return int(c.steps.Load()) }

// Idle reports whether the client wants nothing more.
func (c *Client) Idle() bool { return c.idle.Load() }

// Wait waits until Run has ended.
func (c *Client) Wait() { <-c.over }

// Run works until ctx ends, on one server after the other.
func (c *Client) Run(ctx context.Context) {
	defer close(c.over)
	for server := c.plan.Server; ctx.Err() == nil; server = c.chance.IntN(c.world.Servers()) {
		err := c.visit(ctx, server)
		c.world.Trace().Note("client %d leaves server %d: %v", c.number, server, err)
		if c.world.Bounded() && errors.Is(err, errNoRoom) { // that is an answer, too
			c.steps.Add(1)
		}
		pause(ctx, time.Duration(c.chance.IntN(200))*time.Millisecond)
	}
}

// pause sleeps, no longer than ctx lasts.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// think is the pause between two steps.
func (c *Client) think(ctx context.Context) {
	pause(ctx, time.Duration(c.chance.ExpFloat64()*float64(c.plan.Think)))
}

const (
	connectPatience = 3 * time.Second // from the dial to the open stream
	answerPatience  = 8 * time.Second // for the answer to a request, beyond the time that the request waits by itself
)

func (c *Client) path() string { return fmt.Sprintf("/local/n%d", c.plan.Node) }

// Connect returns a connection of a host to a server. It notices a dead one, as those of SDKs do.
func Connect(w World, host string, server int) (*grpc.ClientConn, error) {
	return grpc.NewClient(fmt.Sprintf("passthrough:///server-%d", server),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return w.Dial(ctx, host, server)
		}))
}

// visit works on one server until something fails.
func (c *Client) visit(ctx context.Context, server int) error {
	conn, err := c.connect(server)
	if err != nil {
		return err
	}
	if !c.plan.Shared {
		defer conn.Close()
	}
	if err := c.makeNode(ctx, conn); err != nil {
		return err
	}
	switch c.plan.Kind {
	case plan.Limited:
		return c.limited(ctx, conn)
	case plan.Caller:
		return c.caller(ctx, conn)
	}
	s, err := c.attach(ctx, conn, server)
	if err != nil {
		return err
	}
	defer func() { _ = s.leave() }() // the end of the stream is in the history
	return c.work(ctx, s)
}

func (c *Client) connect(server int) (*grpc.ClientConn, error) {
	if c.plan.Shared {
		return c.world.Shared(server)
	}
	return Connect(c.world, c.Host(), server)
}

// makeNode makes the coordination node, unless that is known to be there.
func (c *Client) makeNode(ctx context.Context, conn *grpc.ClientConn) error {
	if c.made {
		return nil
	}
	mode := func(strict bool) Ydb_Coordination.ConsistencyMode {
		if strict {
			return Ydb_Coordination.ConsistencyMode_CONSISTENCY_MODE_STRICT
		}
		return Ydb_Coordination.ConsistencyMode_CONSISTENCY_MODE_RELAXED
	}
	config := &Ydb_Coordination.Config{
		SelfCheckPeriodMillis:    uint32(c.node.SelfCheck.Std().Milliseconds()),
		SessionGracePeriodMillis: uint32(c.node.Grace.Std().Milliseconds()),
		ReadConsistencyMode:      mode(c.node.StrictReads),
		AttachConsistencyMode:    mode(!c.node.RelaxedAttach),
	}
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	err := operate(ctx, Ydb.StatusIds_ALREADY_EXISTS, func(ctx context.Context) (operated, error) {
		return Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(ctx,
			&Ydb_Coordination.CreateNodeRequest{Path: c.path(), Config: config})
	})
	c.made = err == nil
	return err
}

// lose forgets the session, which is over or not wanted any more.
func (c *Client) lose() {
	clear(c.held)
	c.session = 0
}

var (
	errMoved  = errors.New("the session is attached elsewhere")
	errNoRoom = errors.New("there is no room")
)
