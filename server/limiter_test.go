package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/internal/testmode"
)

// limiterClient calls the rate limiters of a node over one connection.
type limiterClient struct {
	t      *testing.T
	client Ydb_RateLimiter_V1.RateLimiterServiceClient
	node   string
}

func newLimiterClient(t *testing.T, conn *grpc.ClientConn, node string) *limiterClient {
	return &limiterClient{t, Ydb_RateLimiter_V1.NewRateLimiterServiceClient(conn), node}
}

func resourceOf(path string, rate float64) *Ydb_RateLimiter.Resource {
	return &Ydb_RateLimiter.Resource{ResourcePath: path,
		Type: &Ydb_RateLimiter.Resource_HierarchicalDrr{HierarchicalDrr: &Ydb_RateLimiter.HierarchicalDrrSettings{MaxUnitsPerSecond: rate}}}
}

func (c *limiterClient) mustSucceed(what string, op *Ydb_Operations.Operation, err error) {
	c.t.Helper()
	if err != nil || op.GetStatus() != Ydb.StatusIds_SUCCESS {
		c.t.Fatalf("%s: %v, %v", what, op, err)
	}
}

func (c *limiterClient) create(path string, rate float64) {
	c.t.Helper()
	answer, err := c.client.CreateResource(c.t.Context(),
		&Ydb_RateLimiter.CreateResourceRequest{CoordinationNodePath: c.node,
			Resource: resourceOf(path, rate)})
	c.mustSucceed("create "+path, answer.GetOperation(), err)
}

func (c *limiterClient) alter(path string, rate float64) {
	c.t.Helper()
	answer, err := c.client.AlterResource(c.t.Context(),
		&Ydb_RateLimiter.AlterResourceRequest{CoordinationNodePath: c.node, Resource: resourceOf(path, rate)})
	c.mustSucceed("alter "+path, answer.GetOperation(), err)
}

func (c *limiterClient) use(path string, amount uint64) {
	c.t.Helper()
	answer, err := c.client.AcquireResource(c.t.Context(),
		&Ydb_RateLimiter.AcquireResourceRequest{CoordinationNodePath: c.node, ResourcePath: path,
			Units: &Ydb_RateLimiter.AcquireResourceRequest_Used{Used: amount}})
	c.mustSucceed("use "+path, answer.GetOperation(), err)
}

// acquire waits for an amount, and returns the status or the error as a text.
func (c *limiterClient) acquire(ctx context.Context, path string, amount uint64, limit time.Duration) string {
	answer, err := c.client.AcquireResource(ctx,
		&Ydb_RateLimiter.AcquireResourceRequest{CoordinationNodePath: c.node, ResourcePath: path,
			OperationParams: &Ydb_Operations.OperationParams{OperationTimeout: durationpb.New(limit)},
			Units:           &Ydb_RateLimiter.AcquireResourceRequest_Required{Required: amount}})
	if err != nil {
		return err.Error()
	}
	return answer.GetOperation().GetStatus().String()
}

func (c *limiterClient) wants(want, path string, amount uint64, limit time.Duration) {
	c.t.Helper()
	if got := c.acquire(c.t.Context(), path, amount, limit); got != want {
		c.t.Errorf("acquire %d of %s: %s, want %s", amount, path, got, want)
	}
}

// begin has so many wait for units, and returns where their answers come.
func (c *limiterClient) begin(s *Server, path string, count int) <-chan string {
	c.t.Helper()
	answers := make(chan string, count)
	for range count {
		go func() { answers <- c.acquire(context.Background(), path, 1, time.Hour) }()
	}
	eventually(c.t, "the waiters", func() bool { return s.group.Limiter().Figures().Waiters == count })
	return answers
}

func (c *limiterClient) ends(answers <-chan string, count int, want string) {
	c.t.Helper()
	for range count {
		select {
		case got := <-answers:
			if got != want {
				c.t.Errorf("a wait ended with %s, want %s", got, want)
			}
		case <-time.After(waitMax):
			c.t.Fatal("a wait does not end")
		}
	}
}

