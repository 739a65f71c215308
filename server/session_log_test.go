package server

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/grpc/metadata"
)

const traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestSessionIsTold wants everything that happens on a stream in the log for debugging, with the ids by which
// it is found: of the session, of the request, and of the trace that the client's program is part of.
func TestSessionIsTold(t *testing.T) {
	log := &logText{}
	_, conn := startTest(t, func(c *Config) { c.Logger = log.logger() })
	long := strings.Repeat("d", 500)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceParent, "x-ydb-trace-id",
		"call 7 "+long)
	first := start(60_000)
	first.Description = "a\nlevel=ERROR msg=forged " + long
	stream := openTest(t, ctx, conn, first)
	session := next(t, stream).GetSessionStarted().GetSessionId()
	send(t, stream, acquire(11, "my lock", nil))
	next(t, stream)
	send(t, stream,
		&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_UpdateSemaphore_{
			UpdateSemaphore: &Ydb_Coordination.SessionRequest_UpdateSemaphore{ReqId: 12, Name: long}}})
	next(t, stream)
	send(t, stream,
		&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStop_{SessionStop: &Ydb_Coordination.SessionRequest_SessionStop{}}})
	endOf(stream)
	id := fmt.Sprintf("session=%d ", session)
	trace := "traceparent=" + traceParent + ` x-ydb-trace-id="call 7 `
	for _, want := range [][]string{
		{`msg="session: start"`, "path=" + testNode, "timeout_ms=60000"},
		{`msg="session: attached"`, fmt.Sprintf("session=%d\n", session)},
		{`msg="session: request"`, id, "req_id=11", "request=acquire", `semaphore="my lock"`, "count=1"},
		{`msg="session: answer"`, id, "req_id=11", "request=acquire", "done=true", "status=SUCCESS"},
		{`msg="session: request"`, id, "req_id=12", "request=update"},
		{`msg="session: answer"`, id, "req_id=12", "request=update", "status=NOT_FOUND"},
		{`msg="session: stop"`, fmt.Sprintf("session=%d\n", session)},
		{`msg="session: stopped, it has ended"`, fmt.Sprintf("session=%d\n", session)},
		{`msg="session: the stream has ended"`, id, "requests=2"},
	} {
		eventually(t, strings.Join(want, " "), func() bool {
			return log.with(append(want, "level=DEBUG", "user=(nobody)", "remote=127.0.0.1:", trace)...) == 1
		})
	}
	if log.with("msg=forged") != log.with("session: start") || log.with(strings.Repeat("d", 129)) > 0 {
		t.Errorf("what the client has chosen forges lines, or is not cut:\n%s", log.String())
	}
	if log.with("level=DEBUG", "msg=call", "method=/Ydb.Coordination.V1.CoordinationService/CreateNode",
		"path="+testNode, "status=SUCCESS", "took=") != 1 {
		t.Errorf("the call is not told:\n%s", log.String())
	}
}

// TestLostSessionIsTold lets a client go away: the end of its stream is logged, and later that of its session.
func TestLostSessionIsTold(t *testing.T) {
	log := &logText{}
	_, conn := startTest(t, func(c *Config) { c.Logger = log.logger() })
	ctx, leave := context.WithCancel(t.Context())
	stream := openTest(t, ctx, conn, start(100))
	session := next(t, stream).GetSessionStarted().GetSessionId()
	leave()
	eventually(t, "the end of the stream", func() bool {
		return log.with("session: the stream has ended", fmt.Sprintf("session=%d ", session)) == 1
	})
	eventually(t, "the end of the session", func() bool {
		return log.with("level=DEBUG", "a session has ended: its time was up",
			fmt.Sprintf("session=%d ", session), "path="+testNode+" node=") == 1
	})
}

// askedHandler counts how often it is asked whether it takes what is for debugging, which it does not.
type askedHandler struct {
	slog.Handler
	asked *atomic.Int64
}

func (h askedHandler) Enabled(_ context.Context, level slog.Level) bool {
	if level < slog.LevelInfo {
		h.asked.Add(1)
	}
	return level >= slog.LevelInfo
}

func (h askedHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// TestMessagesAreNotToldOfAtInfo wants nothing to be asked, made or written for the messages of a stream
// unless somebody debugs.
func TestMessagesAreNotToldOfAtInfo(t *testing.T) {
	var asked atomic.Int64
	log := &logText{}
	_, conn := startTest(t, func(c *Config) {
		c.Logger = slog.New(askedHandler{slog.NewTextHandler(log, nil), &asked})
	})
	stream := openTest(t, t.Context(), conn, start(60_000))
	next(t, stream)
	before := asked.Load()
	for i := range uint64(100) {
		send(t, stream, acquire(2*i+1, "lock", nil))
		next(t, stream)
		send(t, stream, release(2*i+2, "lock"))
		next(t, stream)
	}
	if n := asked.Load() - before; n > 20 {
		t.Errorf("the log was asked %d times for 400 messages", n)
	}
	if log.has("session:") {
		t.Errorf("log:\n%s", log.String())
	}
	if _, err := Ydb_Coordination_V1.NewCoordinationServiceClient(conn).DescribeNode(t.Context(),
		&Ydb_Coordination.DescribeNodeRequest{Path: testNode}); err != nil || log.has("msg=call") {
		t.Errorf("%v, log:\n%s", err, log.String())
	}
}
