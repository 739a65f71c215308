package doubles

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// wrong is a server that does what a script says with every stream.
type wrong struct {
	Ydb_Coordination_V1.UnimplementedCoordinationServiceServer
	script func(*stage) error
}

// Session implements Ydb_Coordination_V1.CoordinationServiceServer.
func (w *wrong) Session(stream Ydb_Coordination_V1.CoordinationService_SessionServer) error {
	return w.script(&stage{stream})
}

// stage runs a script. A failure on it is a failure for the client, too, which ends the stream.
type stage struct {
	stream Ydb_Coordination_V1.CoordinationService_SessionServer
}

// await returns the next request of a method, and its id.
func (s *stage) await(method string) uint64 {
	for {
		r, err := s.stream.Recv()
		if err != nil {
			return 0
		}
		if name, body := arm(r.ProtoReflect()); name == method {
			if field := body.Descriptor().Fields().ByName("req_id"); field != nil {
				return body.Get(field).Uint()
			}
			return 0
		}
	}
}

func (s *stage) say(responses ...*Response) {
	for _, r := range responses {
		_ = s.stream.Send(r)
	}
}

// started takes the client's start.
func (s *stage) started() {
	s.await("session_start")
	s.say(sessionStarted(1))
}

// hang does nothing until the client has gone.
func (s *stage) hang() error {
	<-s.stream.Context().Done()
	return nil
}

func sessionStarted(id uint64) *Response {
	return &Response{Response: &Ydb_Coordination.SessionResponse_SessionStarted_{SessionStarted: &Ydb_Coordination.SessionResponse_SessionStarted{SessionId: id}}}
}

func sessionStopped() *Response {
	return &Response{Response: &Ydb_Coordination.SessionResponse_SessionStopped_{SessionStopped: &Ydb_Coordination.SessionResponse_SessionStopped{SessionId: 1}}}
}

func failed(s Ydb.StatusIds_StatusCode) *Response {
	return &Response{Response: &Ydb_Coordination.SessionResponse_Failure_{Failure: &Failure{Status: s}}}
}

func pinged(opaque uint64) *Response {
	return &Response{Response: &Ydb_Coordination.SessionResponse_Ping{Ping: &Ydb_Coordination.SessionResponse_PingPong{Opaque: opaque}}}
}

func unsupported() *Response {
	return &Response{Response: &Ydb_Coordination.SessionResponse_Unsupported_6{Unsupported_6: &Ydb_Coordination.Unsupported{}}}
}

func pending(id uint64) *Response {
	return &Response{Response: &Ydb_Coordination.SessionResponse_AcquireSemaphorePending_{
		AcquireSemaphorePending: &Ydb_Coordination.SessionResponse_AcquireSemaphorePending{ReqId: id}}}
}

func acquired(id uint64, s Ydb.StatusIds_StatusCode, is bool) *Response {
	return &Response{Response: &Ydb_Coordination.SessionResponse_AcquireSemaphoreResult_{
		AcquireSemaphoreResult: &Ydb_Coordination.SessionResponse_AcquireSemaphoreResult{ReqId: id, Status: s,
			Acquired: is}}}
}

func released(id uint64) *Response {
	return &Response{Response: &Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult_{
		ReleaseSemaphoreResult: &Ydb_Coordination.SessionResponse_ReleaseSemaphoreResult{ReqId: id,
			Status: Ydb.StatusIds_SUCCESS}}}
}

func described(id uint64) *Response {
	return &Response{Response: &Ydb_Coordination.SessionResponse_DescribeSemaphoreResult_{
		DescribeSemaphoreResult: &Ydb_Coordination.SessionResponse_DescribeSemaphoreResult{ReqId: id,
			Status: Ydb.StatusIds_SUCCESS}}}
}

func changed(id uint64) *Response {
	return &Response{Response: &Ydb_Coordination.SessionResponse_DescribeSemaphoreChanged_{
		DescribeSemaphoreChanged: &Ydb_Coordination.SessionResponse_DescribeSemaphoreChanged{ReqId: id,
			DataChanged: true}}}
}