// Those who wait for a resource that is dropped, or whose node is, hear of it at once.
func TestWaitersOfWhatIsDropped(t *testing.T) {
	for _, whole := range []bool{false, true} {
		s, conn := startTest(t, nil)
		c := newLimiterClient(t, conn, testNode)
		c.create("r", 0.001)
		c.use("r", 10)
		answers := c.begin(s, "r", 3)
		if whole {
			answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).DropNode(t.Context(),
				&Ydb_Coordination.DropNodeRequest{Path: testNode})
			c.mustSucceed("drop the node", answer.GetOperation(), err)
		} else {
			answer, err := c.client.DropResource(t.Context(),
				&Ydb_RateLimiter.DropResourceRequest{CoordinationNodePath: testNode, ResourcePath: "r"})
			c.mustSucceed("drop the resource", answer.GetOperation(), err)
		}
		c.ends(answers, 3, "BAD_REQUEST")
		if f := s.group.Limiter().Figures(); f.Waiters+f.Buckets+f.Active+f.WaiterBytes != 0 {
			t.Errorf("%+v is left", f)
		}
	}
}

// Those who wait go on at the rate that a resource is given.
func TestWaitersOfWhatIsAltered(t *testing.T) {
	s, conn := startTest(t, nil)
	c := newLimiterClient(t, conn, testNode)
	c.create("r", 0.001)
	c.create("r/child", 1000)
	c.use("r/child", 100)
	answers := c.begin(s, "r/child", 3)
	c.alter("r", 10_000)
	c.ends(answers, 3, "SUCCESS")
	c.use("r/child", 1_000_000)
	c.wants("TIMEOUT", "r/child", 1, 100*time.Millisecond)
}

// A client that goes away waits no more, and nothing is taken for it.
func TestWaiterThatGoes(t *testing.T) {
	s, conn := startTest(t, nil)
	c := newLimiterClient(t, conn, testNode)
	c.create("r", 0.001)
	c.use("r", 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan string, 1)
	go func() { ended <- c.acquire(ctx, "r", 5, time.Hour) }()
	eventually(t, "the waiter", func() bool { return s.group.Limiter().Figures().Waiters == 1 })
	cancel()
	<-ended
	eventually(t, "nobody to wait", func() bool { return s.group.Limiter().Figures().Waiters == 0 })
	c.alter("r", 1e9)
	c.wants("SUCCESS", "r", 1, waitMax)
}

// A server that stops answers those who wait with UNAVAILABLE: they may ask another one, for nothing was
// taken.
func TestStopWithWaiters(t *testing.T) {
	s, conn := startTest(t, nil)
	c := newLimiterClient(t, conn, testNode)
	c.create("r", 0.001)
	c.use("r", 10)
	answers := c.begin(s, "r", 20)
	stopped := make(chan error, 1)
	begun := time.Now()
	go func() { stopped <- s.Stop(context.Background()) }()
	c.ends(answers, 20, "UNAVAILABLE")
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	t.Log("stopped after ", time.Since(begun))
}

// Every server of a cluster hands out units that the leader shares out, and each begins with a full bucket.
func TestLimiterOfCluster(t *testing.T) {
	c := startClusterWith(t, 3, inRealTime)
	c.awaitFormat(codec.Version)
	c.createNode(0, "/local/n")
	clients := make([]*limiterClient, 3)
	for i := range clients {
		clients[i] = newLimiterClient(t, c.conns[i], "/local/n")
		path := fmt.Sprint("r", i)
		clients[i].create(path, 1000)
		clients[0].create(path+"/child", 500)
	}
	for i, client := range clients {
		for j := range clients { // also what was made by another server just now is known
			client.wants("SUCCESS", fmt.Sprintf("r%d/child", j), 1, 0)
		}
		path := fmt.Sprint("r", i, "/child")
		client.use(path, 300)
		client.wants("TIMEOUT", path, 1, 0)
		client.wants("SUCCESS", path, 1, waitMax) // the debt is repaid by the leader
	}
}

// Another leader changes nothing of what a server has handed out, and goes on to share out.
func TestLimiterOutlivesTheLeader(t *testing.T) {
	testmode.Long(t)
	c := startClusterWith(t, 3, inRealTime)
	c.awaitFormat(codec.Version)
	c.createNode(0, "/local/n")
	leads, follows := c.leader()
	client := newLimiterClient(t, c.conns[follows], "/local/n")
	client.create("slow", 1)
	client.create("fast", 1000)
	client.use("slow", 10_000)
	answers := client.begin(c.servers[follows], "slow", 2)
	c.crash(leads)
	client.wants("TIMEOUT", "slow", 1, 0)
	c.eventually("another leader", func() bool { return c.servers[follows].group.Led() })
	client.use("fast", 1000)
	// it was not asked for before, so there is nothing to go on with
	client.wants("SUCCESS", "fast", 1, waitMax)
	client.wants("TIMEOUT", "slow", 1, 0)
	client.alter("slow", 1_000_000)
	client.ends(answers, 2, "SUCCESS")
}
