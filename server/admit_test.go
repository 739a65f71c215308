package server

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const directoryMethod = "/Ydb.Scheme.V1.SchemeService/MakeDirectory"

// keepsNothing waits until the server keeps nothing of any message.
func keepsNothing(t *testing.T, s *Server) {
	t.Helper()
	eventually(t, "nothing to be kept of any message", func() bool { return s.connections.Received() == 0 })
}

// TestStrangersAreNotListenedTo sends what costs memory without a token: the answer comes before the message
// is whole, and before a bomb is unfolded.
func TestStrangersAreNotListenedTo(t *testing.T) {
	s := startGuarded(t, nil).Server
	bomb := gzipBomb()
	for _, method := range []string{directoryMethod, sessionMethod} {
		for _, test := range []struct {
			name    string
			headers []string
			data    []byte
		}{
			{"half a message", nil, prefixed(0, maxCallBytes, make([]byte, 60<<10))},
			{"a message larger than any", nil, prefixed(0, 1<<31, nil)},
			{"a bomb", []string{"grpc-encoding", "gzip"}, prefixed(1, uint32(len(bomb)), bomb)},
			{"nothing", nil, nil},
		} {
			c := dialFramesTest(t, s)
			if err := c.headers(1, false, callHeaders(method, test.headers...)); err != nil {
				t.Fatal(err)
			}
			_ = writePieces(c, test.data) // the refusal may come before all is sent
			if got := c.ended(t, 1); got != codes.Unauthenticated {
				t.Errorf("%s: %s: ended with %v", method, test.name, got)
			}
		}
	}
	keepsNothing(t, s)
}

// TestUnfinishedMessages has several connections begin messages and never end them, more than there is room
// for. The one that keeps the most is closed, nobody else notices, and room comes back with each stream that
// ends.
func TestUnfinishedMessages(t *testing.T) {
	const room = 4 << 20
	s, conn := startTest(t, func(c *Config) { c.Hardening.ReceivedBytes = room })
	good := openTest(t, t.Context(), conn, start(600_000))
	next(t, good)
	small, large := dialFramesTest(t, s), dialFramesTest(t, s)
	const piece = 15 << 10
	begin := func(c *frameClient, id uint32) error {
		err := errorsOf(c.headers(id, false, callHeaders(directoryMethod)),
			c.data(id, false, prefixed(0, maxCallBytes, nil)))
		for range 4 {
			err = errorsOf(err, c.data(id, false, make([]byte, piece)))
		}
		return err
	}
	if err := begin(small, 1); err != nil {
		t.Fatal(err)
	}
	// gRPC keeps more than the bytes themselves of a message that comes in pieces.
	eventually(t, "the first bytes to be counted",
		func() bool { return s.connections.Received() >= 4*piece+5 })
	if err := small.reset(1); err != nil {
		t.Fatal(err)
	}
	keepsNothing(t, s)
	if err := begin(small, 3); err != nil {
		t.Fatal(err)
	}
	for id := uint32(1); id < 10_000; id += 2 {
		if begin(large, id) != nil {
			break // cut off
		}
		if got := s.connections.Received(); got > room+1<<16 {
			t.Fatalf("%d bytes are kept", got)
		}
	}
	if s.connections.CutForReceiving() != 1 || large.alive() {
		t.Fatalf("%d connections are cut off", s.connections.CutForReceiving())
	}
	if !small.alive() {
		t.Error("a connection that keeps little is cut off")
	}
	send(t, good, acquire(1, "a", make([]byte, 100<<10)))
	if r := next(t, good); !r.GetAcquireSemaphoreResult().GetAcquired() {
		t.Fatalf("got %v", r)
	}
	_ = small.Close()
	keepsNothing(t, s)
}

// TestUnreadMessages sends small messages on a stream that is not read: they are counted until they are read,
// whole as they are.
func TestUnreadMessages(t *testing.T) {
	s, _ := startTest(t, nil)
	release, held := make(chan struct{}), make(chan struct{})
	holdUp(s, held, release)
	<-held
	c := dialFramesTest(t, s)
	ping := framed(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Ping{Ping: &Ydb_Coordination.SessionRequest_PingPong{Opaque: 1}}})
	start, pings := framed(startMessage(600_000)), bytes.Repeat(ping, 1000)
	if err := errorsOf(c.headers(1, false, callHeaders(sessionMethod)), c.data(1, false, start),
		c.data(1, false, pings)); err != nil {
		t.Fatal(err)
	}
	want := int64(len(start) + len(pings)) // the start is being worked on
	eventually(t, "the unread messages to be counted",
		func() bool { return s.connections.Received() == want })
	close(release)
	keepsNothing(t, s)
}

// TestUnreadCompressedMessages is the same for compressed ones, between others: what they unfold to counts
// only while one is being worked on.
func TestUnreadCompressedMessages(t *testing.T) {
	s, _ := startTest(t, nil)
	release, held := make(chan struct{}), make(chan struct{})
	holdUp(s, held, release)
	<-held
	c := dialFramesTest(t, s)
	ping := framed(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Ping{Ping: &Ydb_Coordination.SessionRequest_PingPong{Opaque: 1}}})
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(ping[5:])
	_ = w.Close()
	start, compressed := framed(startMessage(600_000)), prefixed(1, uint32(packed.Len()), packed.Bytes())
	pings := bytes.Repeat(append(compressed, ping...), 100)
	if err := errorsOf(c.headers(1, false, callHeaders(sessionMethod, "grpc-encoding", "gzip")),
		c.data(1, false, start), c.data(1, false, pings)); err != nil {
		t.Fatal(err)
	}
	const remembered = 32
	want := int64(len(start) + len(pings) + 100*remembered)
	eventually(t, "the unread messages to be counted",
		func() bool { return s.connections.Received() == want })
	close(release)
	keepsNothing(t, s)
	if !c.alive() {
		t.Fatal("the connection is closed")
	}
}

