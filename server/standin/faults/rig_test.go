package faults_test

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	pb "github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/standin/faults"
)

// net/http leaves a connection open for half a second whose client has said too much.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

const (
	node = "/local/dir/node"
	// soon bounds a test's waiting for what must come, on a machine that has better things to do.
	soon = time.Minute
)

// rig is a stand-in with a coordination node, and a client's connection.
type rig struct {
	*testing.T
	*faults.Set
	server *server.Server
	conn   *grpc.ClientConn
	clock  *clock // of delays; nil: the real one
}

func start(t *testing.T) *rig { return startOn(t, nil) }

func startOn(t *testing.T, c *clock) *rig {
	t.Helper()
	r := &rig{T: t, clock: c}
	if c == nil {
		r.Set = faults.New("/local", nil)
	} else {
		r.Set = faults.New("/local", c.after)
	}
	config := server.Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true, LoopbackAdmin: true}
	s, err := server.StartWith(t.Context(), config, hooks.Hooks{Faults: r.Set.Server(1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Reset()
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	r.server, r.conn = s, dial(t, s)
	if got := r.createNode(node); got != Ydb.StatusIds_SUCCESS {
		t.Fatalf("create: %s", got)
	}
	return r
}

func dial(t *testing.T, s *server.Server) *grpc.ClientConn {
	conn, err := grpc.NewClient(s.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (r *rig) nodes() Ydb_Coordination_V1.CoordinationServiceClient {
	return Ydb_Coordination_V1.NewCoordinationServiceClient(r.conn)
}

func (r *rig) createNode(path string) Ydb.StatusIds_StatusCode {
	r.Helper()
	answer, err := r.nodes().CreateNode(r.Context(), &pb.CreateNodeRequest{Path: path})
	if err != nil {
		r.Fatal(err)
	}
	return answer.GetOperation().GetStatus()
}

// client is a stream that answers pings while it is read, which is always.
type client struct {
	*rig
	stream  Ydb_Coordination_V1.CoordinationService_SessionClient
	session uint64
	cancel  func()

	sending sync.Mutex
	got     chan *pb.SessionResponse // closed at the end
	pings   chan struct{}            // one for each ping, as long as there is room
	end     error
}

// open opens a stream and sends its start.
func (r *rig) open(s *pb.SessionRequest_SessionStart) *client {
	r.Helper()
	return r.openOn(r.conn, s)
}

func (r *rig) openOn(conn *grpc.ClientConn, s *pb.SessionRequest_SessionStart) *client {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	r.Cleanup(cancel)
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(ctx)
	if err != nil {
		r.Fatal(err)
	}
	c := &client{rig: r, stream: stream, cancel: cancel, got: make(chan *pb.SessionResponse, 1000),
		pings: make(chan struct{}, 1000)}
	go c.read()
	c.send(&pb.SessionRequest{Request: &pb.SessionRequest_SessionStart_{SessionStart: s}})
	return c
}

func (c *client) read() {
	defer close(c.got)
	for {
		m, err := c.stream.Recv()
		if err != nil {
			c.end = err
			return
		}
		if ping := m.GetPing(); ping != nil {
			c.send(&pb.SessionRequest{Request: &pb.SessionRequest_Pong{
				Pong: &pb.SessionRequest_PingPong{Opaque: ping.GetOpaque()}}})
			select {
			case c.pings <- struct{}{}:
			default:
			}
			continue
		}
		c.got <- m
	}
}

func (c *client) send(m *pb.SessionRequest) {
	c.sending.Lock()
	defer c.sending.Unlock()
	_ = c.stream.Send(m) // its end is read
}

// attach opens a stream for a new session, or for one that there is.
func (r *rig) attach(session uint64) *client { r.Helper(); return r.attachFor(session, 10*time.Second) }

func (r *rig) attachFor(session uint64, timeout time.Duration) *client {
	r.Helper()
	c := r.open(&pb.SessionRequest_SessionStart{Path: node, SessionId: session,
		TimeoutMillis: uint64(timeout.Milliseconds())})
	c.started()
	return c
}

func (c *client) started() {
	c.Helper()
	if c.session = c.next().GetSessionStarted().GetSessionId(); c.session == 0 {
		c.Fatal("not started")
	}
}

// next is the next message, pings aside.
func (c *client) next() *pb.SessionResponse {
	c.Helper()
	select {
	case m, open := <-c.got:
		if !open {
			c.Fatalf("the stream has ended: %v", c.end)
		}
		return m
	case <-time.After(soon):
		c.Fatal("nothing comes")
	}
	return nil
}

// ended returns the stream's last messages and the status with which it ends.
func (c *client) ended() (said []*pb.SessionResponse, code codes.Code) {
	c.Helper()
	late := time.After(soon)
	for {
		select {
		case m, open := <-c.got:
			if open {
				said = append(said, m)
				continue
			}
			if errors.Is(c.end, io.EOF) {
				return said, codes.OK
			}
			return said, status.Code(c.end)
		case <-late:
			c.Fatal("the stream does not end")
		}
	}
}

// failed is the Failure with which the stream ends as the protocol has it.
func (c *client) failed() *pb.SessionResponse_Failure {
	c.Helper()
	said, code := c.ended()
	if len(said) != 1 || said[0].GetFailure() == nil || code != codes.OK {
		c.Fatalf("got %v and %v, want a Failure and OK", said, code)
	}
	return said[0].GetFailure()
}

// acquire wants a lock for itself.
func acquire(id uint64, name string) *pb.SessionRequest {
	return &pb.SessionRequest{Request: &pb.SessionRequest_AcquireSemaphore_{
		AcquireSemaphore: &pb.SessionRequest_AcquireSemaphore{
			ReqId: id, Name: name, Count: math.MaxUint64, Ephemeral: true, TimeoutMillis: 1 << 20}}}
}

func release(id uint64, name string) *pb.SessionRequest {
	return &pb.SessionRequest{Request: &pb.SessionRequest_ReleaseSemaphore_{
		ReleaseSemaphore: &pb.SessionRequest_ReleaseSemaphore{ReqId: id, Name: name}}}
}

func create(id uint64, name string) *pb.SessionRequest {
	return &pb.SessionRequest{Request: &pb.SessionRequest_CreateSemaphore_{
		CreateSemaphore: &pb.SessionRequest_CreateSemaphore{
			ReqId: id, Name: name, Limit: 1}}}
}

func update(id uint64, name, data string) *pb.SessionRequest {
	return &pb.SessionRequest{Request: &pb.SessionRequest_UpdateSemaphore_{
		UpdateSemaphore: &pb.SessionRequest_UpdateSemaphore{
			ReqId: id, Name: name, Data: []byte(data)}}}
}

func describe(id uint64, name string, watch bool) *pb.SessionRequest {
	return &pb.SessionRequest{Request: &pb.SessionRequest_DescribeSemaphore_{
		DescribeSemaphore: &pb.SessionRequest_DescribeSemaphore{
			ReqId: id, Name: name, IncludeOwners: true, WatchData: watch, WatchOwners: watch}}}
}

// owners returns the sessions that own a semaphore; a missing semaphore has no owners.
func (r *rig) owners(name string) (sessions []uint64) {
	r.Helper()
	c := r.attach(0)
	defer c.stop()
	c.send(describe(1, name, false))
	for _, owner := range c.next().GetDescribeSemaphoreResult().GetSemaphoreDescription().GetOwners() {
		sessions = append(sessions, owner.GetSessionId())
	}
	return sessions
}

func (c *client) stop() {
	c.Helper()
	c.send(&pb.SessionRequest{Request: &pb.SessionRequest_SessionStop_{SessionStop: &pb.SessionRequest_SessionStop{}}})
	if c.next().GetSessionStopped() == nil {
		c.Fatal("not stopped")
	}
}

// eventually waits for a state.
func (r *rig) eventually(what string, reached func() bool) {
	r.Helper()
	for late := time.Now().Add(soon); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			r.Fatalf("never: %s", what)
		}
	}
}

// clock is turned by hand.
type clock struct {
	mutex  sync.Mutex
	timers map[*timer]struct{}
	now    time.Duration
}

type timer struct {
	due time.Duration
	do  func()
}

func (c *clock) after(d time.Duration, do func()) (stop func() bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	t := &timer{c.now + d, do}
	if c.timers == nil {
		c.timers = make(map[*timer]struct{})
	}
	c.timers[t] = struct{}{}
	return func() bool {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		_, runs := c.timers[t]
		delete(c.timers, t)
		return runs
	}
}

func (c *clock) running() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.timers)
}

func (c *clock) advance(d time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.now += d
	for t := range c.timers {
		if t.due <= c.now {
			delete(c.timers, t)
			go t.do()
		}
	}
}
