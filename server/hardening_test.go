package server

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/hooks/slow"
	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/server/listen"
	"github.com/coordd/coordd/server/sessions"
	"github.com/coordd/coordd/server/wire"
)

func TestFirstMessageIsOverdue(t *testing.T) {
	_, conn := startTest(t, func(c *Config) { c.Hardening.FirstMessage = 20 * time.Millisecond })
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := endOf(stream); s.Code() != codes.DeadlineExceeded ||
		s.Message() != "First message did not come in time" {
		t.Fatalf("ended with %v", s)
	}
}

// TestStreamsPerConnection opens as many streams as are allowed, and one more, which is refused in such a way
// that the client may try it elsewhere.
func TestStreamsPerConnection(t *testing.T) {
	s, _ := startTest(t, func(c *Config) { c.Hardening.StreamsPerConnection = 2 })
	c := dialFramesTest(t, s)
	for id := uint32(1); id <= 5; id += 2 {
		if err := c.headers(id, false, callHeaders(sessionMethod)); err != nil {
			t.Fatal(err)
		}
	}
	for {
		frame, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		reset, is := frame.(*http2.RSTStreamFrame)
		if !is {
			continue
		}
		if reset.StreamID != 5 || reset.ErrCode != http2.ErrCodeRefusedStream {
			t.Fatalf("got %v", reset)
		}
		break
	}
	eventually(t, "two streams", func() bool { return len(s.group.Clients()) == 2 })
}

func TestConnectionsPerAddress(t *testing.T) {
	s, conn := startTest(t, func(c *Config) { c.Hardening.ConnectionsPerAddress = 2 })
	admitted := func() bool {
		c, err := dialFrames(s.Addr().String())
		if err != nil {
			return false
		}
		t.Cleanup(func() { _ = c.Close() })
		return c.alive()
	}
	if !admitted() {
		t.Fatal("the second connection is refused")
	}
	if admitted() {
		t.Fatal("the third connection is let in")
	}
	if s.connections.Refused() != 1 {
		t.Errorf("%d connections are counted as refused", s.connections.Refused())
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "room for a connection", admitted)
}

// maxInFlightRequests is that of package group.
const maxInFlightRequests = 1024

// TestRequestsInFlight holds the group up and shows that the stream is read up to the limit and no further,
// and that everything is answered in the end.
func TestRequestsInFlight(t *testing.T) {
	s, conn := startTest(t, nil)
	stream := openTest(t, t.Context(), conn, start(600_000))
	next(t, stream)
	only := s.group.Clients()[0].(*sessions.Session)
	state := func() (inFlight int, paused bool) {
		backlog := only.Stream.Backlog()
		return backlog.InFlight, backlog.Paused
	}
	release, held := make(chan struct{}), make(chan struct{})
	holdUp(s, held, release)
	<-held
	const more = 500
	for i := range maxInFlightRequests - 1 {
		send(t, stream, acquire(uint64(i), fmt.Sprint(i), nil))
	}
	eventually(t, "all but one request to be in flight",
		func() bool { n, _ := state(); return n == maxInFlightRequests-1 })
	if _, paused := state(); paused {
		t.Error("the stream is not read although there is room for one more")
	}
	for i := range more {
		send(t, stream, acquire(uint64(i), fmt.Sprint("more", i), nil))
	}
	eventually(t, "the stream not to be read", func() bool { _, paused := state(); return paused })
	if n, _ := state(); n != maxInFlightRequests {
		t.Errorf("%d requests are in flight, want %d", n, maxInFlightRequests)
	}
	close(release)
	for range maxInFlightRequests - 1 + more {
		if r := next(t, stream); !r.GetAcquireSemaphoreResult().GetAcquired() {
			t.Fatalf("got %v", r)
		}
	}
}

