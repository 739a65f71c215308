package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/group/streams"
	"github.com/coordd/coordd/server/sessions"
)

// stopWithoutABound stops a server that has to find the end by itself.
func stopWithoutABound(t *testing.T, s *Server) {
	t.Helper()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(waitMax):
		t.Fatal("the server does not stop")
	}
}

// patient makes a server wait for its clients for hours, where it waits for them at all.
func patient(c *Config) {
	c.Hardening.Handshake, c.Hardening.Linger, c.Hardening.Idle = time.Hour, time.Hour, time.Hour
	c.replaced.backupStall = time.Hour
}

// TestStopIsHeldUpByNobody stops a server on which something is open that would last for hours.
func TestStopIsHeldUpByNobody(t *testing.T) {
	for name, hold := range map[string]func(t *testing.T, s *Server, conn *grpc.ClientConn){
		"a connection that says nothing": func(t *testing.T, s *Server, _ *grpc.ClientConn) {
			before := s.connections.Open()
			silent, err := net.Dial("tcp", s.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = silent.Close() })
			eventually(t, "the connection", func() bool { return s.connections.Open() > before })
		},
		"a health watch": func(t *testing.T, s *Server, conn *grpc.ClientConn) {
			watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(),
				&grpc_health_v1.HealthCheckRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := watch.Recv(); err != nil {
				t.Fatal(err)
			}
		},
		"a session whose client does not read": func(t *testing.T, s *Server, conn *grpc.ClientConn) {
			stream := openTest(t, t.Context(), conn, start(10_000))
			receiveStarted(t, stream)
			for n := range uint64(400) { // more than the windows of both sides hold
				name := fmt.Sprint("s", n%8)
				send(t, stream, create(2*n, name, make([]byte, 4<<10)))
				send(t, stream, describeSemaphore(2*n+1, name))
			}
			eventually(t, "a writer that is held up", func() bool {
				return slices.ContainsFunc(s.group.Clients(), func(client streams.Client) bool {
					// of 800 answers; how many a client takes unread varies
					return client.(*sessions.Session).Stream.Backlog().Queued > 200
				})
			})
		},
		"a snapshot that nobody reads": func(t *testing.T, s *Server, conn *grpc.ClientConn) {
			session := openTest(t, t.Context(), conn, start(10_000))
			receiveStarted(t, session)
			for n := range uint64(64) {
				send(t, session, create(n, fmt.Sprint("s", n), make([]byte, 64<<10)))
				if r := next(t, session); r.GetCreateSemaphoreResult() == nil {
					t.Fatal(r)
				}
			}
			stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true},
				"/"+adminpb.Cluster_ServiceDesc.ServiceName+"/Snapshot")
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(stream.SendMsg(&adminpb.SnapshotRequest{}),
				stream.CloseSend()); err != nil {
				t.Fatal(err)
			}
			if err := stream.RecvMsg(new(adminpb.SnapshotChunk)); err != nil {
				t.Fatal(err)
			}
		},
		"a checkpoint": func(t *testing.T, s *Server, _ *grpc.ClientConn) {
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan struct{})
			go func() { defer close(ended); _, _ = s.group.Backup(ctx, io.Discard) }()
			t.Cleanup(func() { cancel(); <-ended })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, conn := startTest(t, func(c *Config) {
				c.InMemory, c.DataDir = false, t.TempDir()
				patient(c)
			})
			hold(t, s, conn)
			stopWithoutABound(t, s)
		})
	}
}

// receiveStarted waits for the session.
func receiveStarted(t *testing.T, stream sessionClient) {
	t.Helper()
	if r := next(t, stream); r.GetSessionStarted() == nil {
		t.Fatalf("got %v", r)
	}
}

func create(reqID uint64, name string, data []byte) *Ydb_Coordination.SessionRequest {
	return &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
		CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: reqID, Name: name, Limit: 1,
			Data: data}}}
}

func describeSemaphore(reqID uint64, name string) *Ydb_Coordination.SessionRequest {
	return &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
		DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: reqID, Name: name}}}
}

