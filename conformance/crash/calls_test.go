//go:build linux

package crash

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/conformance/raw"
)

// callPatience is more than a server waits for a leader.
const callPatience = 15 * time.Second

// callPause is such that whoever waits for every client to go on waits for callers no longer than for the
// others.
var callPause = inLongForm(30*time.Millisecond, 150*time.Millisecond)

// caller makes and drops coordination nodes through one server. It knows what each call must answer if it is
// executed once: a second create says that the node was there, a second drop that it was not.
type caller struct {
	server     int
	conns      []*grpc.ClientConn
	nodes      Ydb_Coordination_V1.CoordinationServiceClient
	violations *violations
	fallible   *serverSet
	gate       *sync.RWMutex

	number int  // of the node
	exists bool // the node
	calls  atomic.Int64
}

func newCaller(x *exercise, server int) (*caller, error) {
	conns, err := raw.Dial(x.listen[server], 1)
	if err != nil {
		return nil, err
	}
	return &caller{server: server, conns: conns,
		nodes: Ydb_Coordination_V1.NewCoordinationServiceClient(conns[0]), violations: &x.violations,
		fallible: &x.fallible, gate: &x.gate}, nil
}

// run calls until ctx is done.
func (c *caller) run(ctx context.Context) {
	defer raw.Close(c.conns)
	pause := time.NewTicker(callPause)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		c.gate.RLock()
		c.turn(ctx)
		c.gate.RUnlock()
	}
}

func (c *caller) turn(ctx context.Context) {
	if err := c.call(ctx); err != nil {
		if ctx.Err() == nil && !c.fallible.has(c.server) {
			c.violations.add("call %d through server %d: %v", c.calls.Load(), c.server, err)
		}
		c.number, c.exists = c.number+1, false // nobody knows what became of the old one, or will
		return
	}
	c.exists = !c.exists
	c.calls.Add(1)
}

func (c *caller) call(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	path := fmt.Sprintf("/local/called-%d-%d", c.server, c.number)
	var operation *Ydb_Operations.Operation
	what := "create"
	if c.exists {
		what = "drop"
		answer, err := c.nodes.DropNode(ctx, &Ydb_Coordination.DropNodeRequest{Path: path})
		if err != nil {
			return fmt.Errorf("drop %s: %w", path, err)
		}
		operation = answer.GetOperation()
	} else {
		answer, err := c.nodes.CreateNode(ctx, &Ydb_Coordination.CreateNodeRequest{Path: path})
		if err != nil {
			return fmt.Errorf("create %s: %w", path, err)
		}
		operation = answer.GetOperation()
	}
	if operation.GetStatus() == Ydb.StatusIds_SUCCESS && len(operation.GetIssues()) == 0 {
		return nil
	}
	err := fmt.Errorf("%s %s: %v", what, path, operation)
	if operation.GetStatus() != Ydb.StatusIds_UNAVAILABLE {
		// whatever happened to its server
		c.violations.add("call %d through server %d: %v", c.calls.Load(), c.server, err)
	}
	return err
}