// mistake is a server's, and the state that an SDK enters by it.
type mistake struct {
	name   string
	state  FailureState
	script func(*stage) error
	asks   []*Request
	leaves bool
	// quick shortens the SDK's wait where the mistake is about that.
	quick bool
}

// startedThen says things behind SessionStarted.
func startedThen(responses ...*Response) func(*stage) error {
	return func(s *stage) error {
		s.started()
		s.say(responses...)
		return s.hang()
	}
}

// answered says things in answer to a request.
func answered(method string, answers ...func(id uint64) *Response) func(*stage) error {
	return func(s *stage) error {
		s.started()
		id := s.await(method)
		for _, a := range answers {
			s.say(a(id))
		}
		return s.hang()
	}
}

// silent does nothing at all.
func silent(s *stage) error { return s.hang() }

func granted(id uint64) *Response  { return acquired(id, Ydb.StatusIds_SUCCESS, true) }
func unknown(id uint64) *Response  { return granted(id + 1000) }
func tooEarly(id uint64) *Response { return changed(id) }

// breaks ends the first streams, as many as given, and refuses further ones in its own way.
func breaks(times int, then func(*stage) error) func(*stage) error {
	count := make(chan int, 1)
	count <- 0
	return func(s *stage) error {
		n := <-count
		count <- n + 1
		if n >= times {
			return then(s)
		}
		s.started()
		return nil
	}
}

func refuses(status Ydb.StatusIds_StatusCode) func(*stage) error {
	return func(s *stage) error {
		s.await("session_start")
		s.say(failed(status))
		return nil
	}
}

func unavailable(s *stage) error { return status.Error(codes.Unavailable, "wrong on purpose") }