// inTime is the limit for clients in tests in which one must be late: the others are within it on a busy machine too.
const inTime = time.Second

// TestRequestsInTime begins calls whose requests never come.
func TestRequestsInTime(t *testing.T) {
	runBeside(t)
	s, _ := startTest(t, func(c *Config) { c.Hardening.Receive = inTime })
	begun := make(map[string]*frameClient)
	begin := func(name, method string, data []byte) {
		t.Helper()
		begun[name] = dialFramesTest(t, s)
		if err := errorsOf(begun[name].headers(1, false, callHeaders(method)),
			begun[name].data(1, false, data)); err != nil {
			t.Fatal(err)
		}
	}
	for _, method := range []string{directoryMethod, "/grpc.health.v1.Health/Watch",
		"/Ydb.Table.V1.TableService/CreateSession",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"} {
		begin(method, method, []byte{0, 0, 0, 0, 9, 1})
	}
	// A request that comes without its end is no whole one either.
	begin("without an end", directoryMethod, prefixed(0, 0, nil))
	for name, c := range begun {
		if got := c.ended(t, 1); got != codes.DeadlineExceeded {
			t.Errorf("%s: ended with %v", name, got)
		}
	}
	keepsNothing(t, s)
}

// TestCallsAtOnce begins as many calls as an address may have, half of all, and one more, with and without a
// deadline. When they
// have ended there is room again, however they ended. Those that are refused are counted like all others of
// their method.
func TestCallsAtOnce(t *testing.T) {
	for _, test := range []struct {
		name, method string
		change       func(*Hardening)
	}{
		{"calls", directoryMethod, func(h *Hardening) { h.Calls = 4 }},
		{"watches", "/grpc.health.v1.Health/Watch", func(h *Hardening) { h.Watches = 4 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, _ := startTest(t, func(c *Config) { test.change(&c.Hardening) })
			underWay := func(calls int) {
				eventually(t, fmt.Sprint(calls, " calls to be under way"),
					func() bool { return s.connections.CallsUnderWay() == calls })
			}
			for round := range 3 {
				underWay(0) // a call counts for a moment longer than its client waits for the answer
				c := dialFramesTest(t, s)
				if err := errorsOf(c.headers(1, false, callHeaders(test.method)),
					c.headers(3, false, callHeaders(test.method))); err != nil {
					t.Fatal(err)
				}
				underWay(2) // before others come: each has a goroutine of its own
				if err := errorsOf(c.headers(5, false, callHeaders(test.method)),
					c.headers(7, false, callHeaders(test.method, "grpc-timeout", "1H"))); err != nil {
					t.Fatal(err)
				}
				if got := c.allEnded(t, 5, 7); got[5] != codes.ResourceExhausted ||
					got[7] != codes.ResourceExhausted {
					t.Fatalf("they ended with %v", got)
				}
				eventually(t, "both to be counted as calls of their method", func() bool {
					return s.Figures().Methods[test.method].Results[codes.ResourceExhausted.String()] == uint64(2*(round+1))
				})
				if err := c.reset(1); err != nil {
					t.Fatal(err)
				}
				_ = c.Close()
			}
			underWay(0)
		})
	}
}

// TestCallSize sends requests of exactly the limit, which are read, and a byte larger, which are not.
func TestCallSize(t *testing.T) {
	_, conn := startTest(t, nil)
	scheme := Ydb_Scheme_V1.NewSchemeServiceClient(conn)
	for past := range 2 {
		const overhead = 4 // of the path's field
		_, err := scheme.MakeDirectory(t.Context(),
			&Ydb_Scheme.MakeDirectoryRequest{Path: string(bytes.Repeat([]byte("a"),
				maxCallBytes-overhead+past))})
		if want := []codes.Code{codes.OK, codes.ResourceExhausted}[past]; status.Code(err) != want {
			t.Errorf("%d bytes more than the limit: %v", past, err)
		}
	}
	action := &Ydb_Scheme.PermissionsAction{Action: &Ydb_Scheme.PermissionsAction_Grant{Grant: &Ydb_Scheme.Permissions{
		Subject: "somebody", PermissionNames: []string{string(bytes.Repeat([]byte("a"), maxCallBytes))}}}}
	answer, err := scheme.ModifyPermissions(t.Context(),
		&Ydb_Scheme.ModifyPermissionsRequest{Path: testNode,
			Actions: []*Ydb_Scheme.PermissionsAction{action}})
	if err != nil || answer.GetOperation().GetStatus() == Ydb.StatusIds_SUCCESS {
		t.Errorf("a large change of permissions: %v, %v", answer, err)
	}
}

// TestWatchIsStanding lets a watch go on for longer than a request may take to arrive.
func TestWatchIsStanding(t *testing.T) {
	runBeside(t)
	s, conn := startTest(t, func(c *Config) { c.Hardening.Receive = inTime })
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(),
		&grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	late := dialFramesTest(t, s)
	if err := late.headers(1, false, callHeaders(directoryMethod)); err != nil {
		t.Fatal(err)
	}
	if got := late.ended(t, 1); got != codes.DeadlineExceeded { // as the watch would have been by now
		t.Fatal(got)
	}
	s.health.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
}
