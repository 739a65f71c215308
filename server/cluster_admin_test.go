package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/server/admin"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
)

// manage calls the cluster's service on a server.
func (c *testCluster) manage(i int, method string, request, response proto.Message) error {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), waitMax)
	defer cancel()
	return c.conns[i].Invoke(ctx, "/"+adminpb.Cluster_ServiceDesc.ServiceName+"/"+method, request, response)
}

func (c *testCluster) mustManage(i int, method string, request, response proto.Message) {
	c.t.Helper()
	if err := c.manage(i, method, request, response); err != nil {
		c.t.Fatalf("%s on server %d: %v", method, i, err)
	}
}

// status waits until the status of a server is as wanted.
func (c *testCluster) status(i int, want string,
	is func(*adminpb.ClusterStatus) bool) *adminpb.ClusterStatus {
	c.t.Helper()
	for begun := time.Now(); ; time.Sleep(pause(time.Since(begun))) {
		now := new(adminpb.ClusterStatus)
		c.mustManage(i, "Status", &adminpb.ClusterStatusRequest{}, now)
		if is(now) {
			return now
		}
		if time.Since(begun) > waitMax {
			c.t.Fatalf("server %d: want %s, got %v", i, want, now)
		}
	}
}

// statusOf returns the status that a server shows to its owner.
func statusOf(ctx context.Context, s *Server) (*adminpb.ClusterStatus, error) {
	return s.admin.Status(auth.With(ctx, auth.LocalAdministrator), &adminpb.ClusterStatusRequest{})
}

func anyStatus(*adminpb.ClusterStatus) bool { return true }

// grow makes room for one more server, which is to join, and returns its number.
func (c *testCluster) grow() int {
	c.t.Helper()
	addresses, i := testserver.Addresses(c.t, 2), len(c.servers)
	c.listen, c.servers, c.conns = append(c.listen, addresses[0]), append(c.servers, nil),
		append(c.conns, nil)
	c.initial[fmt.Sprint("server-", i)] = addresses[1]
	return i
}

// join starts a server with an empty directory that joins through server by.
func (c *testCluster) join(i, by int) {
	c.t.Helper()
	name := fmt.Sprint("server-", i)
	config := Config{Listen: c.listen[i], Database: "/local", DataDir: filepath.Join(c.dir, name),
		Logger: c.logger.With("server", name), LoopbackAdmin: true,
		Cluster: raftstore.Cluster{Name: name, ListenPeer: c.initial[name],
			Join: []string{c.initial[fmt.Sprint("server-", by)]}}}
	if err := c.startWith(c.t.Context(), i, config); err != nil {
		c.t.Fatal(err)
	}
}

// load is a session that takes and gives back a lock until it is stopped, and notes the order ids that it
// got.
type load struct {
	t      *testing.T
	stream sessionClient
	stop   chan struct{}
	ended  sync.WaitGroup
	mutex  sync.Mutex
	orders []uint64
}

func (c *testCluster) load(i int, name string) *load {
	c.t.Helper()
	l := &load{t: c.t, stream: openTest(c.t, c.t.Context(), c.conns[i], start(600_000)),
		stop: make(chan struct{})}
	next(c.t, l.stream)
	l.ended.Go(func() {
		for round := uint64(0); ; round += 3 {
			select {
			case <-l.stop:
				return
			default:
			}
			l.cycle(round, name)
			time.Sleep(breather)
		}
	})
	return l
}

func (l *load) cycle(round uint64, name string) {
	send(l.t, l.stream, wait(round+1, name))
	if r := next(l.t, l.stream); !r.GetAcquireSemaphoreResult().GetAcquired() {
		l.t.Errorf("got %v", r)
	}
	order := orderOf(l.t, l.stream, round+2, name)
	l.mutex.Lock()
	if n := len(l.orders); n > 0 && order <= l.orders[n-1] {
		l.t.Errorf("order id %d after %d", order, l.orders[n-1])
	}
	l.orders = append(l.orders, order)
	l.mutex.Unlock()
	send(l.t, l.stream, release(round+3, name))
	if r := next(l.t, l.stream); !r.GetReleaseSemaphoreResult().GetReleased() {
		l.t.Errorf("got %v", r)
	}
}

// orderOf describes a lock and returns its owner's order id.
func orderOf(t *testing.T, stream sessionClient, reqID uint64, name string) uint64 {
	t.Helper()
	send(t, stream,
		&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
			DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: reqID, Name: name,
				IncludeOwners: true}}})
	r := next(t, stream).GetDescribeSemaphoreResult()
	owners := r.GetSemaphoreDescription().GetOwners()
	if len(owners) != 1 {
		t.Errorf("got %v", r)
		return 0
	}
	return owners[0].GetOrderId()
}