// mistakes are servers' mistakes, by SDK.
var mistakes = []struct {
	sdk      SDK
	mistakes []mistake
}{
	{CPP, []mistake{
		{name: "empty response", state: CPPAbortsOnEmpty, script: startedThen(&Response{})},
		{name: "unsupported response", state: CPPAbortsOnUnsupported, script: startedThen(unsupported())},
		{name: "session id 0", state: CPPAbortsOnSessionZero, script: func(s *stage) error {
			s.await("session_start")
			s.say(sessionStarted(0))
			return s.hang()
		}},
		{name: "second SessionStarted", state: CPPAbortsOnSecondStarted,
			script: startedThen(sessionStarted(1))},
		{name: "second Pending", state: CPPAbortsOnPending, asks: []*Request{Acquire("a", Infinite)},
			script: answered(methodAcquire, pending, pending)},
		{name: "Pending for a release", state: CPPAbortsOnPending, asks: []*Request{Release("a")},
			script: answered(methodRelease, pending)},
		{name: "Pending for an older acquire", state: CPPAbortsOnPending,
			asks: []*Request{Acquire("a", Infinite), Acquire("a", Infinite)},
			script: func(s *stage) error {
				s.started()
				first := s.await(methodAcquire)
				s.say(pending(first))
				s.await(methodAcquire)
				s.say(pending(first))
				return s.hang()
			}},
		{name: "no end behind Failure", state: CPPHangsBehindFailure,
			script: startedThen(failed(Ydb.StatusIds_UNAVAILABLE))},
		{name: "no end behind SessionStopped", state: CPPHangsBehindStopped, leaves: true,
			script: func(s *stage) error {
				s.started()
				s.await("session_stop")
				s.say(sessionStopped())
				return s.hang()
			}},
		{name: "Changed before the description", state: CPPHangsInDescribe,
			asks:   []*Request{Describe("a", true)},
			script: answered(methodDescribe, tooEarly)},
		{name: "client's ping unanswered", state: CPPPingTimesOut, quick: true, script: startedThen()},
		{name: "no SessionStarted", state: CPPStartTimesOut, quick: true, script: silent},
		{name: "never attached again", state: CPPExpires, quick: true,
			script: breaks(1, refuses(Ydb.StatusIds_UNAVAILABLE))},
		{name: "end that is not OK", state: CPPBansEndpoint, script: breaks(1, unavailable)},
		{name: "answer of an unknown id", state: CPPDropsResult, asks: []*Request{Acquire("a", 0)},
			script: answered(methodAcquire, unknown)},
		{name: "answer of another method", state: CPPDropsResult, asks: []*Request{Acquire("a", 0)},
			script: answered(methodAcquire, released)},
	}},
	{Java, []mistake{
		{name: "never attached again", state: JavaLost, quick: true,
			script: breaks(1, refuses(Ydb.StatusIds_UNAVAILABLE))},
		{name: "two breaks", state: JavaStaysBroken, script: breaks(2, silent)},
		{name: "no end behind SessionStopped", state: JavaCancelsStop, quick: true, leaves: true,
			script: func(s *stage) error {
				s.started()
				s.await("session_stop")
				s.say(sessionStopped())
				return s.hang()
			}},
		{name: "no SessionStopped", state: JavaCancelsStop, quick: true, leaves: true, script: startedThen()},
		{name: "answer of an unknown id", state: JavaLosesResponse, asks: []*Request{Acquire("a", 0)},
			script: answered(methodAcquire, unknown)},
		{name: "second result", state: JavaLosesResponse, asks: []*Request{Acquire("a", 0)},
			script: answered(methodAcquire, granted, granted)},
		{name: "answer of another method", state: JavaMistakes, asks: []*Request{Acquire("a", 0)},
			script: answered(methodAcquire, released)},
		{name: "Changed before the description", state: JavaMistakes, asks: []*Request{Describe("a", true)},
			script: answered(methodDescribe, tooEarly)},
		{name: "Changed of no watch", state: JavaLosesResponse, script: startedThen(changed(7))},
		{name: "no SessionStarted", state: JavaNotStarted, quick: true, script: silent},
		{name: "second SessionStarted", state: JavaLosesStarted, script: startedThen(sessionStarted(1))},
		{name: "end that is not OK", state: JavaPessimizes, script: func(s *stage) error {
			s.started()
			return status.Error(codes.Internal, "wrong on purpose")
		}},
	}},
	{Python, []mistake{
		{name: "no ping", state: PythonBreaksIdle, quick: true, script: startedThen()},
		{name: "nothing but pings", state: PythonBreaksIdle, quick: true, script: func(s *stage) error {
			s.started()
			for s.stream.Context().Err() == nil {
				s.say(pinged(1))
				time.Sleep(time.Millisecond)
			}
			return nil
		}},
		{name: "no SessionStarted", state: PythonNotStarted, quick: true, script: silent},
		{name: "session id 0", state: PythonNotStarted, quick: true, script: func(s *stage) error {
			s.await("session_start")
			s.say(sessionStarted(0))
			return s.hang()
		}},
		{name: "expired session refused", state: PythonExpiredLoop,
			script: breaks(1, refuses(Ydb.StatusIds_SESSION_EXPIRED))},
		{name: "refusals that are not held back", state: HotLoop, script: refuses(Ydb.StatusIds_NOT_FOUND)},
		{name: "acquired=false", state: PythonMistakesGrant, asks: []*Request{Acquire("a", 30_000)},
			script: answered(methodAcquire, func(id uint64) *Response {
				return acquired(id, Ydb.StatusIds_SUCCESS, false)
			})},
		{name: "answer of an unknown id", state: PythonDropsResult, asks: []*Request{Acquire("a", 0)},
			script: answered(methodAcquire, unknown)},
		{name: "answer of another method", state: PythonConfuses, asks: []*Request{Acquire("a", 0)},
			script: answered(methodAcquire, released)},
		{name: "pings before SessionStarted", state: PythonHangsInStart, script: func(s *stage) error {
			s.await("session_start")
			s.say(pinged(1), pinged(1), pinged(1))
			return s.hang()
		}},
	}},
	{Rust, []mistake{
		{name: "ping before SessionStarted", state: RustStartFails, script: func(s *stage) error {
			s.await("session_start")
			s.say(pinged(1))
			return s.hang()
		}},
		{name: "second SessionStarted", state: RustEndsOnStarted, script: startedThen(sessionStarted(1))},
		{name: "SessionStopped", state: RustEndsOnStopped, script: startedThen(sessionStopped())},
		{name: "Changed without a watch", state: RustEndsOnChanged, script: startedThen(changed(0))},
		{name: "empty response", state: RustEndsOnEmpty, script: startedThen(&Response{})},
		{name: "unsupported response", state: RustEndsOnUnsupported, script: startedThen(unsupported())},
		{name: "Failure", state: RustEndsOnFailure, script: startedThen(failed(Ydb.StatusIds_UNAVAILABLE))},
		{name: "status", state: RustEndsOnStatus, asks: []*Request{Acquire("a", 0)},
			script: answered(methodAcquire, func(id uint64) *Response {
				return acquired(id, Ydb.StatusIds_ABORTED, false)
			})},
		{name: "no description", state: RustEndsOnMissing, asks: []*Request{Describe("a", false)},
			script: answered(methodDescribe, described)},
		{name: "end of the stream", state: RustEndsOnBreak, script: breaks(1, silent)},
		{name: "answer of an unknown id", state: RustDropsResult, asks: []*Request{Acquire("a", 0)},
			script: answered(methodAcquire, unknown)},
		{name: "answer of another method", state: RustDropsResult, asks: []*Request{Acquire("a", 0)},
			script: answered(methodAcquire, released)},
		{name: "no SessionStarted", state: RustHangsInStart, script: silent},
	}},
	{DotNet, []mistake{
		{name: "start refused", state: DotNetHangsInStart, script: refuses(Ydb.StatusIds_NOT_FOUND)},
		{name: "no end behind half-close", state: DotNetHangsBehind, leaves: true, script: startedThen()},
		{name: "Changed before the description", state: DotNetLosesChanged,
			asks:   []*Request{Describe("a", true)},
			script: answered(methodDescribe, tooEarly)},
		{name: "answer of an unknown id", state: DotNetDropsResult, asks: []*Request{Acquire("a", 0)},
			script: answered(methodAcquire, unknown)},
		{name: "answer of another method", state: DotNetConfuses, asks: []*Request{Acquire("a", 0)},
			script: answered(methodAcquire, released)},
		{name: "end of the stream", state: DotNetCancelled, script: breaks(1, silent)},
	}},
}

