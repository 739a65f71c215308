package server

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/conformance/testlog"
	"github.com/coordd/coordd/internal/hooks/slow"
	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/raftstore"
)

// testCluster is servers of one cluster in this process, talking over loopback. Unless change says otherwise,
// they are in no hurry: nobody is given up for not answering pings, and no session ends for want of a leader,
// however little of a processor the test gets.
type testCluster struct {
	t       *testing.T
	logger  *slog.Logger
	dir     string
	listen  []string
	initial map[string]string
	servers []*Server
	conns   []*grpc.ClientConn
	clock   slow.Clock
	change  func(*Config) // of each server before it starts; may be nil
}

func startCluster(t *testing.T, n int) *testCluster {
	t.Helper()
	return startClusterWith(t, n, nil)
}

// inRealTime has a cluster's servers go by the real clock: for tests of how fast units come, or sessions end.
func inRealTime(c *Config) { c.hooks.Rings = nil }

func startClusterWith(t *testing.T, n int, change func(*Config)) *testCluster {
	t.Helper()
	c := newCluster(t, n, change)
	c.startAll()
	return c
}

func (c *testCluster) startAll() {
	c.t.Helper()
	errs := make(chan error, len(c.servers))
	for i := range c.servers {
		go func() { errs <- c.start(i) }()
	}
	for range c.servers {
		if err := <-errs; err != nil {
			c.t.Fatal(err)
		}
	}
}

// newCluster starts nobody yet.
func newCluster(t *testing.T, n int, change func(*Config)) *testCluster {
	t.Helper()
	runBeside(t)
	c := &testCluster{t: t, logger: testlog.New(t), clock: slow.NewClock(), change: change, dir: t.TempDir(),
		initial: make(map[string]string), servers: make([]*Server, n), conns: make([]*grpc.ClientConn, n)}
	addresses := testserver.Addresses(t, 2*n)
	c.listen = addresses[:n]
	for i := range n {
		c.initial[fmt.Sprint("server-", i)] = addresses[n+i]
	}
	t.Cleanup(func() {
		for i := range c.servers {
			c.stop(i)
			if c.conns[i] != nil {
				_ = c.conns[i].Close()
			}
		}
	})
	return c
}

func (c *testCluster) start(i int) error { return c.startIn(context.Background(), i) }

func (c *testCluster) startIn(ctx context.Context, i int) error {
	name := fmt.Sprint("server-", i)
	config := Config{Listen: c.listen[i], Database: "/local", DataDir: filepath.Join(c.dir, name),
		Logger: c.logger.With("server", name), LoopbackAdmin: true,
		Cluster: raftstore.Cluster{Name: name, ListenPeer: c.initial[name], Initial: maps.Clone(c.initial)}}
	return c.startWith(ctx, i, config)
}

// startWith starts a server as the cluster has them all.
func (c *testCluster) startWith(ctx context.Context, i int, config Config) error {
	// A busy machine may take long to elect a leader, and to answer for a connection.
	config.hooks.Patience, config.replaced.keepalive = waitMax, waitMax
	config.hooks.Rings = c.clock
	if c.change != nil {
		c.change(&config)
	}
	s, err := Start(ctx, config)
	if err != nil {
		return err
	}
	c.servers[i] = s
	if c.conns[i] == nil {
		c.conns[i], err = grpc.NewClient(c.listen[i],
			append(ending(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	}
	return err
}

func (c *testCluster) stop(i int) {
	if c.servers[i] == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	if err := c.servers[i].Stop(ctx); err != nil {
		c.t.Error(err)
	}
	c.servers[i] = nil
}

// leader is the server that leads, and one that does not.
func (c *testCluster) leader() (leads, follows int) {
	c.t.Helper()
	c.eventually("a leader", func() bool {
		leads, follows = -1, -1
		for i, s := range c.servers {
			switch {
			case s == nil:
			case s.group.Leads():
				leads = i
			default:
				follows = i
			}
		}
		return leads >= 0 && follows >= 0
	})
	return leads, follows
}

func (c *testCluster) createNode(i int, path string) {
	c.t.Helper()
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(c.conns[i]).CreateNode(c.t.Context(),
		&Ydb_Coordination.CreateNodeRequest{Path: path})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		c.t.Fatalf("create: %v, %v", answer, err)
	}
}

// next returns the next message that is not a ping, and answers those.
func next(t *testing.T, stream sessionClient) *Ydb_Coordination.SessionResponse {
	t.Helper()
	for {
		m := receive(t, stream)
		if m.GetPing() == nil {
			return m
		}
		// The stream may have ended behind the ping; what it ended with comes next.
		_ = stream.Send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
			Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: m.GetPing().GetOpaque()}}})
	}
}

