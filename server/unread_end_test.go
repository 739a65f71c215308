package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// TestEndThatIsNotRead has clients take no more than begins of an answer: one on a Session stream that it has
// closed on its side, and one that the server ends because nobody answers its pings. gRPC would keep their
// answers as long as there is a connection. Both connections are closed, what was lent is given back, and
// another client's session goes on.
func TestEndThatIsNotRead(t *testing.T) {
	s, conn := startTest(t, func(c *Config) { c.Hardening.Linger = 300 * time.Millisecond })
	good := openTest(t, t.Context(), conn, start(60_000))
	next(t, good)
	send(t, good, &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
		CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{ReqId: 1, Name: "large", Limit: 1,
			Data: make([]byte, 1<<20)}}})
	next(t, good)
	for name, timeout := range map[string]uint64{"half closed": 60_000, "not answering": 900} {
		other := connectNarrow(t, s)
		// and not with the first request, which gRPC sends a moment before it reports that the connection is ready
		other.Connect()
		eventually(t, name+": the connection to be ready",
			func() bool { return other.GetState() == connectivity.Ready })
		stream := openTest(t, t.Context(), other, start(timeout))
		next(t, stream)
		send(t, stream,
			&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
				DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: 1,
					Name: "large"}}})
		if timeout == 60_000 { // once the description is on its way: otherwise the end is all there is to read
			acquire := &Ydb_Coordination.SessionRequest_AcquireSemaphore{ReqId: 2, Name: "x", Count: 1, Ephemeral: true}
			send(t, stream, &Ydb_Coordination.SessionRequest{
				Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{AcquireSemaphore: acquire}})
			eventually(t, "the description to be sent",
				func() bool { return s.group.Figures().Counts.Owners > 0 })
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
		}
		before := s.connections.CutForUnread()
		eventually(t, name+": the connection to be closed",
			func() bool { return other.GetState() != connectivity.Ready })
		if got := s.connections.CutForUnread(); got != before+1 {
			t.Errorf("%s: closed for another reason: %d ends were not read, %d before; %+v", name, got,
				before, s.Figures().Connections)
		}
	}
	eventually(t, "nothing to be left of them",
		func() bool { return s.connections.Open() == 1 && s.connections.Received() == 0 })
	send(t, good, acquire(2, "large", nil))
	next(t, good)
}

// TestAnswersThatAreNotRead has a client call, and read none of the answers. They count like what is received
// until the client resets the call; and when there is no room for more, its connection is closed, and not
// that of a client that reads.
func TestAnswersThatAreNotRead(t *testing.T) {
	s, conn := startTest(t, func(c *Config) {
		c.Hardening.ReceivedBytes, c.Hardening.Linger = 4<<20, time.Hour
	})
	scheme := Ydb_Scheme_V1.NewSchemeServiceClient(conn)
	const entries, name = 200, 200
	for i := range entries {
		path := fmt.Sprintf("/local/%0*d", name, i)
		if _, err := scheme.MakeDirectory(t.Context(),
			&Ydb_Scheme.MakeDirectoryRequest{Path: path}); err != nil {
			t.Fatal(err)
		}
	}
	c := dialFramesTest(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	request := framed(&Ydb_Scheme.ListDirectoryRequest{Path: "/local"})
	call := func(id uint32) error {
		return errorsOf(c.headers(id, false, callHeaders("/Ydb.Scheme.V1.SchemeService/ListDirectory")),
			c.data(id, true, request))
	}
	if err := call(1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the answer to count", func() bool { return s.connections.Received() > entries*name })
	if n := s.connections.CallsUnderWay(); n != 1 {
		t.Errorf("%d calls count", n)
	}
	if err := c.reset(1); err != nil {
		t.Fatal(err)
	}
	keepsNothing(t, s)
	for id := uint32(3); s.connections.CutForReceiving() == 0 && id < 2*10_000; id += 2 {
		if call(id) != nil {
			break
		}
	}
	eventually(t, "the connection to be closed", func() bool { return s.connections.CutForReceiving() == 1 })
	// Both clients have the same address, whose share of calls those of the closed connection still take up.
	eventually(t, "its calls to be over", func() bool { return s.connections.CallsUnderWay() == 0 })
	if _, err := scheme.ListDirectory(t.Context(), &Ydb_Scheme.ListDirectoryRequest{Path: "/local"},
		grpc.WaitForReady(false)); err != nil {
		t.Errorf("a client that reads: %v", err)
	}
	keepsNothing(t, s)
}