// more waits until the load has done n more rounds.
func (l *load) more(n int) {
	l.t.Helper()
	count := func() int { l.mutex.Lock(); defer l.mutex.Unlock(); return len(l.orders) }
	begun := time.Now()
	for want := count() + n; count() < want; time.Sleep(pause(time.Since(begun))) {
		if l.t.Context().Err() != nil || l.t.Failed() {
			l.t.Fatalf("%d rounds, want %d", count(), want)
		}
	}
}

// end stops the load and returns the last order id.
func (l *load) end() uint64 {
	close(l.stop)
	l.ended.Wait()
	return l.orders[len(l.orders)-1]
}

// TestChangeTheMembers adds a server under load, promotes it and has it lead, removes the leader and then
// another one, all through servers that do not lead. The streams on the servers that stay never break.
func TestChangeTheMembers(t *testing.T) {
	c := startCluster(t, 3)
	leader, follower := c.leader()
	c.createNode(follower, testNode)
	busy := c.load(follower, "lock")
	busy.more(10)

	fourth := c.grow()
	name := fmt.Sprint("server-", fourth)
	added := new(adminpb.AddMemberResponse)
	c.mustManage(follower, "Add", &adminpb.AddMemberRequest{Name: name, PeerAddress: c.initial[name]}, added)
	if err := c.manage(follower, "Add", &adminpb.AddMemberRequest{Name: name, PeerAddress: "127.0.0.1:1"},
		added); status.Code(err) != codes.AlreadyExists {
		t.Errorf("added twice: %v", err)
	}
	if err := c.manage(follower, "Promote", &adminpb.PromoteMemberRequest{Member: name},
		new(adminpb.PromoteMemberResponse)); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("promoted before it was started: %v", err)
	}
	if err := c.manage(follower, "TransferLeader", &adminpb.TransferLeaderRequest{To: name},
		new(adminpb.TransferLeaderResponse)); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a learner is to lead: %v", err)
	}
	c.join(fourth, follower)
	learner := c.status(fourth, "itself as a learner",
		func(s *adminpb.ClusterStatus) bool { return len(s.GetMembers()) == 4 && s.GetLeaderAnswered() })
	for _, m := range learner.GetMembers() {
		if m.GetId() == added.GetId() && m.GetRole() != adminpb.ClusterMember_ROLE_LEARNER {
			t.Errorf("the new member is %v", m)
		}
	}
	c.mustManage(follower, "Promote", &adminpb.PromoteMemberRequest{Member: name, Wait: true},
		new(adminpb.PromoteMemberResponse))
	c.mustManage(fourth, "Promote", &adminpb.PromoteMemberRequest{Member: added.GetId()},
		new(adminpb.PromoteMemberResponse))
	busy.more(10)

	led := new(adminpb.TransferLeaderResponse)
	c.mustManage(follower, "TransferLeader", &adminpb.TransferLeaderRequest{To: name}, led)
	if led.GetLeader() != added.GetId() {
		t.Errorf("%s leads, want %s", led.GetLeader(), added.GetId())
	}
	c.mustManage(follower, "TransferLeader", &adminpb.TransferLeaderRequest{To: added.GetId()}, led)
	c.status(follower, "the new leader",
		func(s *adminpb.ClusterStatus) bool { return s.GetLeader() == added.GetId() && s.GetCaughtUp() })
	busy.more(10)

	c.mustManage(follower, "Remove", &adminpb.RemoveMemberRequest{Member: name},
		new(adminpb.RemoveMemberResponse))
	c.wantRemoved(fourth)
	if err := c.manage(follower, "Remove", &adminpb.RemoveMemberRequest{Member: name},
		new(adminpb.RemoveMemberResponse)); status.Code(err) != codes.NotFound {
		t.Errorf("removed twice: %v", err)
	}
	busy.more(10)
	c.mustManage(leader, "Remove", &adminpb.RemoveMemberRequest{Member: fmt.Sprint("server-", leader)},
		new(adminpb.RemoveMemberResponse))
	c.wantRemoved(leader)
	busy.more(10)
	busy.end()
	if now := c.status(follower, "two servers", anyStatus); len(now.GetMembers()) != 2 {
		t.Errorf("got %v", now)
	}
	old := fmt.Sprint("server-", leader)
	want := []string{"add member " + name + " at " + c.initial[name], "promote member " + name, "remove member " + name,
		"remove member " + old}
	for i := range 3 {
		if i == leader {
			continue
		}
		c.eventually("the changes among the events", func() bool {
			var got []string
			for _, e := range slices.Backward(c.keptBy(i)) {
				if strings.HasSuffix(e.GetAct(), " member") {
					got = append(got, e.GetAct()+" "+e.GetTarget())
				}
			}
			return slices.Equal(got, want)
		})
	}

	c.stop(leader)
	if err := os.RemoveAll(filepath.Join(c.dir, fmt.Sprint("server-", leader))); err != nil {
		t.Fatal(err)
	}
	delete(c.initial, name) // the list of a first start is that of the first servers
	if err := c.start(leader); !errors.Is(err, raftstore.ErrRemoved) {
		t.Errorf("a removed server with an emptied directory: %v", err)
	}
}