func release(reqID uint64, name string) *Ydb_Coordination.SessionRequest {
	return &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_ReleaseSemaphore_{
		ReleaseSemaphore: &Ydb_Coordination.SessionRequest_ReleaseSemaphore{ReqId: reqID, Name: name}}}
}

func wait(reqID uint64, name string) *Ydb_Coordination.SessionRequest {
	return &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
		AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{ReqId: reqID, Name: name,
			Count: 1<<64 - 1, Ephemeral: true, TimeoutMillis: 1<<64 - 1}}}
}

// TestAnyServerServes opens sessions on all three servers and hands one lock around.
func TestAnyServerServes(t *testing.T) {
	c := startCluster(t, 3)
	_, follower := c.leader()
	c.createNode(follower, testNode)
	var streams []sessionClient
	for i := range 3 {
		stream := openTest(t, t.Context(), c.conns[i], start(600_000))
		if next(t, stream).GetSessionStarted().GetSessionId() == 0 {
			t.Fatal("not started")
		}
		streams = append(streams, stream)
	}
	send(t, streams[0], wait(1, "lock"))
	if r := next(t, streams[0]); !r.GetAcquireSemaphoreResult().GetAcquired() {
		t.Fatalf("got %v", r)
	}
	for i := 1; i < 3; i++ {
		send(t, streams[i], wait(1, "lock"))
		if r := next(t, streams[i]); r.GetAcquireSemaphorePending() == nil {
			t.Fatalf("got %v", r)
		}
	}
	for i := range 2 {
		send(t, streams[i], release(2, "lock"))
		if r := next(t, streams[i]); !r.GetReleaseSemaphoreResult().GetReleased() {
			t.Fatalf("got %v", r)
		}
		if r := next(t, streams[i+1]); !r.GetAcquireSemaphoreResult().GetAcquired() {
			t.Fatalf("got %v", r)
		}
	}
}

// TestStreamsSurviveTheLeader stops the leader: streams on the others go on, the holder holds, the waiter
// waits, and the hand-over works.
func TestStreamsSurviveTheLeader(t *testing.T) {
	c := startCluster(t, 3)
	leader, _ := c.leader()
	c.createNode(leader, testNode)
	var streams []sessionClient
	for i := range 3 {
		if i != leader {
			stream := openTest(t, t.Context(), c.conns[i], start(600_000))
			next(t, stream)
			streams = append(streams, stream)
		}
	}
	send(t, streams[0], wait(1, "lock"))
	next(t, streams[0])
	send(t, streams[1], wait(1, "lock"))
	if r := next(t, streams[1]); r.GetAcquireSemaphorePending() == nil {
		t.Fatalf("got %v", r)
	}
	c.stop(leader)
	send(t, streams[0], release(2, "lock"))
	if r := next(t, streams[0]); !r.GetReleaseSemaphoreResult().GetReleased() {
		t.Fatalf("got %v", r)
	}
	if r := next(t, streams[1]); !r.GetAcquireSemaphoreResult().GetAcquired() {
		t.Fatalf("got %v", r)
	}
}
