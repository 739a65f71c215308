package server

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/meters"
)

// What clients ask for, and what comes of it, is told for debugging only. Whether anybody wants to know is
// found out once for a call: with another level of the log, a message on a stream costs a look at a nil
// pointer.

// sessionLog tells of one Session stream. A nil one tells nothing. One goroutine hears, and one replies.
type sessionLog struct {
	logger   *slog.Logger
	begun    time.Time
	session  atomic.Uint64 // 0 before it is known
	requests atomic.Uint64
	ended    atomic.Bool
}

// newSessionLog is nil unless the log takes what is for debugging.
func newSessionLog(ctx context.Context, logger *slog.Logger) *sessionLog {
	if !logger.Enabled(ctx, slog.LevelDebug) {
		return nil
	}
	return &sessionLog{logger: logger.With(callerFields(ctx)...), begun: time.Now()}
}

// callerFields say who calls, from where, and as part of what: the SDKs pass on the trace of the program that
// uses them.
func callerFields(ctx context.Context) []any {
	fields := []any{"user", lograte.Cut(auth.Of(ctx).String())}
	if p, ok := peer.FromContext(ctx); ok {
		fields = append(fields, "remote", p.Addr.String())
	}
	for _, header := range []string{"traceparent", "x-ydb-trace-id"} {
		if values := metadata.ValueFromIncomingContext(ctx, header); len(values) > 0 && values[0] != "" {
			fields = append(fields, header, lograte.Cut(values[0]))
		}
	}
	return fields
}

// traceOf is the traceparent of a call, empty where there is none, or one that is not as W3C's Trace Context
// wants it: version, trace, span and flags in hexadecimal digits. What later versions have behind these is
// left out.
func traceOf(ctx context.Context) string {
	const form = "00-00000000000000000000000000000000-0000000000000000-00"
	values := metadata.ValueFromIncomingContext(ctx, "traceparent")
	if len(values) == 0 || len(values[0]) < len(form) {
		return ""
	}
	text := values[0][:len(form)]
	for i, c := range []byte(form) {
		if digit := strings.IndexByte("0123456789abcdef", text[i]) >= 0; digit != (c == '0') || !digit &&
			text[i] != c {
			return ""
		}
	}
	return strings.Clone(text)
}

// heard tells of a message of the client.
func (l *sessionLog) heard(m *coordination.ClientMessage) {
	if l == nil {
		return
	}
	switch m.Kind {
	case coordination.ClientStart:
		l.session.CompareAndSwap(0, uint64(m.Start.Session))
		l.logger.Debug("session: start", "path", lograte.Cut(m.Start.Path), "session", uint64(m.Start.Session),
			"timeout_ms", m.Start.TimeoutMillis, "description", lograte.Cut(m.Start.Description))
	case coordination.ClientStop:
		l.logger.Debug("session: stop", "session", l.session.Load())
	case coordination.ClientSemaphore:
		l.requests.Add(1)
		l.logger.Debug("session: request", "session", l.session.Load(), "req_id", m.ReqID, "request",
			meters.RequestNames[m.Request.Kind], "semaphore", lograte.Cut(m.Request.Name), "count", m.Request.Count)
	}
}

// replied tells of a message to the client.
func (l *sessionLog) replied(r *coordination.Reply) {
	if l == nil {
		return
	}
	switch r.Kind {
	case coordination.ReplyStarted:
		l.session.Store(uint64(r.Session))
		l.logger.Debug("session: attached", "session", uint64(r.Session))
	case coordination.ReplyStopped:
		l.logger.Debug("session: stopped, it has ended", "session", uint64(r.Session))
	case coordination.ReplyFailure:
		l.logger.Debug("session: failure", append([]any{"session", l.session.Load()},
			refusalFields(r.Refusal)...)...)
	case coordination.ReplyPending:
		l.logger.Debug("session: waits", "session", l.session.Load(), "req_id", r.ReqID)
	case coordination.ReplyChanged:
		l.logger.Debug("session: a watch has fired", "session", l.session.Load(), "req_id", r.ReqID)
	case coordination.ReplyResult:
		l.logger.Debug("session: answer", append([]any{"session", l.session.Load(), "req_id", r.ReqID,
			"request", meters.RequestNames[r.Request], "done", r.Done}, refusalFields(r.Refusal)...)...)
	}
}

func refusalFields(r *coordination.Refusal) []any {
	if r == nil {
		return []any{"status", "SUCCESS"}
	}
	return []any{"status", r.Status.String(), "why", lograte.Cut(r.Text)}
}

// end tells of the end of the stream, once. Its session lives on until its timeout, unless it was stopped.
func (l *sessionLog) end(why string) {
	if l == nil || l.ended.Swap(true) {
		return
	}
	l.logger.Debug("session: the stream has ended", "session", l.session.Load(), "why", why, "requests",
		l.requests.Load(), "after", time.Since(l.begun))
}

// debugUnary tells of calls with one request, what came of them, and how long they took.
func (s *Server) debugUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	if !s.config.Logger.Enabled(ctx, slog.LevelDebug) {
		return handler(ctx, request)
	}
	begun := time.Now()
	answer, err := handler(ctx, request)
	fields := append([]any{"method", info.FullMethod}, callerFields(ctx)...)
	if about, ok := request.(interface{ GetPath() string }); ok {
		fields = append(fields, "path", lograte.Cut(about.GetPath()))
	}
	text := status.Code(err).String()
	if operation, ok := calls.OperationIn(answer); ok && err == nil {
		if text = operation.GetStatus().String(); operation.GetStatus() != Ydb.StatusIds_SUCCESS &&
			len(operation.GetIssues()) > 0 {
			fields = append(fields, "why", lograte.Cut(operation.GetIssues()[0].GetMessage()))
		}
	}
	s.config.Logger.Debug("call", append(fields, "status", text, "took", time.Since(begun))...)
	return answer, err
}