// TestWaitingIsNotInFlight has more acquires wait, and more watches set, than may be in flight.
func TestWaitingIsNotInFlight(t *testing.T) {
	_, conn := startTest(t, func(c *Config) { c.hooks.Rings = slow.NewClock() })
	const number = maxInFlightRequests + 100
	var streams [2]sessionClient
	for i := range streams {
		streams[i] = openTest(t, t.Context(), conn, start(600_000))
		next(t, streams[i])
	}
	owner, waiter := streams[0], streams[1]
	request := func(i int) *Ydb_Coordination.SessionRequest {
		r := acquire(uint64(i), fmt.Sprint(i), nil)
		r.GetAcquireSemaphore().Count, r.GetAcquireSemaphore().TimeoutMillis = coordination.Infinite,
			coordination.Infinite
		return r
	}
	ask := func(stream sessionClient, m func(int) *Ydb_Coordination.SessionRequest,
		answered func(*Ydb_Coordination.SessionResponse) bool) {
		t.Helper()
		for i := range number { // few enough bytes for HTTP/2's windows
			send(t, stream, m(i))
		}
		for range number {
			if r := next(t, stream); !answered(r) {
				t.Fatalf("got %v", r)
			}
		}
	}
	acquired := func(
		r *Ydb_Coordination.SessionResponse) bool {
		return r.GetAcquireSemaphoreResult().GetAcquired()
	}
	ask(owner, request, acquired)
	ask(waiter, request,
		func(r *Ydb_Coordination.SessionResponse) bool { return r.GetAcquireSemaphorePending() != nil })
	ask(waiter, func(i int) *Ydb_Coordination.SessionRequest {
		return &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
			DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: uint64(number + i),
				Name: fmt.Sprint(i), WatchData: true}}}
	},
		func(r *Ydb_Coordination.SessionResponse) bool { return r.GetDescribeSemaphoreResult().GetWatchAdded() })
	ask(waiter, func(i int) *Ydb_Coordination.SessionRequest {
		return acquire(uint64(2*number+i), fmt.Sprint("own", i), nil)
	}, acquired)
}

// TestMessageSize sends a message of exactly the limit, which is read, and one a byte larger, which is not.
func TestMessageSize(t *testing.T) {
	_, conn := startTest(t, nil)
	for past := range 2 {
		m := acquire(1, "a", make([]byte, maxRequestBytes))
		over := proto.Size(m) - maxRequestBytes
		m.GetAcquireSemaphore().Data = m.GetAcquireSemaphore().Data[:maxRequestBytes-over+past]
		if proto.Size(m) != maxRequestBytes+past {
			t.Fatalf("the message has %d bytes", proto.Size(m))
		}
		for judged := false; !judged; {
			stream := openTest(t, t.Context(), conn, start(600_000))
			next(t, stream)
			send(t, stream, m)
			if past == 1 {
				if s := endOf(stream); s.Code() != codes.ResourceExhausted {
					t.Fatalf("ended with %v", s)
				}
				break
			}
			r := next(t, stream)
			// else it took a busy machine too long for a pong
			judged = r.GetFailure().GetStatus() != Ydb.StatusIds_TIMEOUT
			if judged && r.GetAcquireSemaphoreResult().GetStatus() != Ydb.StatusIds_BAD_REQUEST {
				t.Fatalf("got %v", r)
			}
		}
	}
}

// TestDescribeFitsClients receives a description of the largest size with the SDKs' receive limit, and is
// refused one that is larger.
func TestDescribeFitsClients(t *testing.T) {
	testmode.WithoutRace(t)
	var clock handClock // nobody is given up for not answering pings
	_, conn := startTest(t, func(c *Config) { c.hooks.Rings = &clock })
	owners := coordination.MaxDescribedBytes / coordination.MaxAcquireDataBytes
	for i := range owners {
		owner := openTest(t, t.Context(), conn, start(600_000))
		next(t, owner)
		send(t, owner, acquire(uint64(i), "big", make([]byte, coordination.MaxAcquireDataBytes)))
		next(t, owner)
	}
	stream := openTest(t, t.Context(), conn, start(600_000))
	next(t, stream)
	describe := &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
		DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: 1, Name: "big",
			IncludeOwners: true}}}
	send(t, stream, describe)
	if r := next(t,
		stream).GetDescribeSemaphoreResult(); len(r.GetSemaphoreDescription().GetOwners()) != owners {
		t.Fatalf("got %d owners, %v", len(r.GetSemaphoreDescription().GetOwners()), r.GetStatus())
	}
	send(t, stream, acquire(2, "big", make([]byte, coordination.MaxAcquireDataBytes)))
	next(t, stream)
	send(t, stream, describe)
	r := next(t, stream).GetDescribeSemaphoreResult()
	if r.GetStatus() != Ydb.StatusIds_PRECONDITION_FAILED ||
		!strings.Contains(r.GetIssues()[0].GetMessage(), "too large to send") {
		t.Fatalf("got %v", r)
	}
}