// wantRemoved waits until a server has ended because it was removed.
func (c *testCluster) wantRemoved(i int) {
	c.t.Helper()
	select {
	case <-c.servers[i].Done():
		if err := c.servers[i].Err(); !errors.Is(err, raftstore.ErrRemoved) {
			c.t.Errorf("server %d ended with %v", i, err)
		}
	case <-time.After(waitMax):
		c.t.Fatalf("server %d was removed and goes on", i)
	}
}

// TestReplaceAServer loses the disk of a server. It cannot come back as what it was; it is removed and added
// under the same name and addresses.
func TestReplaceAServer(t *testing.T) {
	c := startCluster(t, 3)
	leader, follower := c.leader()
	lost := 3 - leader - follower
	name := fmt.Sprint("server-", lost)
	c.createNode(leader, testNode)
	busy := c.load(follower, "lock")
	busy.more(5)
	// The cluster recognizes an emptied directory once its log has the incarnation of each member
	// (raftstore/DESIGN.md, "Who is a member"), which is published with the version.
	c.status(leader, "every server seen", func(s *adminpb.ClusterStatus) bool {
		return !slices.ContainsFunc(s.GetMembers(), func(m *adminpb.ClusterMember) bool { return m.GetVersion() == 0 })
	})
	c.stop(lost)
	if err := os.RemoveAll(filepath.Join(c.dir, name)); err != nil {
		t.Fatal(err)
	}
	if err := c.start(lost); !errors.Is(err, raftstore.ErrEmptied) {
		t.Errorf("a server with an emptied directory: %v", err)
	}
	c.mustManage(follower, "Remove", &adminpb.RemoveMemberRequest{Member: name},
		new(adminpb.RemoveMemberResponse))
	c.mustManage(follower, "Add", &adminpb.AddMemberRequest{Name: name, PeerAddress: c.initial[name]},
		new(adminpb.AddMemberResponse))
	c.join(lost, leader)
	c.mustManage(lost, "Promote", &adminpb.PromoteMemberRequest{Member: name, Wait: true},
		new(adminpb.PromoteMemberResponse))
	busy.more(5)
	c.stop(leader)
	busy.more(5)
	busy.end()
}

// TestQuorumIsKept refuses changes that would leave too few servers, and reports the state without a leader.
func TestQuorumIsKept(t *testing.T) {
	testmode.Long(t)
	c := startCluster(t, 3)
	leader, follower := c.leader()
	gone := 3 - leader - follower
	name := func(i int) string { return fmt.Sprint("server-", i) }
	c.stop(gone)
	c.status(follower, "one server inactive", func(s *adminpb.ClusterStatus) bool {
		active := 0
		for _, m := range s.GetMembers() {
			if m.GetActive() {
				active++
			}
		}
		return s.GetLeaderAnswered() && active == 2
	})
	for _, i := range []int{leader, follower} {
		err := c.manage(follower, "Remove", &adminpb.RemoveMemberRequest{Member: name(i)},
			new(adminpb.RemoveMemberResponse))
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("remove %s of two that are left: %v", name(i), err)
		}
	}
	for _, bad := range []*adminpb.AddMemberRequest{{}, {Name: "a b", PeerAddress: "h:1"},
		{Name: "x", PeerAddress: "h"}, {Name: "x", PeerAddress: ":1"}} {
		if err := c.manage(follower, "Add", bad,
			new(adminpb.AddMemberResponse)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("add %v: %v", bad, err)
		}
	}
	if err := c.manage(follower, "Promote", &adminpb.PromoteMemberRequest{Member: "nobody"},
		new(adminpb.PromoteMemberResponse)); status.Code(err) != codes.NotFound {
		t.Errorf("promote nobody: %v", err)
	}
	c.stop(leader)
	now := c.status(follower, "no leader", func(s *adminpb.ClusterStatus) bool { return s.GetLeader() == "" })
	if len(now.GetMembers()) != 3 || now.GetCaughtUp() || now.GetLeaderAnswered() {
		t.Errorf("got %v", now)
	}
	c.status(follower, "who can be reached", func(s *adminpb.ClusterStatus) bool {
		connected := map[string]bool{}
		for _, m := range s.GetMembers() {
			connected[m.GetName()] = m.GetConnected()
		}
		return connected[name(follower)] && !connected[name(leader)]
	})
	c.servers[follower].calls.Patience = 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	err := c.conns[follower].Invoke(ctx, "/"+adminpb.Cluster_ServiceDesc.ServiceName+"/Remove",
		&adminpb.RemoveMemberRequest{Member: name(gone)}, new(adminpb.RemoveMemberResponse))
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a change without a leader: %v", err)
	}
}

