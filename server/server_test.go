package server

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testNode = "/local/dir/node"

// startTest runs a server in memory with one coordination node, and a connection to it. Both end with the
// test.
func startTest(t *testing.T, change func(*Config)) (*Server, *grpc.ClientConn) {
	t.Helper()
	config := Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true, LoopbackAdmin: true,
		replaced: replaced{keepalive: waitMax}}
	if change != nil {
		change(&config)
	}
	s, conn := serve(t, config)
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(t.Context(),
		&Ydb_Coordination.CreateNodeRequest{Path: testNode})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		t.Fatalf("create: %v, %v", answer, err)
	}
	return s, conn
}

// serve starts a server for as long as the test runs, and connects to it.
func serve(t *testing.T, config Config) (*Server, *grpc.ClientConn) {
	t.Helper()
	s, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitMax)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s, connect(t, s, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)))
}

// connect connects to the server for as long as the test runs, in plaintext.
func connect(t *testing.T, s *Server, more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.Addr().String(), append(append(ending(), more...),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// connectNarrow connects to the server for as long as the test runs. A stream of this connection takes 64 KiB
// that nobody reads, and no more; many together do not fill the connection.
func connectNarrow(t *testing.T, s *Server) *grpc.ClientConn {
	t.Helper()
	return connect(t, s, grpc.WithStaticStreamWindowSize(1<<16), grpc.WithStaticConnWindowSize(1<<30))
}

type sessionClient = Ydb_Coordination_V1.CoordinationService_SessionClient

func openTest(t *testing.T, ctx context.Context, conn *grpc.ClientConn,
	start *Ydb_Coordination.SessionRequest_SessionStart) sessionClient {
	t.Helper()
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	send(t, stream,
		&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStart_{SessionStart: start}})
	return stream
}

func send(t *testing.T, stream sessionClient, m *Ydb_Coordination.SessionRequest) {
	t.Helper()
	if err := stream.Send(m); err != nil {
		t.Fatalf("%v: %v", err, ended(stream))
	}
}

// ended returns the last messages of a stream that is over, and its error: Send does not return it.
func ended(stream sessionClient) (said []any) {
	for {
		m, err := stream.Recv()
		if err != nil {
			return append(said, err)
		}
		said = append(said, m)
	}
}

func receive(t *testing.T, stream sessionClient) *Ydb_Coordination.SessionResponse {
	t.Helper()
	m, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func start(timeoutMillis uint64) *Ydb_Coordination.SessionRequest_SessionStart {
	return &Ydb_Coordination.SessionRequest_SessionStart{Path: testNode, TimeoutMillis: timeoutMillis}
}

func acquire(reqID uint64, name string, data []byte) *Ydb_Coordination.SessionRequest {
	return &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
		AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{ReqId: reqID, Name: name,
			Count: 1, Ephemeral: true, Data: data}}}
}

// endOf reads until the stream ends and returns its gRPC status.
func endOf(stream sessionClient) *status.Status {
	for {
		if _, err := stream.Recv(); err != nil {
			if err.Error() == "EOF" {
				return status.New(codes.OK, "")
			}
			s, _ := status.FromError(err)
			return s
		}
	}
}

// TestStreamEndsFromOutside shows that a Failure that comes from the clock ends the RPC with status OK
// although its handler is reading: the linked gRPC has what listen.StatusWriter wants.
func TestStreamEndsFromOutside(t *testing.T) {
	_, conn := startTest(t, nil)
	stream := openTest(t, t.Context(), conn, start(30)) // pinged every 10 ms, and never answers
	receive(t, stream)
	receive(t, stream)
	failure := receive(t, stream).GetFailure()
	if failure.GetStatus() != Ydb.StatusIds_TIMEOUT || failure.GetIssues()[0].GetMessage() != "Ping timeout" {
		t.Fatalf("got %v", failure)
	}
	if s := endOf(stream); s.Code() != codes.OK {
		t.Fatalf("ended with %v", s)
	}
}