// TestStopWithoutALeader stops the last server of three while a call waits for a leader, and a session for
// the next one.
func TestStopWithoutALeader(t *testing.T) {
	c := startClusterWith(t, 3, patient)
	leads, last := c.leader()
	c.createNode(last, testNode)
	openSession(t, c.conns[last])
	c.stop(leads)
	for i := range c.servers {
		if i != last {
			c.stop(i)
		}
	}
	s := c.servers[last]
	eventually(t, "the loss of the leader", func() bool { return s.store.Leader() == 0 })
	ctx, cancel := context.WithCancel(context.Background())
	called := make(chan error, 1)
	go func() {
		_, err := Ydb_Coordination_V1.NewCoordinationServiceClient(c.conns[last]).CreateNode(ctx,
			&Ydb_Coordination.CreateNodeRequest{
				Path: "/local/another",
				OperationParams: &Ydb_Operations.OperationParams{OperationTimeout: durationpb.New(
					time.Hour)}})
		called <- err
	}()
	defer func() { cancel(); <-called }()
	// to where servers talk to each other
	silent, err := net.Dial("tcp", c.initial[fmt.Sprint("server-", last)])
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	stopWithoutABound(t, s)
	c.servers[last] = nil
}

// TestStopAbandonsACall wants a stop to come to the point at which nobody is served any more although a call
// does not end by itself, nor when its connection is closed.
func TestStopAbandonsACall(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	var hold func() // within the call
	s, conn := startTest(t, func(c *Config) {
		patient(c)
		c.hooks.Shuffle = func(int, func(i, j int)) { hold() }
	})
	hold = func() { // the call's own goroutine takes the turn
		_, _ = s.group.Read(context.Background(), func(*coordination.Machine) outcome.Outcome {
			close(held)
			<-release
			return outcome.Done()
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	called := make(chan struct{})
	go func() {
		defer close(called)
		_, _ = Ydb_Discovery_V1.NewDiscoveryServiceClient(conn).ListEndpoints(ctx,
			&Ydb_Discovery.ListEndpointsRequest{Database: "/local"})
	}()
	<-held
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	select {
	case <-s.Drained():
	case <-time.After(waitMax):
		t.Error("a call that does not end holds up the stop")
	}
	close(release)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	cancel()
	<-called
}

// TestStrangersAreClosedFirst closes a connection before the client has sent its preface, and one after.
func TestStrangersAreClosedFirst(t *testing.T) {
	s, conn := startTest(t, patient) // conn has made a call, so it is no stranger
	silent, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	eventually(t, "both connections", func() bool { return s.connections.Open() == 2 })
	s.connections.CloseStrangers()
	if n, err := silent.Read(make([]byte, 1024)); err == nil && n == 0 {
		t.Error("the silent connection is open")
	}
	eventually(t, "the end of the silent one", func() bool { return s.connections.Open() == 1 })
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(),
		&grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("the other connection was closed as well: %v", err)
	}
	late, err := grpc.NewClient(s.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if _, err := grpc_health_v1.NewHealthClient(late).Check(t.Context(),
		&grpc_health_v1.HealthCheckRequest{}); err == nil {
		t.Error("a stopping server lets clients in")
	}
}

// TestRefusedAtItsFirstMessage opens a stream where all streams were ended, on a connection that knows
// nothing of a stop yet: the client can send its SessionStart, and gets the same end as the streams before.
func TestRefusedAtItsFirstMessage(t *testing.T) {
	s, conn := startTest(t, nil)
	s.group.EndStreams(coordination.LinkFailure)
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(),
		&grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	send(t, stream,
		&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStart_{SessionStart: start(10_000)}})
	f := next(t, stream).GetFailure()
	if f.GetStatus() != Ydb.StatusIds_UNAVAILABLE || len(f.GetIssues()) != 1 ||
		f.GetIssues()[0].GetMessage() != coordination.LinkFailure.Text {
		t.Errorf("got %v", f)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("the stream goes on: %v", err)
	}
}

// TestStoppingLeaderTellsItsClients: the streams on a leader end with a Failure, as those on other servers
// do, although somebody else leads as soon as it has handed over.
func TestStoppingLeaderTellsItsClients(t *testing.T) {
	c := startCluster(t, 3)
	leader, _ := c.leader()
	c.createNode(leader, testNode)
	stream := openTest(t, t.Context(), c.conns[leader], start(600_000))
	receiveStarted(t, stream)
	stopped := make(chan struct{})
	go func() { defer close(stopped); c.stop(leader) }()
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatalf("ended without a word: %v", err)
		}
		if f := m.GetFailure(); f != nil {
			if f.GetStatus() != Ydb.StatusIds_UNAVAILABLE {
				t.Errorf("got %v", f)
			}
			break
		}
	}
	<-stopped
}
