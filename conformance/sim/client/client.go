// Package client provides the clients of a simulation. They have real gRPC connections and sessions, know no more than
// the client of an SDK does, and record all that they send and receive.
package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/conformance/sim/check"
	"github.com/coordd/coordd/conformance/sim/plan"
	"github.com/coordd/coordd/conformance/sim/trace"
)

// World is the environment of clients.
type World interface {
	Servers() int
	// Dial connects a host to a server's address for clients.
	Dial(ctx context.Context, from string, server int) (net.Conn, error)
	Trace() *trace.Trace
	History() *check.History
	// Violation reports that a server broke a promise.
	Violation(format string, args ...any)
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

	beliefs sync.Mutex
	proof   time.Duration // when the session lived for certain
	held    map[string]*check.Tenure
}

// New returns a client that does nothing yet.
func New(number int, p plan.Client, node plan.Node, chance *rand.Rand, w World) *Client {
	return &Client{world: w, number: number, plan: p, node: node, chance: chance, over: make(chan struct{}),
		timeout: p.Timeout.Std(), held: map[string]*check.Tenure{}}
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
		pause(ctx, time.Duration(c.chance.IntN(200))*time.Millisecond)
	}
	c.endTenures()
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

// visit works on one server until something fails.
func (c *Client) visit(ctx context.Context, server int) error {
	conn, err := grpc.NewClient(fmt.Sprintf("passthrough:///server-%d", server),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return c.world.Dial(ctx, c.Host(), server)
		}))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := c.makeNode(ctx, conn); err != nil {
		return err
	}
	if c.plan.Kind == plan.Limited {
		return c.limited(ctx, conn)
	}
	s, err := c.attach(ctx, conn, server)
	if err != nil {
		return err
	}
	defer func() { _ = s.leave() }() // the end of the stream is in the history
	return c.work(ctx, s)
}

// makeNode makes the coordination node, unless that is known to be there.
func (c *Client) makeNode(ctx context.Context, conn *grpc.ClientConn) error {
	if c.made {
		return nil
	}
	config := &Ydb_Coordination.Config{
		SelfCheckPeriodMillis:    uint32(c.node.SelfCheck.Std().Milliseconds()),
		SessionGracePeriodMillis: uint32(c.node.Grace.Std().Milliseconds()),
		ReadConsistencyMode:      Ydb_Coordination.ConsistencyMode_CONSISTENCY_MODE_RELAXED,
		AttachConsistencyMode:    Ydb_Coordination.ConsistencyMode_CONSISTENCY_MODE_STRICT,
	}
	if c.node.StrictReads {
		config.ReadConsistencyMode = Ydb_Coordination.ConsistencyMode_CONSISTENCY_MODE_STRICT
	}
	if c.node.RelaxedAttach {
		config.AttachConsistencyMode = Ydb_Coordination.ConsistencyMode_CONSISTENCY_MODE_RELAXED
	}
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	r, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(ctx,
		&Ydb_Coordination.CreateNodeRequest{Path: c.path(), Config: config})
	if err != nil {
		return err
	}
	switch status := r.GetOperation().GetStatus(); status {
	case Ydb.StatusIds_SUCCESS, Ydb.StatusIds_ALREADY_EXISTS:
		c.made = true
		return nil
	default:
		return fmt.Errorf("create the node: %v %v", status, r.GetOperation().GetIssues())
	}
}

// trusted is the part of a session's timeout after a proof during which it certainly lives, in percent: clocks of
// servers may be fast by 5 %.
const trusted = 94

func (c *Client) now() time.Duration { return c.world.Trace().Now() }

// believes returns until when the session lives for certain.
func (c *Client) believes() time.Duration { return c.proof + c.timeout*trusted/100 }

// prove takes the proof that the session lived at a moment. If it came too late, the client has believed nothing for a
// while.
func (c *Client) prove(at time.Duration) {
	c.beliefs.Lock()
	defer c.beliefs.Unlock()
	if at <= c.proof {
		return
	}
	now, until := c.now(), c.believes()
	if until < now {
		for _, name := range slices.Sorted(maps.Keys(c.held)) {
			t := c.held[name]
			c.believed(t, until)
			t.From = now
		}
	}
	c.proof = at
}

// believed writes down that the client knew that it held tokens, until a moment.
func (c *Client) believed(t *check.Tenure, until time.Duration) {
	done := *t
	done.Until = min(until, c.believes())
	if done.From < done.Until {
		c.world.History().Add(c.now(), &check.Believes{Client: c.number, Tenure: done})
	}
}

// holds takes that the session has tokens of a semaphore.
func (c *Client) holds(name string, count uint64) {
	c.drops(name)
	c.beliefs.Lock()
	defer c.beliefs.Unlock()
	c.held[name] = &check.Tenure{Name: name, Session: c.session, Count: count, From: c.now()}
}

// drops takes that the session may have no tokens of a semaphore from now on.
func (c *Client) drops(name string) {
	c.beliefs.Lock()
	defer c.beliefs.Unlock()
	c.drop(name)
}

// drop is drops with the lock held.
func (c *Client) drop(name string) {
	if t := c.held[name]; t != nil {
		c.believed(t, c.now())
		delete(c.held, name)
	}
}

// endTenures takes that the session may be over.
func (c *Client) endTenures() {
	c.beliefs.Lock()
	defer c.beliefs.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.held)) {
		c.drop(name)
	}
}

// holding returns how many tokens of a semaphore the client knows to have.
func (c *Client) holding(name string) uint64 {
	c.beliefs.Lock()
	defer c.beliefs.Unlock()
	if t := c.held[name]; t != nil {
		return t.Count
	}
	return 0
}

// lose forgets the session, which is over or not wanted any more.
func (c *Client) lose() {
	c.endTenures()
	c.session = 0
	c.beliefs.Lock()
	defer c.beliefs.Unlock()
	c.proof = 0
}

var errMoved = errors.New("the session is attached elsewhere")