// snapshot takes a backup through a server.
func (c *testCluster) snapshot(i int) []byte {
	c.t.Helper()
	backup, err := snapshotFrom(c.t.Context(), c.conns[i])
	if err != nil {
		c.t.Fatalf("snapshot through server %d: %v", i, err)
	}
	return backup
}

func snapshotFrom(ctx context.Context, conn *grpc.ClientConn) ([]byte, error) {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true},
		"/"+adminpb.Cluster_ServiceDesc.ServiceName+"/Snapshot")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(stream.SendMsg(&adminpb.SnapshotRequest{}), stream.CloseSend()); err != nil {
		return nil, err
	}
	var backup bytes.Buffer
	for {
		chunk := new(adminpb.SnapshotChunk)
		if err := stream.RecvMsg(chunk); err != nil {
			return nil, err
		}
		backup.Write(chunk.GetData())
		if chunk.GetIndex() != 0 {
			if int(chunk.GetSize()) != backup.Len() {
				return nil, fmt.Errorf("%d bytes came, %d were sent", backup.Len(), chunk.GetSize())
			}
			return backup.Bytes(), nil
		}
	}
}

// TestSnapshotHasEverything takes a backup through a follower under load: it is sound, and what was
// acknowledged before is in it.
func TestSnapshotHasEverything(t *testing.T) {
	c := startCluster(t, 3)
	_, follower := c.leader()
	c.createNode(follower, testNode)
	busy := c.load(follower, "lock")
	for round := range 3 {
		busy.more(5)
		c.createNode(follower, fmt.Sprintf("/local/node-%d", round))
		before := c.status(follower, "anything", anyStatus)
		report, err := datadir.VerifyBackup(bytes.NewReader(c.snapshot(follower)))
		if err != nil || report.Index < before.GetApplied() {
			t.Errorf("the backup is %+v, %v; entry %d was applied before", report, err, before.GetApplied())
		}
	}
	busy.end()
}

// TestSnapshotOfADeadReader gives up a client that does not read, so that it does not hold on to the
// checkpoint, and has one snapshot at a time.
func TestSnapshotOfADeadReader(t *testing.T) {
	var clock handClock
	s, conn := startTest(t, func(c *Config) {
		c.InMemory, c.DataDir = false, filepath.Join(t.TempDir(), "data")
		c.hooks.Rings, c.hooks.Shell = &clock, &clock
	})
	stream := openSession(t, conn)
	for i := range 8 { // more than the buffers of a connection hold
		send(t, stream,
			&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
				CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: uint64(i),
					Name: fmt.Sprint("s-", i), Limit: 1, Data: make([]byte, 1<<20)}}})
		next(t, stream)
	}
	dead, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true},
		"/"+adminpb.Cluster_ServiceDesc.ServiceName+"/Snapshot")
	if err == nil {
		err = errors.Join(dead.SendMsg(&adminpb.SnapshotRequest{}), dead.CloseSend(),
			dead.RecvMsg(new(adminpb.SnapshotChunk)))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Checkpoints.Backup(t.Context(), io.Discard); !errors.Is(err, raftstore.ErrBackupRuns) {
		t.Errorf("a second backup: %v", err)
	}
	eventually(t, "the dead reader to be given up", func() bool {
		clock.turn(admin.BackupStall) // it may be stopped only after some more messages
		_, err := s.store.Checkpoints.Backup(t.Context(), io.Discard)
		return !errors.Is(err, raftstore.ErrBackupRuns)
	})
	if _, err := snapshotFrom(t.Context(), conn); err != nil {
		t.Errorf("a snapshot after the dead reader's: %v", err)
	}
	for err == nil {
		err = dead.RecvMsg(new(adminpb.SnapshotChunk))
	}
	if status.Code(err) != codes.Canceled {
		t.Errorf("the dead reader got %v", err)
	}
}

