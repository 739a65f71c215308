package sessions

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/meters"
)

// Clients' requests and their results are logged at debug level only. A call checks the level once: at another level, a
// message on a stream costs a look at a nil pointer.

// sessionLog logs one Session stream; a nil one logs nothing. One goroutine calls heard, and one replied.
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
	return &sessionLog{logger: logger.With(auth.LogFields(ctx)...), begun: time.Now()}
}

// heard logs a message of the client.
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

// replied logs a message to the client.
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

// end logs the end of the stream, once. Its session lives on until its timeout, unless it was stopped.
func (l *sessionLog) end(why string) {
	if l == nil || l.ended.Swap(true) {
		return
	}
	l.logger.Debug("session: the stream has ended", "session", l.session.Load(), "why", why, "requests",
		l.requests.Load(), "after", time.Since(l.begun))
}