// TestHeaderLimit sends headers of exactly the limit, and one byte more.
func TestHeaderLimit(t *testing.T) {
	s, _ := startTest(t, nil)
	for past := range 2 {
		c := dialFramesTest(t, s)
		fields := callHeaders(sessionMethod, "x-filler", "")
		size := 0
		for i := 0; i < len(fields); i += 2 {
			size += len(fields[i]) + len(fields[i+1]) + 32
		}
		fields[len(fields)-1] = strings.Repeat("x", maxHeaderBytes-size+past)
		if err := c.headers(1, false, fields); err != nil {
			t.Fatal(err)
		}
		if past == 1 {
			if err := c.await(1, http2.FrameRSTStream); err != nil {
				t.Fatalf("want the stream reset: %v", err)
			}
			continue
		}
		if err := c.data(1, false, framed(startMessage(5000))); err != nil {
			t.Fatal(err)
		}
		if err := c.await(1, http2.FrameData); err != nil {
			t.Fatalf("want the session started: %v", err)
		}
	}
}

// TestResetStorm resets as many streams at once as is allowed, and then far more.
func TestResetStorm(t *testing.T) {
	const burst = 10
	s, _ := startTest(t, func(c *Config) { c.Hardening.ResetBurst, c.Hardening.ResetsPerSecond = burst, 1 })
	storm := func(number int) *frameClient {
		c := dialFramesTest(t, s)
		for i := range number {
			id := uint32(2*i + 1)
			if c.headers(id, false, callHeaders(sessionMethod)) != nil || c.reset(id) != nil {
				break // cut off
			}
		}
		return c
	}
	if !storm(burst).alive() {
		t.Error("cut off at the limit")
	}
	if storm(100*burst).alive() || s.connections.Cut() != 1 {
		t.Errorf("a storm is not cut off, or not counted: %d", s.connections.Cut())
	}
	eventually(t, "no streams", func() bool { return len(s.group.Clients()) == 0 })
}

// TestResetsOfTheServer makes the server reset streams, as many as is allowed and then far more, each by an invalid
// frame ("MadeYouReset"). Streams that the server ends early do not count.
func TestResetsOfTheServer(t *testing.T) {
	testmode.Long(t)
	const burst = 10
	s, _ := startTest(t, func(c *Config) { c.Hardening.ResetBurst, c.Hardening.ResetsPerSecond = burst, 1 })
	open := func(number int, more func(c *frameClient, id uint32) error) *frameClient {
		c := dialFramesTest(t, s)
		for i := range uint32(number) {
			id := 2*i + 1
			if c.headers(id, false, callHeaders(sessionMethod)) != nil || more(c, id) != nil {
				break // cut off
			}
		}
		return c
	}
	provoke := func(c *frameClient, id uint32) error {
		return c.framer.WriteRawFrame(http2.FrameWindowUpdate, 0, id, make([]byte, 4))
	}
	if !open(burst, provoke).alive() {
		t.Error("cut off at the limit")
	}
	if open(100*burst, provoke).alive() || s.connections.Cut() != 1 {
		t.Errorf("what resets is not cut off, or not counted: %d", s.connections.Cut())
	}
	if !open(10*burst, func(c *frameClient, id uint32) error {
		return c.data(id, false, framed(&Ydb_Coordination.SessionRequest{})) // no start
	}).alive() {
		t.Error("cut off for streams that the server ends")
	}
}