// TestStartsEveryTime starts and stops a server again and again: whatever the order in which its goroutines
// come, it serves.
func TestStartsEveryTime(t *testing.T) {
	for range 300 {
		s, err := Start(t.Context(), Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFirstMessageMustBeStart(t *testing.T) {
	_, conn := startTest(t, nil)
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	send(t, stream, acquire(1, "a", nil))
	if s := endOf(stream); s.Code() != codes.InvalidArgument ||
		s.Message() != "First message must be a SessionStart" {
		t.Fatalf("ended with %v", s)
	}
}

func TestHalfCloseAbandons(t *testing.T) {
	_, conn := startTest(t, nil)
	for _, attached := range []bool{false, true} {
		stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if attached {
			send(t, stream,
				&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStart_{SessionStart: start(600_000)}})
			receive(t, stream)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if s := endOf(stream); s.Code() != codes.Canceled || s.Message() != "Request abandoned" {
			t.Fatalf("attached %v: ended with %v", attached, s)
		}
	}
}

// TestStopTellsStreams shows that a stopping server ends its streams with Failure UNAVAILABLE and leaves no
// goroutine.
func TestStopTellsStreams(t *testing.T) {
	s, conn := startTest(t, nil)
	var streams []sessionClient
	for range 10 {
		stream := openTest(t, t.Context(), conn, start(600_000))
		receive(t, stream)
		streams = append(streams, stream)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, stream := range streams {
		receive(t, stream) // the first ping
		failure := receive(t, stream).GetFailure()
		if failure.GetStatus() != Ydb.StatusIds_UNAVAILABLE ||
			failure.GetIssues()[0].GetMessage() != "Link failure" {
			t.Fatalf("got %v", failure)
		}
		if s := endOf(stream); s.Code() != codes.OK {
			t.Fatalf("ended with %v", s)
		}
	}
}

// TestDeadReaderIsCutOff floods a stream that nobody reads. Others must not notice.
func TestDeadReaderIsCutOff(t *testing.T) {
	s, conn := startTest(t, nil)
	good := openTest(t, t.Context(), conn, start(600_000))
	receive(t, good)
	receive(t, good)
	writer := openTest(t, t.Context(), conn, start(600_000))
	receive(t, writer)
	receive(t, writer)
	send(t, writer, acquire(1, "big", make([]byte, 1<<20)))
	receive(t, writer)
	own, err := grpc.NewClient(conn.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	dead := openTest(t, t.Context(), own, start(600_000))
	for i := range 2 + maxOutboundBytes>>20*2 {
		describe := &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: uint64(i), Name: "big",
			IncludeOwners: true}
		if err := dead.Send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{DescribeSemaphore: describe}}); err != nil {
			break // cut off
		}
		if i%8 == 0 {
			send(t, good, acquire(uint64(i), fmt.Sprint("good", i), nil))
			if r := receive(t, good); !r.GetAcquireSemaphoreResult().GetAcquired() {
				t.Fatalf("got %v", r)
			}
		}
	}
	// The dead client will not read what became of its stream.
	eventually(t, "the stream to end", func() bool { return len(s.group.Clients()) == 2 })
}

// TestMessageTooLarge sends one message over the limit: that stream ends, nothing else.
func TestMessageTooLarge(t *testing.T) {
	_, conn := startTest(t, nil)
	stream := openTest(t, t.Context(), conn, start(600_000))
	receive(t, stream)
	receive(t, stream)
	send(t, stream, acquire(1, "a", make([]byte, maxRequestBytes+1)))
	if s := endOf(stream); s.Code() != codes.ResourceExhausted {
		t.Fatalf("ended with %v", s)
	}
	again := openTest(t, t.Context(), conn, start(600_000))
	if receive(t, again).GetSessionStarted().GetSessionId() == 0 {
		t.Fatal("no session")
	}
}

// TestPythonIsPingedOften shows the shorter interval, and that a ping counts as its pong, answered by a pong.
func TestPythonIsPingedOften(t *testing.T) {
	runBeside(t)
	_, conn := startTest(t, nil)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-ydb-sdk-build-info", "ydb-python-sdk/3.21.0")
	stream := openTest(t, ctx, conn, start(600_000))
	receive(t, stream)
	begin := time.Now()
	for range 2 {
		ping := receive(t, stream).GetPing()
		send(t, stream, &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Ping{
			Ping: &Ydb_Coordination.SessionRequest_PingPong{Opaque: ping.GetOpaque()}}})
		if pong := receive(t, stream).GetPong(); pong.GetOpaque() != ping.GetOpaque() ||
			ping.GetOpaque() == 0 {
			t.Fatalf("ping %v answered with %v", ping, pong)
		}
	}
	t.Logf("two pings within %v", time.Since(begin))
}

// TestCompression calls with what clients may compress by: Go's gzip and, as the C++ SDK lets its users
// choose, deflate.
func TestCompression(t *testing.T) {
	_, conn := startTest(t, nil)
	for _, name := range []string{gzip.Name, "deflate"} {
		answer, err := Ydb_Scheme_V1.NewSchemeServiceClient(conn).ListDirectory(t.Context(),
			&Ydb_Scheme.ListDirectoryRequest{Path: "/local"}, grpc.UseCompressor(name))
		if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
			t.Errorf("%s: got %v, %v", name, answer, err)
		}
		session, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(t.Context(),
			grpc.UseCompressor(name))
		if err != nil {
			t.Fatal(err)
		}
		send(t, session, startMessage(briefTimeoutMillis))
		if got := receive(t, session); got.GetSessionStarted() == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestDiscovery(t *testing.T) {
	s, conn := startTest(t, func(c *Config) { c.Advertise = "coordd.example" })
	client := Ydb_Discovery_V1.NewDiscoveryServiceClient(conn)
	answer, err := client.ListEndpoints(t.Context(), &Ydb_Discovery.ListEndpointsRequest{Database: "/local"})
	if err != nil {
		t.Fatal(err)
	}
	var result Ydb_Discovery.ListEndpointsResult
	if err := answer.GetOperation().GetResult().UnmarshalTo(&result); err != nil {
		t.Fatal(err)
	}
	e := result.GetEndpoints()[0]
	if len(result.GetEndpoints()) != 1 || e.GetAddress() != "coordd.example" ||
		int(e.GetPort()) != s.Addr().(*net.TCPAddr).Port ||
		e.GetNodeId() == 0 || e.GetSsl() || result.GetSelfLocation() == "" {
		t.Fatalf("got %v", &result)
	}
	unknown, err := client.ListEndpoints(t.Context(), &Ydb_Discovery.ListEndpointsRequest{Database: "/other"})
	if err != nil || unknown.GetOperation().GetStatus() != Ydb.StatusIds_NOT_FOUND {
		t.Fatalf("got %v, %v", unknown, err)
	}
	who, err := client.WhoAmI(t.Context(), &Ydb_Discovery.WhoAmIRequest{})
	if err != nil || who.GetOperation().GetStatus() != Ydb.StatusIds_GENERIC_ERROR {
		t.Fatalf("got %v, %v", who, err)
	}
}

func TestHealth(t *testing.T) {
	_, conn := startTest(t, nil)
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(),
		&grpc_health_v1.HealthCheckRequest{})
	if err != nil || answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("got %v, %v", answer, err)
	}
}

