package server

import (
	"io"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/server/adminpb"
)

const checkOfHealth = "/grpc.health.v1.Health/Check"

// hold opens calls of which only the headers come, on a connection whose answers are thrown away.
func (g *guarded) hold(method, token string, calls int, request []byte) *frameClient {
	g.t.Helper()
	c := dialFramesTest(g.t, g.Server)
	go func() { _, _ = io.Copy(io.Discard, c) }()
	headers := callHeaders(method)
	if token != "" {
		headers = append(headers, "x-ydb-auth-ticket", token, "x-ydb-database", "/local")
	}
	for i := range uint32(calls) {
		if err := errorsOf(c.headers(2*i+1, false, headers), c.data(2*i+1, false, request)); err != nil {
			g.t.Fatal(err)
		}
	}
	return c
}

// TestUnknownCallersLeaveRoom holds calls that need no token, many more than there is room for, from the
// address of everybody else. Known callers are served all the same, and so are logins and health checks: the
// calls whose request has not come make room for them.
func TestUnknownCallersLeaveRoom(t *testing.T) {
	const room, many = 64, 500
	for _, method := range []string{loginMethod, checkOfHealth} {
		g := startGuarded(t, func(c *Config) { c.Hardening.Calls = room })
		g.hold(method, "", many, nil)
		eventually(t, "the calls to have come", func() bool {
			return g.connections.RefusedCalls() > many-room
		})
		eventually(t, "a quarter of the room to be theirs", func() bool {
			return g.connections.CallsUnderWay() <= room/4
		})
		for range 2 * room {
			if _, err := Ydb_Coordination_V1.NewCoordinationServiceClient(g.conn).DescribeNode(
				g.as("token-of-alice"), &Ydb_Coordination.DescribeNodeRequest{Path: testNode}); err != nil {
				t.Fatalf("%s: a known caller: %v", method, err)
			}
			if _, err := grpc_health_v1.NewHealthClient(g.conn).Check(t.Context(),
				&grpc_health_v1.HealthCheckRequest{}); err != nil {
				t.Fatalf("%s: a health check: %v", method, err)
			}
		}
		if token, answer := g.login("root", rootPassword); token == "" {
			t.Errorf("%s: a login: %v", method, answer)
		}
	}
}

// TestUnknownRequestsInTime begins calls whose requests never come: a caller that is not known has less time.
func TestUnknownRequestsInTime(t *testing.T) {
	g := startGuarded(t, func(c *Config) { c.Hardening.ReceiveUnknown = 20 * time.Millisecond })
	c := dialFramesTest(t, g.Server)
	if err := errorsOf(c.headers(1, false, callHeaders(directoryMethod, "x-ydb-auth-ticket", "token-of-alice")),
		c.headers(3, false, callHeaders(loginMethod))); err != nil {
		t.Fatal(err)
	}
	if got := c.ended(t, 3); got != codes.DeadlineExceeded {
		t.Errorf("ended with %v", got)
	}
	if g.connections.CallsUnderWay() == 0 {
		t.Error("the call of a known caller has ended as well")
	}
}

// TestLargeRequestIsNotAwaited announces messages that are larger than their method's may be, in one piece or
// byte by byte: they are refused before they come. A login is small.
func TestLargeRequestIsNotAwaited(t *testing.T) {
	s, _ := startTest(t, nil)
	for method, most := range map[string]int{loginMethod: maxLoginBytes, checkOfHealth: maxLoginBytes,
		watchMethod: maxLoginBytes, directoryMethod: maxCallBytes} {
		c := dialFramesTest(t, s)
		for i, flag := range []byte{0, 1} {
			id, announced := uint32(4*i+1), prefixed(flag, uint32(most+1), nil)
			err := errorsOf(c.headers(id, false, callHeaders(method, "grpc-encoding", "gzip")),
				c.data(id, false, announced), c.headers(id+2, false, callHeaders(method, "grpc-encoding", "gzip")))
			for _, b := range announced {
				err = errorsOf(err, c.data(id+2, false, []byte{b}))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for id, got := range c.allEnded(t, 1, 3, 5, 7) {
			if got != codes.ResourceExhausted {
				t.Errorf("%s: stream %d ended with %v", method, id, got)
			}
		}
	}
	keepsNothing(t, s)
}

// TestUnknownWatchersLeaveRoom has strangers watch the health, as many as may: others may still stand.
func TestUnknownWatchersLeaveRoom(t *testing.T) {
	const room = 64
	g := startGuarded(t, func(c *Config) { c.Hardening.Watches = room })
	g.hold(watchMethod, "", room, framed(&grpc_health_v1.HealthCheckRequest{}))
	eventually(t, "the watches to have come", func() bool { return g.connections.RefusedCalls() > room/2 })
	watch, err := adminpb.NewInspectClient(g.conn).Watch(g.as("token-of-root"),
		&adminpb.WatchRequest{Path: testNode})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		t.Errorf("an administrator may not watch: %v", err)
	}
}

// TestUsersShareStreams has one user open as many streams as possible: half of them are left.
func TestUsersShareStreams(t *testing.T) {
	const room = 16 // one of them is the owner's
	g := startGuarded(t, func(c *Config) { c.Hardening.Streams = room })
	for _, user := range []string{"alice", "bob"} {
		g.permit(testNode, granting(user, "ydb.generic.use"))
	}
	open := func(token string) (had int) {
		for {
			stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(g.conn).Session(g.as(token))
			if err != nil {
				t.Fatal(err)
			}
			_ = stream.Send(startMessage(600_000))
			if _, err = stream.Recv(); status.Code(err) == codes.ResourceExhausted {
				return had
			} else if err != nil {
				t.Fatal(err)
			}
			had++
		}
	}
	if got := open("token-of-bob"); got != 8 {
		t.Errorf("bob has %d streams, want 8 of 15", got)
	}
	if got := open("token-of-alice"); got != 4 {
		t.Errorf("alice has %d streams, want 4 of 7", got)
	}
	if g.connections.RefusedStreams() != 2 {
		t.Errorf("%d streams are counted as refused", g.connections.RefusedStreams())
	}
}
