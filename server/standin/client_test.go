package standin

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// waitMax bounds waits for what comes at once on a machine that is not busy.
const waitMax = time.Minute

// client is a session of the plain protocol.
type client struct {
	t      *testing.T
	id     uint64
	stream Ydb_Coordination_V1.CoordinationService_SessionClient
	cancel context.CancelFunc
	heard  chan *Ydb_Coordination.SessionResponse // but for pings
	ended  chan struct{}

	sending sync.Mutex
	mute    bool // pings are not answered
	pings   int
}

// connect is a connection to a server of the stand-in.
func connect(t *testing.T, s *Server, server int) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.members[server].clients.address(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// makeNode creates a coordination node.
func makeNode(t *testing.T, conn *grpc.ClientConn, path string) {
	t.Helper()
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(t.Context(),
		&Ydb_Coordination.CreateNodeRequest{Path: path})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Fatalf("create: %v, %v", answer, err)
	}
}

// open starts a session, or goes on with one.
func open(t *testing.T, conn *grpc.ClientConn, path string, timeout time.Duration, session uint64) *client {
	t.Helper()
	c := begin(t, conn, path, timeout, session)
	c.id = c.next().GetSessionStarted().GetSessionId()
	return c
}

// begin is open without waiting for the answer.
func begin(t *testing.T, conn *grpc.ClientConn, path string, timeout time.Duration, session uint64) *client {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, stream: stream, cancel: cancel,
		heard: make(chan *Ydb_Coordination.SessionResponse, 100), ended: make(chan struct{})}
	go c.read()
	t.Cleanup(c.drop)
	c.send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStart_{
		SessionStart: &Ydb_Coordination.SessionRequest_SessionStart{Path: path, SessionId: session,
			TimeoutMillis: uint64(timeout.Milliseconds())}}})
	return c
}

func (c *client) read() {
	defer close(c.ended)
	for {
		m, err := c.stream.Recv()
		switch ping := m.GetPing(); {
		case err != nil:
			return
		case ping == nil:
			c.heard <- m
		default:
			c.pong(ping.GetOpaque())
		}
	}
}

func (c *client) pong(opaque uint64) {
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.pings++; !c.mute {
		_ = c.stream.Send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
			Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: opaque}}})
	}
}

func (c *client) silence() {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mute = true
}

func (c *client) speakAgain() {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mute = false
}

func (c *client) pinged() int {
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.pings
}

func (c *client) send(m *Ydb_Coordination.SessionRequest) {
	c.t.Helper()
	c.sending.Lock()
	defer c.sending.Unlock()
	if err := c.stream.Send(m); err != nil {
		c.t.Fatal(err)
	}
}

// next is the next message of the server that is no ping.
func (c *client) next() *Ydb_Coordination.SessionResponse {
	c.t.Helper()
	select {
	case m := <-c.heard:
		return m
	case <-c.ended:
		select {
		case m := <-c.heard:
			return m
		default:
		}
		c.t.Fatal("the stream has ended")
	case <-time.After(waitMax):
		c.t.Fatal("the server says nothing")
	}
	return nil
}

// drop breaks the stream, as a client does that dies.
func (c *client) drop() {
	c.cancel()
	<-c.ended
}

// acquire asks for a lock, and returns what the server says first.
func (c *client) acquire(name string, wait time.Duration, data string) *Ydb_Coordination.SessionResponse {
	c.t.Helper()
	c.send(acquireOf(name, wait, data))
	return c.next()
}

func acquireOf(name string, wait time.Duration, data string) *Ydb_Coordination.SessionRequest {
	return &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
		AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{ReqId: 1, Name: name,
			Count: math.MaxUint64, Ephemeral: true, TimeoutMillis: uint64(wait.Milliseconds()),
			Data: []byte(data)}}}
}

// locked is acquire of a lock that is free.
func (c *client) locked(name string) {
	c.t.Helper()
	if m := c.acquire(name, 0, "mine"); !m.GetAcquireSemaphoreResult().GetAcquired() {
		c.t.Fatalf("acquire: %v", m)
	}
}

// waits is acquire of a lock that is not.
func (c *client) waits(name string, wait time.Duration) {
	c.t.Helper()
	if m := c.acquire(name, wait, "next"); m.GetAcquireSemaphorePending() == nil {
		c.t.Fatalf("acquire: %v", m)
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(waitMax); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("waited in vain for ", what)
		}
	}
}

// kinds are those of events, with their sessions.
func kinds(events []Event) string {
	var texts []string
	for _, e := range events {
		texts = append(texts, e.String())
	}
	return strings.Join(texts, "\n")
}
