package server

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/meters"
	"github.com/coordd/coordd/server/readiness"
)

// The services that anonymous callers reach even where authentication is required: the login itself, the
// health check of container platforms, and the management of users, which knows its own rules.
const (
	loginMethod   = "/Ydb.Auth.V1.AuthService/Login"
	healthService = "/grpc.health.v1.Health/"
)

// needsNoToken reports whether anonymous callers reach a method where authentication is required.
func needsNoToken(method string) bool {
	return method == loginMethod || strings.HasPrefix(method, healthService) ||
		strings.HasPrefix(method, "/"+adminpb.Users_ServiceDesc.ServiceName+"/")
}

// authenticate finds out who calls, from the headers of the call alone.
func (s *Server) authenticate(ctx context.Context, method string) (context.Context, error) {
	if method == loginMethod || strings.HasPrefix(method, healthService) {
		return ctx, s.awaitStart(ctx, method)
	}
	if err := s.awaitStart(ctx, method); err != nil {
		return nil, err
	}
	id, err := auth.Of(ctx), error(nil) // of a call from the console, which has tokens of its own
	if id == auth.Anonymous {
		name, _ := calls.Database(ctx)
		id, err = s.auth.Identify(ctx, name, s.group.Accounts())
	}
	switch {
	case err != nil:
		s.auth.TellRefusedToken(ctx, err, s.config.Logger)
		s.meters.Reject(meters.RejectedToken)
		return nil, err
	case s.auth.Required && id.ByLogin() && s.readiness.CutOff():
		return nil, readiness.ErrCutOff
	case id == auth.Anonymous && auth.FromSocket(ctx):
		id = auth.LocalAdministrator
	case id == auth.Anonymous && s.auth.Required && !needsNoToken(method):
		s.auth.TellRefusedToken(ctx, auth.ErrTokenRequired, s.config.Logger)
		return nil, auth.ErrTokenRequired
	}
	return auth.With(ctx, id), nil
}

// heldBack are the services whose answers depend on users and their rights.
var heldBack = []string{"/Ydb.Coordination.", "/Ydb.Scheme.", "/Ydb.RateLimiter.", "/Ydb.Auth.",
	"/coordd.admin.v1.Inspect/"}

// awaitStart holds a call back until the server has started: before that a user who was removed may still
// seem to be there, and the first administrator may be missing, so that a stranger could become it. Where
// rights do not count, this is about the management of users and of the cluster only.
func (s *Server) awaitStart(ctx context.Context, method string) error {
	select {
	case <-s.opened:
		return nil
	default:
	}
	waits := strings.HasPrefix(method, "/"+adminpb.Users_ServiceDesc.ServiceName+"/") ||
		strings.HasPrefix(method, "/"+adminpb.Cluster_ServiceDesc.ServiceName+"/") &&
			!strings.HasSuffix(method, "/Status") ||
		(s.auth.Required || auth.ShowsToken(ctx)) && slices.ContainsFunc(heldBack,
			func(service string) bool { return strings.HasPrefix(method, service) })
	if !waits {
		return nil
	}
	patience := time.NewTimer(s.calls.Longest())
	defer patience.Stop()
	select {
	case <-s.opened:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-s.done:
	case <-patience.C:
	}
	return status.Error(codes.Unavailable, "The server is not ready: "+s.Readiness().Reason)
}

// enforcerPeriod is the interval of checks of the token file and, if anything changed, of open streams. A stream that
// lost its right is ended within twice that, and spreadTime where many lose theirs at once.
const enforcerPeriod = 500 * time.Millisecond

// enforcer is the goroutine that enforces what has changed on streams that are already open, and sees to the
// limits of the state. A request costs nothing.
type enforcer struct {
	stop    context.CancelFunc
	stopped chan struct{}
}

func (s *Server) startEnforcer() {
	ctx, stop := context.WithCancel(context.Background())
	s.enforcer = enforcer{stop: stop, stopped: make(chan struct{})}
	go s.enforce(ctx)
}

func (s *Server) enforce(ctx context.Context) {
	defer close(s.enforcer.stopped)
	ticker := time.NewTicker(enforcerPeriod)
	defer ticker.Stop()
	checked := s.group.AccessVersion()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if now := time.Now(); s.admin.Charts.Due(now) {
			s.admin.Charts.Add(s.reading())
			s.inspect.Load().Usage.Sample(now, s.group.Limiter())
		}
		s.stateLimit.SetFirst(ctx)
		s.stateLimit.Log()
		reloaded := s.auth.ReloadTokens(s.config.Logger)
		version := s.group.AccessVersion()
		if !reloaded && version == checked {
			continue
		}
		s.sessions.EndRevoked(ctx)
		if s.group.RecheckAccess(ctx) == nil {
			checked = version
		}
	}
}
