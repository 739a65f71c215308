package server

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
)

// given is the numbers that clients have got from one server.
type given struct{ session, order uint64 }

// takeLock opens a session, takes a lock and returns the numbers.
func takeLock(t *testing.T, conn *grpc.ClientConn, name string) given {
	t.Helper()
	stream := openTest(t, t.Context(), conn, start(600_000))
	session := next(t, stream).GetSessionStarted().GetSessionId()
	send(t, stream, wait(1, name))
	if r := next(t, stream); !r.GetAcquireSemaphoreResult().GetAcquired() {
		t.Fatalf("got %v", r)
	}
	return given{session, orderOf(t, stream, 2, name)}
}

// startOn starts a server alone on a directory.
func startOn(t *testing.T, directory string, cluster raftstore.Cluster) (*Server, *grpc.ClientConn) {
	t.Helper()
	s, err := Start(t.Context(), Config{Listen: "127.0.0.1:0", Database: "/local", DataDir: directory,
		LoopbackAdmin: true, Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopServer(t, s) })
	return s, connect(t, s)
}

func stopServer(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// lineage is which lineage the machine of a server has begun.
func (s *Server) lineage(t *testing.T) (begun uint64) {
	t.Helper()
	if _, err := s.group.Read(t.Context(),
		func(m *coordination.Machine) outcome.Outcome { begun = m.Lineage(); return outcome.Done() }); err != nil {
		t.Fatal(err)
	}
	return begun
}

// TestRestoreFences restores a backup and wants larger numbers than any that were given out, also after it
// was made: of a node in the backup, and of one made again that the backup does not have.
func TestRestoreFences(t *testing.T) {
	testmode.Long(t)
	c := startCluster(t, 3)
	_, follower := c.leader()
	c.createNode(follower, testNode)
	takeLock(t, c.conns[follower], "before")
	backup := c.snapshot(follower)
	var last given
	for round := range 5 {
		last = takeLock(t, c.conns[follower], fmt.Sprint("after-", round))
	}
	cluster := c.servers[follower].store.Cluster()

	directory := filepath.Join(t.TempDir(), "restored")
	address := testserver.Address(t)
	config := raftstore.Cluster{Name: "a", ListenPeer: address}
	if err := datadir.RestoreBackup(directory, bytes.NewReader(backup)); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copied")
	if err := os.CopyFS(copied, os.DirFS(directory)); err != nil {
		t.Fatal(err)
	}
	s, conn := startOn(t, directory, config)
	got := takeLock(t, conn, "lock")
	if s.store.Cluster() == cluster || s.lineage(t) != s.store.Lineage() || s.lineage(t) == 0 {
		t.Errorf("cluster %x, lineage %x, stored %x", s.store.Cluster(), s.lineage(t), s.store.Lineage())
	}
	if got.session <= last.session || got.order <= last.order || got.order <= coordination.LineageJump {
		t.Errorf("got %+v after %+v", got, last)
	}
	if owner := orderOf(t, openSession(t, conn), 1, "before"); owner != 1 {
		t.Errorf("the owner from before has order id %d now", owner)
	}

	// The lineage begins once, however often the server starts again, whether or not there was a checkpoint.
	stopServer(t, s)
	s, conn = startOn(t, directory, config)
	if again := takeLock(t, conn, "again"); again.order != got.order+1 || s.lineage(t) != s.store.Lineage() {
		t.Errorf("order id %d after %d", again.order, got.order)
	}

	// A second start of the same restored directory, as after a crash before anything was written, does the
	// same.
	other, conn := startOn(t, copied, raftstore.Cluster{Name: "a", ListenPeer: testserver.Address(t)})
	if again := takeLock(t, conn, "lock"); again != got || other.store.Lineage() != s.store.Lineage() {
		t.Errorf("got %+v, and before %+v", again, got)
	}
}

func openSession(t *testing.T, conn *grpc.ClientConn) sessionClient {
	t.Helper()
	stream := openTest(t, t.Context(), conn, start(600_000))
	next(t, stream)
	return stream
}

// TestForcedMemberFences loses two of three servers with the newest entries, in which numbers were given out.
func TestForcedMemberFences(t *testing.T) {
	testmode.Long(t)
	c := startCluster(t, 3)
	leader, follower := c.leader()
	behind := 3 - leader - follower
	c.createNode(leader, testNode)
	c.status(behind, "everything", func(s *adminpb.ClusterStatus) bool {
		return s.GetCaughtUp() && s.GetApplied() >= s.GetCommit()
	})
	takeLock(t, c.conns[leader], "before")
	c.stop(behind)
	var last given
	for round := range 5 {
		last = takeLock(t, c.conns[leader], fmt.Sprint("after-", round))
	}
	c.stop(follower)
	c.stop(leader)

	directory := filepath.Join(c.dir, fmt.Sprint("server-", behind))
	for range 2 { // who is not sure does it twice
		if err := datadir.ForceSingle(directory); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.start(behind); err != nil {
		t.Fatal(err)
	}
	s := c.servers[behind]
	got := takeLock(t, c.conns[behind], "lock")
	if got.session <= last.session || got.order <= last.order || s.lineage(t) != s.store.Lineage() {
		t.Errorf("got %+v after %+v", got, last)
	}
	if members := s.store.Members(); len(members) != 1 {
		t.Errorf("members %+v", members)
	}

	// A member that joins knows of the lineage and does not begin it again when it leads.
	joiner := c.grow()
	name := fmt.Sprint("server-", joiner)
	c.mustManage(behind, "Add", &adminpb.AddMemberRequest{Name: name, PeerAddress: c.initial[name]},
		new(adminpb.AddMemberResponse))
	c.join(joiner, behind)
	c.mustManage(joiner, "Promote", &adminpb.PromoteMemberRequest{Member: name, Wait: true},
		new(adminpb.PromoteMemberResponse))
	c.mustManage(joiner, "TransferLeader", &adminpb.TransferLeaderRequest{To: name},
		new(adminpb.TransferLeaderResponse))
	if again := takeLock(t, c.conns[joiner], "again"); again.order != got.order+1 {
		t.Errorf("order id %d after %d", again.order, got.order)
	}
	if joined := c.servers[joiner].store.Lineage(); joined != s.store.Lineage() {
		t.Errorf("lineage %x, want %x", joined, s.store.Lineage())
	}
}
