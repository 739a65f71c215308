package server

import (
	"sync/atomic"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Monitoring"
	"google.golang.org/grpc"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/server/readiness"
)

// wantDiskFull wants a stream to end because the disk is full.
func wantDiskFull(t *testing.T, stream sessionClient) {
	t.Helper()
	if f := next(t, stream).GetFailure(); f.GetStatus() != Ydb.StatusIds_UNAVAILABLE ||
		f.GetIssues()[0].GetMessage() != coordination.DiskFull.Text {
		t.Errorf("got %v", f)
	}
}

func createStatus(t *testing.T, conn *grpc.ClientConn, path string) Ydb.StatusIds_StatusCode {
	t.Helper()
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(t.Context(),
		&Ydb_Coordination.CreateNodeRequest{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetOperation().GetStatus()
}

// freeSpace makes a log see this much free space.
func freeSpace(free *atomic.Uint64) func(*raftstore.Config) {
	return func(log *raftstore.Config) {
		log.FreeSpace = func(string) (uint64, error) { return free.Load(), nil }
	}
}

// TestDiskReserve fills the disk of a server that is alone: what makes the state larger is refused in a way
// that SDKs notice, the rest goes on, and so does everything when there is space again.
func TestDiskReserve(t *testing.T) {
	var free atomic.Uint64
	free.Store(1 << 30)
	s, conn := startTest(t, func(c *Config) {
		c.InMemory, c.DataDir = false, t.TempDir()
		c.DiskReserve, c.hooks.Log = 100<<20, freeSpace(&free)
	})
	holder, other := openTest(t, t.Context(), conn, start(600_000)),
		openTest(t, t.Context(), conn, start(600_000))
	id := next(t, holder).GetSessionStarted().GetSessionId()
	next(t, other)
	send(t, holder, acquire(1, "lock", nil))
	if !next(t, holder).GetAcquireSemaphoreResult().GetAcquired() {
		t.Fatal("not acquired")
	}
	free.Store(50 << 20)
	c := &testCluster{t: t}
	c.eventually("the server to refuse", func() bool { return !s.Readiness().Ready })
	if r := s.Readiness(); r.Reason != "the disk is nearly full: 50 MiB free, 100 MiB reserved" {
		t.Errorf("got %+v", r)
	}
	if r := selfCheck(t, conn); r.GetSelfCheckResult() != Ydb_Monitoring.SelfCheck_EMERGENCY ||
		!hasIssue(r, readiness.IssueDisk, "nearly full") {
		t.Errorf("got %v", r)
	}
	if got := createStatus(t, conn, "/local/more"); got != Ydb.StatusIds_UNAVAILABLE {
		t.Errorf("create: %v", got)
	}
	send(t, other, acquire(1, "more", nil))
	wantDiskFull(t, other)
	if s := endOf(other); s.Code() != 0 {
		t.Errorf("ended with %v", s)
	}
	wantDiskFull(t, openTest(t, t.Context(), conn, start(600_000)))

	// A session that is there can be taken up again, to give back what it holds.
	_ = holder.CloseSend()
	again := start(600_000)
	again.SessionId, again.SeqNo = id, 1
	holder = openTest(t, t.Context(), conn, again)
	if next(t, holder).GetSessionStarted().GetSessionId() != id {
		t.Fatal("not restored")
	}
	send(t, holder, release(2, "lock"))
	if r := next(t, holder); !r.GetReleaseSemaphoreResult().GetReleased() {
		t.Errorf("got %v", r)
	}
	dropped, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).DropNode(t.Context(),
		&Ydb_Coordination.DropNodeRequest{Path: testNode})
	if err != nil || dropped.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Errorf("drop: %v, %v", dropped, err)
	}

	free.Store(1 << 30)
	c.eventually("the server to go on", func() bool { return s.Readiness().Ready })
	if got := createStatus(t, conn, testNode); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("create: %v", got)
	}
}

// TestFullDiskOfTheLeader fills one disk of three: the leadership moves, and clients see nothing.
func TestFullDiskOfTheLeader(t *testing.T) {
	var free [3]atomic.Uint64
	c := newCluster(t, 3, nil)
	for i := range free {
		free[i].Store(1 << 30)
	}
	c.change = func(config *Config) {
		i := int(config.Cluster.Name[len("server-")] - '0')
		config.DiskReserve, config.hooks.Log = 100<<20, freeSpace(&free[i])
	}
	c.startAll()
	leader, _ := c.leader()
	c.createNode(leader, testNode)
	stream := openTest(t, t.Context(), c.conns[leader], start(600_000))
	next(t, stream)
	free[leader].Store(1)
	for n := uint64(1); c.servers[leader].group.Leads(); n += 2 {
		send(t, stream, acquire(n, "lock", nil))
		if r := next(t, stream); !r.GetAcquireSemaphoreResult().GetAcquired() {
			t.Fatalf("got %v", r)
		}
		send(t, stream, release(n+1, "lock"))
		if r := next(t, stream); !r.GetReleaseSemaphoreResult().GetReleased() {
			t.Fatalf("got %v", r)
		}
	}
	c.leader()
	// on a busy machine it may be silent meanwhile
	c.eventually("the full server to be ready but for its disk", func() bool {
		r := selfCheck(t, c.conns[leader])
		return r.GetSelfCheckResult() == Ydb_Monitoring.SelfCheck_MAINTENANCE_REQUIRED &&
			hasIssue(r, readiness.IssueDisk, "nearly full")
	})
	if got := createStatus(t, c.conns[leader], "/local/more"); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("create: %v", got)
	}
}