// TestWhoMayManageTheCluster is the table for callers of the same machine, and one for callers from
// elsewhere.
func TestWhoMayManageTheCluster(t *testing.T) {
	g := startGuarded(t, nil)
	g.addUser("alice", "x", false)
	for token, want := range map[string]codes.Code{
		"": codes.Unauthenticated, "token-of-nobody": codes.Unauthenticated,
		"token-of-alice": codes.PermissionDenied, "token-of-root": codes.OK,
	} {
		err := g.conn.Invoke(g.as(token), "/"+adminpb.Cluster_ServiceDesc.ServiceName+"/Status",
			&adminpb.ClusterStatusRequest{}, new(adminpb.ClusterStatus))
		if status.Code(err) != want {
			t.Errorf("%q: got %v", token, err)
		}
	}
	if _, err := snapshotFrom(g.as("token-of-alice"), g.conn); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a snapshot for alice: %v", err)
	}
	if _, err := snapshotFrom(g.as("token-of-root"), g.conn); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a snapshot of a server in memory: %v", err)
	}
	root := auth.With(context.Background(), &auth.Identity{Name: "root"})
	for _, required := range []bool{false, true} {
		s := &admin.Cluster{Runner: g.calls, Auth: &auth.Authenticator{Required: required}, StateLimit: g.stateLimit}
		if _, err := s.Limits(t.Context(), &adminpb.LimitsRequest{}); status.Code(err) != codes.PermissionDenied {
			t.Errorf("required %v: a stranger from elsewhere: %v", required, err)
		}
		if _, err := s.Limits(root, &adminpb.LimitsRequest{}); err != nil {
			t.Errorf("required %v: an administrator from elsewhere: %v", required, err)
		}
	}
}

// TestServerAlone has a cluster of one, which cannot grow without an address for others.
func TestServerAlone(t *testing.T) {
	s, conn := startTest(t, nil)
	now := new(adminpb.ClusterStatus)
	if err := conn.Invoke(t.Context(), "/"+adminpb.Cluster_ServiceDesc.ServiceName+"/Status",
		&adminpb.ClusterStatusRequest{}, now); err != nil ||
		len(now.GetMembers()) != 1 || now.GetLeader() != now.GetServerId() ||
		now.GetServerId() != raftstore.IDText(s.store.Member()) || !now.GetCaughtUp() {
		t.Errorf("got %v, %v", now, err)
	}
	for method, call := range map[string][2]proto.Message{
		"Add": {&adminpb.AddMemberRequest{Name: "b", PeerAddress: "127.0.0.1:1"},
			new(adminpb.AddMemberResponse)},
		"Remove": {&adminpb.RemoveMemberRequest{Member: now.GetServerId()},
			new(adminpb.RemoveMemberResponse)},
	} {
		if err := conn.Invoke(t.Context(), "/"+adminpb.Cluster_ServiceDesc.ServiceName+"/"+method, call[0],
			call[1]); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s: got %v", method, err)
		}
	}
}

// TestChangesDuringTransfers adds and removes members while the leadership is on its way to another server:
// each change is made and reported once.
func TestChangesDuringTransfers(t *testing.T) {
	c := startCluster(t, 3)
	for round := range 4 {
		name := fmt.Sprint("new-", round)
		added := new(adminpb.AddMemberResponse)
		c.duringTransfer(round, func() error {
			return c.manage(round%3, "Add", &adminpb.AddMemberRequest{Name: name,
				PeerAddress: fmt.Sprint("127.0.0.1:", 1+round)}, added)
		})
		c.duringTransfer(round+1, func() error {
			return c.manage(round%3, "Remove", &adminpb.RemoveMemberRequest{Member: added.GetId()},
				new(adminpb.RemoveMemberResponse))
		})
	}
	c.status(0, "three servers", func(s *adminpb.ClusterStatus) bool { return len(s.GetMembers()) == 3 })
}

// duringTransfer makes a change while the leadership moves.
func (c *testCluster) duringTransfer(through int, change func() error) {
	c.t.Helper()
	moved := make(chan error, 1)
	go func() {
		moved <- c.manage(through%3, "TransferLeader", &adminpb.TransferLeaderRequest{},
			new(adminpb.TransferLeaderResponse))
	}()
	if err := change(); err != nil {
		c.t.Errorf("change: %v", err)
	}
	if err := <-moved; err != nil {
		c.t.Errorf("transfer: %v", err)
	}
}
