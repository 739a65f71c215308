package console_test

import (
	"context"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

type (
	request  = Ydb_Coordination.SessionRequest
	response = Ydb_Coordination.SessionResponse
)

const forever = 1<<64 - 1

// session is a session of a client whose only habit is to answer pings.
type session struct {
	t       *testing.T
	stream  grpc.BidiStreamingClient[request, response]
	conn    *grpc.ClientConn
	answers chan *response
	id      uint64
}

// newSession starts a session of a node. Its stream ends with the test, or with cut.
func (s *server) newSession(t *testing.T, path, description string, timeout time.Duration) *session {
	t.Helper()
	conn, err := grpc.NewClient(s.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	c := &session{t: t, conn: conn, answers: make(chan *response, 1024)}
	t.Cleanup(c.cut)
	ctx := metadata.AppendToOutgoingContext(context.Background(), "x-ydb-database", "/local", "x-ydb-sdk-build-info",
		"ydb-go-sdk/3.156.1")
	if c.stream, err = Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(ctx); err != nil {
		t.Fatal(err)
	}
	c.send(&request{Request: &Ydb_Coordination.SessionRequest_SessionStart_{
		SessionStart: &Ydb_Coordination.SessionRequest_SessionStart{
			Path: path, Description: description, TimeoutMillis: uint64(timeout.Milliseconds())}}})
	go c.read()
	c.id = c.await(func(r *response) bool { return r.GetSessionStarted() != nil }).GetSessionStarted().GetSessionId()
	return c
}

func (c *session) read() {
	for {
		r, err := c.stream.Recv()
		if err != nil {
			close(c.answers)
			return
		}
		if ping := r.GetPing(); ping != nil {
			_ = c.stream.Send(&request{Request: &Ydb_Coordination.SessionRequest_Pong{
				Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: ping.GetOpaque()}}})
			continue
		}
		c.answers <- r
	}
}

func (c *session) send(r *request) {
	c.t.Helper()
	if err := c.stream.Send(r); err != nil {
		c.t.Fatal(err)
	}
}

// await returns the next answer that is wanted.
func (c *session) await(wanted func(*response) bool) *response {
	c.t.Helper()
	for r := range c.answers {
		if wanted(r) {
			return r
		}
	}
	c.t.Fatal("the stream has ended")
	return nil
}

// cut ends the stream as the death of the client does: the session lives on for its timeout.
func (c *session) cut() { _ = c.conn.Close() }

// create makes semaphores of a limit.
func (c *session) create(limit uint64, names ...string) {
	c.t.Helper()
	go func() {
		for i, name := range names {
			_ = c.stream.Send(&request{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
				CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{
					ReqId: uint64(i), Name: name, Limit: limit}}})
		}
	}()
	for range names {
		c.await(func(r *response) bool { return r.GetCreateSemaphoreResult() != nil })
	}
}

// acquire asks for tokens, and waits until it is known that the session has them, or waits for them.
func (c *session) acquire(name string, count uint64, timeout uint64) {
	c.t.Helper()
	c.send(&request{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
		AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{
			Name: name, Count: count, TimeoutMillis: timeout}}})
	c.await(func(r *response) bool {
		return r.GetAcquireSemaphoreResult() != nil || r.GetAcquireSemaphorePending() != nil
	})
}

// awaitGrant waits until the session gets the semaphore that it waits for.
func (c *session) awaitGrant() {
	c.t.Helper()
	c.await(func(r *response) bool { return r.GetAcquireSemaphoreResult().GetAcquired() })
}

// acquireNew makes a lock and takes it.
func (c *session) acquireNew(name string) {
	c.t.Helper()
	c.create(1, name)
	c.acquire(name, 1, forever)
}

// release gives a semaphore back.
func (c *session) release(name string) {
	c.t.Helper()
	c.send(&request{Request: &Ydb_Coordination.SessionRequest_ReleaseSemaphore_{
		ReleaseSemaphore: &Ydb_Coordination.SessionRequest_ReleaseSemaphore{Name: name}}})
}