// TestIdleConnection shows that a connection without calls is closed and one with a session is not.
func TestIdleConnection(t *testing.T) {
	s, conn := startTest(t, func(c *Config) { c.Hardening.Idle = 30 * time.Millisecond })
	stream := openTest(t, t.Context(), conn, start(600_000))
	receive(t, stream)
	receive(t, stream)
	idle := dialFramesTest(t, s)
	if err := idle.await(0, http2.FrameGoAway); err != nil {
		t.Fatalf("want a goodbye: %v", err)
	}
	send(t, stream, acquire(1, "a", nil))
	if r := receive(t, stream); !r.GetAcquireSemaphoreResult().GetAcquired() {
		t.Fatalf("got %v", r)
	}
}

// TestTooManyPings pings a connection as often as is forgiven, and then more often.
func TestTooManyPings(t *testing.T) {
	s, _ := startTest(t, nil)
	for _, pings := range []int{1, 3, 10} {
		c := dialFramesTest(t, s)
		left := true
		for range pings {
			left = left && c.alive()
		}
		if want := pings <= 3; left != want {
			t.Errorf("%d pings at once: left open %v", pings, left)
		}
	}
}

// TestSilentConnection shows that a connection that says nothing at all is closed.
func TestSilentConnection(t *testing.T) {
	runBeside(t)
	s, _ := startTest(t, func(c *Config) { c.Hardening.Handshake = inTime })
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for buffer := make([]byte, 1024); err == nil; {
		_, err = conn.Read(buffer)
	}
}

// stuckClient is a stream whose client sends a SessionStart and reads nothing until the stream is ended.
type stuckClient struct {
	Ydb_Coordination_V1.CoordinationService_SessionServer
	ctx     context.Context
	started bool
	sending chan struct{} // closed when the first message is being sent
	ended   chan struct{}
	status  *status.Status
}

func (c *stuckClient) Context() context.Context { return c.ctx }

func (c *stuckClient) RecvMsg(m any) error {
	if c.started {
		<-c.ended
		return c.status.Err()
	}
	c.started = true
	*(*coordination.ClientMessage)(m.(*wire.ClientMessage)) = coordination.ClientMessage{Kind: coordination.ClientStart,
		Start: &coordination.AttachRequest{Path: testNode, TimeoutMillis: 600_000}}
	return nil
}

func (c *stuckClient) SendMsg(any) error {
	close(c.sending)
	<-c.ended
	return c.status.Err()
}

func (c *stuckClient) WriteStatus(s *status.Status) error {
	c.status = s
	close(c.ended)
	return nil
}

// TestEndIsNotRead ends a stream whose client does not read the end.
func TestEndIsNotRead(t *testing.T) {
	s, _ := startTest(t, func(c *Config) { c.Hardening.Linger = time.Second / 2 }) // enough for the calls before
	client := &stuckClient{sending: make(chan struct{}), ended: make(chan struct{})}
	client.ctx = listen.WithStatusWriter(t.Context(), client)
	served := make(chan error, 1)
	go func() { served <- s.sessions.Serve(client) }()
	<-client.sending
	s.group.Clients()[0].(*sessions.Session).Stream.End(coordination.LinkFailure)
	if err := <-served; err != nil {
		t.Error(err)
	}
	if client.status.Code() != codes.ResourceExhausted {
		t.Fatalf("ended with %v", client.status)
	}
}

func TestHardeningValidate(t *testing.T) {
	for _, bad := range []Hardening{{Streams: -1}, {ResetBurst: 1<<30 + 1}, {Idle: -time.Second},
		{Linger: time.Microsecond}} {
		if bad.withDefaults(Resources{}).validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	if err := (Hardening{}).withDefaults(Resources{}).validate(); err != nil {
		t.Error(err)
	}
}
