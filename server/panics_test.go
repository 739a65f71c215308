package server

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/listen"
	"github.com/coordd/coordd/server/services"
)

// onPing makes fn part of every ping that the server sends.
func onPing(s *Server, fn func(number int64)) {
	var pings atomic.Int64
	s.sessions.Policy.Opaque = func() uint64 { n := pings.Add(1); fn(n); return uint64(n) }
}

// TestPanicOfTimer has the second ping of a stream panic, which a timer sends. That stream ends, and its
// session can be taken up by another one.
func TestPanicOfTimer(t *testing.T) {
	s, conn := startTest(t, nil)
	s.sessions.Policy.MaxIntervalMillis = 100
	onPing(s, func(number int64) {
		if number == 2 {
			panic("second ping")
		}
	})
	stream := openTest(t, t.Context(), conn, start(600_000))
	id := receive(t, stream).GetSessionStarted().GetSessionId()
	ping := receive(t, stream).GetPing()
	send(t, stream, &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
		Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: ping.GetOpaque()}}})
	if end := endOf(stream); end.Code() != codes.Internal || end.Message() != "Internal error" {
		t.Fatalf("ended with %v", end)
	}
	again := start(600_000)
	again.SessionId = id
	if got := receive(t, openTest(t, t.Context(), conn,
		again)).GetSessionStarted().GetSessionId(); got != id {
		t.Fatalf("took up session %d, want %d", got, id)
	}
	if s.panics.Count() != 1 {
		t.Errorf("%d panics are counted", s.panics.Count())
	}
}

// brokenStream panics as soon as its handler reads the second message.
type brokenStream struct {
	Ydb_Coordination_V1.CoordinationService_SessionServer
	read int
}

func (b *brokenStream) RecvMsg(m any) error {
	if b.read++; b.read == 2 {
		panic("broken")
	}
	return b.CoordinationService_SessionServer.RecvMsg(m)
}

// TestPanicOfReader makes the handler of an attached stream panic. The group is notified, so the session is free.
func TestPanicOfReader(t *testing.T) {
	s, conn := startTest(t, nil)
	proxied := grpc.NewServer(listen.Codec(), grpc.ChainStreamInterceptor(s.panics.Stream))
	Ydb_Coordination_V1.RegisterCoordinationServiceServer(proxied,
		breaking{services.Coordination{Runner: s.calls, Sessions: s.sessions.Serve}})
	own := serveTest(t, proxied)
	stream := openTest(t, t.Context(), own, start(600_000))
	if end := endOf(stream); end.Code() != codes.Internal {
		t.Fatalf("ended with %v", end)
	}
	eventually(t, "the stream to end", func() bool { return len(s.group.Clients()) == 0 })
	stop := openTest(t, t.Context(), conn, start(600_000))
	receive(t, stop)
	receive(t, stop)
	send(t, stop, acquire(1, "a", nil))
	if r := receive(t, stop); !r.GetAcquireSemaphoreResult().GetAcquired() {
		t.Fatalf("got %v", r)
	}
}

// serveTest runs a gRPC server, and returns a connection to it. Both end with the test.
func serveTest(t *testing.T, server *grpc.Server) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// breaking serves sessions by handlers that panic.
type breaking struct{ services.Coordination }

func (b breaking) Session(rpc Ydb_Coordination_V1.CoordinationService_SessionServer) error {
	return b.Coordination.Session(&brokenStream{CoordinationService_SessionServer: rpc})
}

// TestPanicOfGroup has the first ping of a stream panic, which the group sends. The server must not go on
// with a state that nobody vouches for: it ends, and can still be stopped in order.
func TestPanicOfGroup(t *testing.T) {
	s, conn := startTest(t, nil)
	onPing(s, func(int64) { panic("first ping") })
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	send(t, stream, startMessage(600_000))
	<-s.Done()
	var broken *group.InvariantError
	if !errors.As(s.Err(), &broken) || broken.Reason != "first ping" ||
		!strings.Contains(broken.Stack, "Deliver") {
		t.Fatalf("ended with %v", s.Err())
	}
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(t.Context(),
		&Ydb_Coordination.CreateNodeRequest{Path: "/local/n"})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_UNAVAILABLE {
		t.Fatalf("got %v, %v", answer, err)
	}
}
