package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Monitoring"
)

// wantDiskFull wants a stream to end because the disk is full.
func wantDiskFull(t *testing.T, stream sessionClient) {
	t.Helper()
	if f := next(t, stream).GetFailure(); f.GetStatus() != Ydb.StatusIds_UNAVAILABLE || f.GetIssues()[0].GetMessage() != errDiskFull {
		t.Errorf("got %v", f)
	}
}

func createStatus(t *testing.T, conn *grpc.ClientConn, path string) Ydb.StatusIds_StatusCode {
	t.Helper()
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(t.Context(), &Ydb_Coordination.CreateNodeRequest{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetOperation().GetStatus()
}

// TestDiskReserve fills the disk of a server that is alone: what makes the state larger is refused in a way that SDKs
// notice, the rest goes on, and so does everything when there is space again.
func TestDiskReserve(t *testing.T) {
	var free atomic.Uint64
	free.Store(1 << 30)
	s, conn := startTest(t, func(c *Config) {
		c.InMemory, c.DataDir = false, t.TempDir()
		c.DiskReserve, c.freeSpace = 100<<20, func(string) (uint64, error) { return free.Load(), nil }
	})
	holder, other := openTest(t, t.Context(), conn, start(10_000)), openTest(t, t.Context(), conn, start(10_000))
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
	if r := selfCheck(t, conn); r.GetSelfCheckResult() != Ydb_Monitoring.SelfCheck_EMERGENCY || !hasIssue(r, issueDisk, "nearly full") {
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
	wantDiskFull(t, openTest(t, t.Context(), conn, start(10_000)))

	// A session that is there can be taken up again, to give back what it holds.
	_ = holder.CloseSend()
	again := start(10_000)
	again.SessionId, again.SeqNo = id, 1
	holder = openTest(t, t.Context(), conn, again)
	if next(t, holder).GetSessionStarted().GetSessionId() != id {
		t.Fatal("not restored")
	}
	send(t, holder, release(2, "lock"))
	if r := next(t, holder); !r.GetReleaseSemaphoreResult().GetReleased() {
		t.Errorf("got %v", r)
	}
	dropped, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).DropNode(t.Context(), &Ydb_Coordination.DropNodeRequest{Path: testNode})
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
		config.DiskReserve, config.freeSpace = 100<<20, func(string) (uint64, error) { return free[i].Load(), nil }
	}
	c.startAll()
	leader, _ := c.leader()
	c.createNode(leader, testNode)
	stream := openTest(t, t.Context(), c.conns[leader], start(10_000))
	next(t, stream)
	free[leader].Store(1)
	for n := uint64(1); c.servers[leader].streams.localLink() != nil; n += 2 {
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
	c.eventually("the full server to be ready", func() bool { return c.servers[leader].Readiness().Ready })
	if r := selfCheck(t, c.conns[leader]); r.GetSelfCheckResult() != Ydb_Monitoring.SelfCheck_MAINTENANCE_REQUIRED || !hasIssue(r, issueDisk, "nearly full") {
		t.Errorf("got %v", r)
	}
	if got := createStatus(t, c.conns[leader], "/local/more"); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("create: %v", got)
	}
}

// smallDisk mounts a file system in memory.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", bytes)); err != nil {
		t.Skipf("a file system of its own cannot be mounted here, so no disk was filled: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestSmallDisk fills a real file system to the last byte, first beyond the reserve and then wholly. Nothing that was
// acknowledged is lost, and with space again the server goes on.
func TestSmallDisk(t *testing.T) {
	dir := smallDisk(t, 160<<20)
	config := Config{Listen: "127.0.0.1:0", Database: "/local", DataDir: filepath.Join(dir, "data"), DiskReserve: 24 << 20}
	ballast := filepath.Join(dir, "ballast")
	c := &testCluster{t: t}
	var acknowledged []string
	for round := range 2 {
		s, err := Start(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := grpc.NewClient(s.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		create := func() Ydb.StatusIds_StatusCode {
			path := fmt.Sprintf("/local/node%d", len(acknowledged))
			status := createStatus(t, conn, path)
			if status == Ydb.StatusIds_SUCCESS {
				acknowledged = append(acknowledged, path)
			}
			return status
		}
		for range 20 {
			if got := create(); got != Ydb.StatusIds_SUCCESS {
				t.Fatalf("create: %v", got)
			}
		}
		var disk syscall.Statfs_t
		if err := syscall.Statfs(dir, &disk); err != nil {
			t.Fatal(err)
		}
		left := 10 << 20
		if round == 1 {
			left = 0
		}
		if err := os.WriteFile(ballast, make([]byte, int(disk.Bavail)*int(disk.Bsize)-left), 0o600); err != nil {
			t.Fatal(err)
		}
		c.eventually("the server to refuse", func() bool { return create() == Ydb.StatusIds_UNAVAILABLE })
		if round == 0 { // it is still there, and goes on by itself
			if err := s.Err(); err != nil || !strings.HasPrefix(s.Readiness().Reason, "the disk is nearly full") {
				t.Errorf("failed with %v, readiness %+v", err, s.Readiness())
			}
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			c.eventually("the server to go on", func() bool { return create() == Ydb.StatusIds_SUCCESS })
		}
		_ = conn.Close()
		if err := s.Stop(t.Context()); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(t.Context())
	conn, err := grpc.NewClient(s.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, path := range acknowledged {
		answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).DescribeNode(t.Context(), &Ydb_Coordination.DescribeNodeRequest{Path: path})
		if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
			t.Errorf("%s was acknowledged and is lost: %v, %v", path, answer, err)
		}
	}
}