// TestOperationParams holds the group up, so that the bounds of a call run out.
func TestOperationParams(t *testing.T) {
	s, conn := startTest(t, nil)
	release := make(chan struct{})
	held := make(chan struct{})
	holdUp(s, held, release)
	<-held
	client := Ydb_Coordination_V1.NewCoordinationServiceClient(conn)
	for want, params := range map[Ydb.StatusIds_StatusCode]*Ydb_Operations.OperationParams{
		Ydb.StatusIds_TIMEOUT:   {OperationTimeout: durationpb.New(time.Millisecond)},
		Ydb.StatusIds_CANCELLED: {CancelAfter: durationpb.New(time.Millisecond)},
	} {
		answer, err := client.CreateNode(t.Context(),
			&Ydb_Coordination.CreateNodeRequest{Path: "/local/n", OperationParams: params})
		if err != nil || answer.GetOperation().GetStatus() != want {
			t.Errorf("want %v, got %v, %v", want, answer, err)
		}
		described, err := client.DescribeNode(t.Context(),
			&Ydb_Coordination.DescribeNodeRequest{Path: testNode, OperationParams: params})
		if err != nil || described.GetOperation().GetStatus() != want {
			t.Errorf("want %v, got %v, %v", want, described, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	answer, err := client.CreateNode(ctx, &Ydb_Coordination.CreateNodeRequest{Path: "/local/n"})
	// The server answers a little before the deadline; so short before it, either may come first.
	inTime := err == nil && answer.GetOperation().GetStatus() == Ydb.StatusIds_UNAVAILABLE
	if !inTime && status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v, %v", answer, err)
	}
	close(release)
}

func TestTooManyStreams(t *testing.T) {
	_, conn := startTest(t, func(c *Config) { c.Hardening.Streams = 1 })
	next(t, openTest(t, t.Context(), conn, start(600_000)))
	stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&Ydb_Coordination.SessionRequest{}) // the stream may have ended already
	if s := endOf(stream); s.Code() != codes.ResourceExhausted || s.Message() != "Too many requests" {
		t.Fatalf("ended with %v", s)
	}
}

func TestConfigValidate(t *testing.T) {
	good := Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true}
	for name, test := range map[string]struct {
		change func(*Config)
		want   string // part of the error, empty for none
	}{
		"as it is":              {func(*Config) {}, ""},
		"advertised host":       {func(c *Config) { c.Advertise = "example.org" }, ""},
		"advertised host, port": {func(c *Config) { c.Advertise = "example.org:1" }, ""},
		"advertised IPv6":       {func(c *Config) { c.Advertise = "::1" }, ""},
		"advertised IPv6, port": {func(c *Config) { c.Advertise = "[::1]:2136" }, ""},
		"no port":               {func(c *Config) { c.Listen = "localhost" }, "listen"},
		"port too high":         {func(c *Config) { c.Listen = "localhost:65536" }, "from 0 to 65535"},
		"port not a number":     {func(c *Config) { c.Listen = "localhost:http" }, "from 0 to 65535"},
		"advertised proxy":      {func(c *Config) { c.Advertise = "grpcs://example.org:443" }, ""},
		"proxy without a port":  {func(c *Config) { c.Advertise = "grpcs://example.org" }, "port of the proxy"},
		"proxy without a host":  {func(c *Config) { c.Advertise = "grpcs://:443" }, "advertise"},
		"proxy alone":           {func(c *Config) { c.Advertise = "grpcs://" }, "port of the proxy"},
		"other scheme":          {func(c *Config) { c.Advertise = "grpc://example.org:1" }, "advertise"},
		"advertised port 0":     {func(c *Config) { c.Advertise = "example.org:0" }, "from 1 to 65535"},
		"advertised no host":    {func(c *Config) { c.Advertise = ":2136" }, "advertise"},
		"advertised nonsense":   {func(c *Config) { c.Advertise = "a:b:c" }, "advertise"},
		"no database":           {func(c *Config) { c.Database = "/" }, "database"},
		"relative database":     {func(c *Config) { c.Database = "local" }, "absolute"},
		"both stores":           {func(c *Config) { c.DataDir = "x" }, "not both"},
		"no store":              {func(c *Config) { c.InMemory = false }, "not both"},
	} {
		c := good
		test.change(&c)
		err := c.Validate()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// holdUp keeps the group busy until release is closed. held is closed when it is.
func holdUp(s *Server, held, release chan struct{}) {
	go func() {
		_, _ = s.group.Read(context.Background(), func(*coordination.Machine) outcome.Outcome {
			close(held)
			<-release
			return outcome.Done()
		})
	}()
}
