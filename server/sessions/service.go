package sessions

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/internal/budget"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/group/streams"
	"github.com/coordd/coordd/server/listen"
	"github.com/coordd/coordd/server/meters"
	"github.com/coordd/coordd/server/wire"
)

// Service serves Session streams. Its exported fields are set before Start.
type Service struct {
	*calls.Runner
	Auth   *auth.Authenticator
	Meters *meters.Meters
	Panics *meters.Panics
	Logger *slog.Logger
	// Policy is the policy for pinging clients.
	Policy  coordination.PingPolicy
	python  coordination.PingPolicy
	writers *writers
}

// Start starts the writers.
func (s *Service) Start() {
	s.python = s.Policy
	s.python.MaxIntervalMillis = 2000
	s.writers = newWriters()
}

// Stop ends the writers once they have sent everything. No stream may be left.
func (s *Service) Stop() { s.writers.close() }

// Figures are about what clients that do not read hold up.
type Figures struct {
	// Prompt is the number of writers that serve clients that read, and HeldUp that of those busy with others.
	Prompt, HeldUp int
	// LentBytes is the memory that large answers have.
	LentBytes int
}

// Budgets returns what bounds large answers.
func (s *Service) Budgets() []*budget.Budget {
	return []*budget.Budget{s.writers.lending, s.writers.encoding}
}

// Figures returns the present ones.
func (s *Service) Figures() Figures {
	prompt, _ := s.writers.prompt.count()
	running, idle := s.writers.slow.count()
	return Figures{Prompt: prompt, HeldUp: running - idle, LentBytes: s.writers.lending.Used()}
}

func (s *Service) open(rpc Ydb_Coordination_V1.CoordinationService_SessionServer) (*Session, error) {
	finish, err := listen.StatusWriterOf(rpc.Context())
	if err != nil {
		return nil, err
	}
	// With compression every client would have a copy of its own of what is described.
	if err := listen.SendUncompressed(rpc.Context()); err != nil {
		return nil, err
	}
	session := &Session{rpc: rpc, finish: finish, pool: s.writers, panics: s.Panics, meters: s.Meters,
		identity: auth.Of(rpc.Context()), client: clientOf(rpc.Context()), opened: time.Now().UnixMilli(),
		log: newSessionLog(rpc.Context(), s.Logger)}
	session.Stream = s.Group.NewStream(session, s.caller(rpc.Context(), session.client), s.pingPolicy(rpc.Context()))
	return session, nil
}

// Serve is coordination.md §2.
func (s *Service) Serve(rpc Ydb_Coordination_V1.CoordinationService_SessionServer) error {
	session, err := s.open(rpc)
	if err != nil {
		return err
	}
	defer func() {
		call := listen.CallOf(rpc.Context())
		call.Answered(session.mayLieUnread())
		call.Gone(session.close)
	}()
	switch err := session.Stream.Enter(); {
	case errors.Is(err, streams.ErrStopped):
		return refuseAtItsFirstMessage(rpc)
	case err != nil:
		return status.Error(codes.Unavailable, err.Error())
	}
	defer session.Stream.Leave()
	// revoked before the enforcer knew the stream
	if !s.Auth.StillValid(session.identity, s.Group.Accounts()) {
		return auth.ErrInvalidToken
	}
	return session.serve()
}

// refuseAtItsFirstMessage ends a stream that came to a server which is stopping: its client may have opened
// it again before it could know. The refusal awaits the client's SessionStart, because the Go SDK gives up a
// session for good whose SessionStart it could not send. The end of the connection bounds the wait.
func refuseAtItsFirstMessage(rpc Ydb_Coordination_V1.CoordinationService_SessionServer) error {
	if _, err := rpc.Recv(); err != nil {
		return err
	}
	return rpc.Send(wire.ToClient(&coordination.Reply{Kind: coordination.ReplyFailure,
		Refusal: coordination.LinkFailure}))
}

// pingPolicy returns how to ping the client of a stream: the Python SDK gives up after 3 s of silence
// (surface.md §2.6).
func (s *Service) pingPolicy(ctx context.Context) *coordination.PingPolicy {
	for _, info := range metadata.ValueFromIncomingContext(ctx, "x-ydb-sdk-build-info") {
		if strings.HasPrefix(info, "ydb-python-sdk") {
			return &s.python
		}
	}
	return &s.Policy
}

// caller returns the caller that opens a stream.
func (s *Service) caller(ctx context.Context, client *coordination.Client) streams.Caller {
	caller := streams.Caller{Caller: s.Caller(ctx), Client: client, Trace: traceOf(ctx)}
	if caller.Enforced {
		caller.Identity = auth.Of(ctx).OfSession()
	}
	return caller
}

// traceOf is the traceparent of a call, or "" unless it has the form of W3C's Trace Context: version, trace, span and
// flags in hexadecimal digits. Further fields of later versions are left out.
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

// EndRevoked ends the streams of this server whose tokens or users are no more.
func (s *Service) EndRevoked(ctx context.Context) {
	known := s.Group.Accounts()
	revoked := slices.DeleteFunc(s.Group.Clients(), func(client streams.Client) bool {
		c, remote := client.(*Session)
		return !remote || s.Auth.StillValid(c.identity, known) // the stand-in has clients without a token
	})
	spread(len(revoked), func(pause time.Duration) bool { return sleep(ctx, pause) }, func(i int) {
		revoked[i].(*Session).Stream.End(coordination.NoAccess)
	})
}

const (
	// endsAtOnce bounds the streams that are ended one after the other. More are ended in spreadParts parts over
	// spreadTime: their clients all come back at once and log in.
	endsAtOnce  = 100
	spreadTime  = time.Second
	spreadParts = 20
)

// spread calls end for each of n, in order, and pauses between parts of them where they are many. A pause
// that reports false ends it.
func spread(n int, pause func(time.Duration) bool, end func(i int)) {
	part := n
	if n > endsAtOnce {
		part = (n + spreadParts - 1) / spreadParts
	}
	for i := range n {
		if i > 0 && i%part == 0 && !pause(spreadTime/spreadParts) {
			return
		}
		end(i)
	}
}

// sleep waits and reports whether ctx let it.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
