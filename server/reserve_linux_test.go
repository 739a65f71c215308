package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/internal/testmode"
)

// smallDisk mounts a file system in memory.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", bytes)); err != nil {
		t.Skipf("a file system of its own cannot be mounted here, so no disk was filled: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestSmallDisk fills a real file system to the last byte, first beyond the reserve and then wholly. Nothing
// that was acknowledged is lost, and with space again the server goes on.
func TestSmallDisk(t *testing.T) {
	testmode.WithoutRace(t)
	dir := smallDisk(t, 160<<20)
	config := Config{Listen: "127.0.0.1:0", Database: "/local", DataDir: filepath.Join(dir, "data"),
		DiskReserve: 24 << 20}
	ballast := filepath.Join(dir, "ballast")
	c := &testCluster{t: t}
	var acknowledged []string
	for round := range 2 {
		s, err := Start(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := grpc.NewClient(s.Addr().String(),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
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
		if err := os.WriteFile(ballast, make([]byte, int(disk.Bavail)*int(disk.Bsize)-left),
			0o600); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		c.eventually("the server to refuse", func() bool { return create() == Ydb.StatusIds_UNAVAILABLE })
		if round == 0 { // it is still there, and goes on by itself
			if err := s.Err(); err != nil || !strings.HasPrefix(s.Readiness().Reason,
				"the disk is nearly full") {
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
		answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).DescribeNode(t.Context(),
			&Ydb_Coordination.DescribeNodeRequest{Path: path})
		if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
			t.Errorf("%s was acknowledged and is lost: %v, %v", path, answer, err)
		}
	}
}