// quickly is an SDK that waits for a tenth of its time.
func quickly(s SDK) SDK {
	for _, d := range []*time.Duration{&s.Timeout, &s.StartPatience, &s.Silence, &s.QueueSilence, &s.Recovery,
		&s.GoodbyePatience} {
		*d /= 10
	}
	s.QueueSilence /= 10
	return s
}

// TestStatesAreEntered brings every double into every one of its states of failure: one that never fails
// shows nothing.
func TestStatesAreEntered(t *testing.T) {
	entered := make(map[FailureState]bool)
	for _, of := range mistakes {
		for _, m := range of.mistakes {
			entered[m.state] = true
			t.Run(of.sdk.SDK+"/"+m.name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				sdk := of.sdk
				if m.quick {
					sdk = quickly(sdk)
				}
				d := start(ctx, sdk, dial(t, serveWrong(t, m.script)), "/local/node", 500*time.Millisecond)
				for _, r := range m.asks {
					go func() { _, _ = d.Do(ctx, r) }()
				}
				if m.leaves {
					<-d.Begun()
					d.Leave()
				}
				for !slices.Contains(d.States(), m.state) {
					select {
					case <-ctx.Done():
						t.Fatalf("%s: got %q, want %q", of.sdk.SDK, d.States(), m.state)
					case <-time.After(time.Millisecond):
					}
				}
			})
		}
	}
	for _, sdk := range All() {
		for _, state := range sdk.States {
			if !entered[state] {
				t.Errorf("no mistake of a server brings %s to %q", sdk.SDK, state)
			}
		}
		if len(sdk.Read) == 0 || sdk.Version == "" {
			t.Errorf("where %s was read is not said", sdk.SDK)
		}
	}
}

// serveWrong serves a script, and returns the address.
func serveWrong(t *testing.T, script func(*stage) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	Ydb_Coordination_V1.RegisterCoordinationServiceServer(s, &wrong{script: script})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
