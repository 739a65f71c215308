package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/adminpb"
)

// The values of Config.Auth.
const (
	// AuthOff lets everybody do everything, as a local YDB does. Identities are still found and shown, and a bad token
	// makes its sender anonymous.
	AuthOff = "off"
	// AuthRequired refuses anonymous callers, and everything that permissions do not allow.
	AuthRequired = "required"
)

// maxTicketBytes bounds a token; what is longer is none of ours.
const maxTicketBytes = 16 << 10

// identity is who a caller has proved to be, and by what. It does not change.
type identity struct {
	name   string // empty for an anonymous caller
	source identitySource
	token  [sha256.Size]byte // of a token from the file
	login  loginProof        // of a login token
}

type identitySource uint8

const (
	fromNothing identitySource = iota
	fromTokenFile
	fromLogin
	fromCertificate
)

var anonymous = &identity{}

var (
	errInvalidToken  = status.Error(codes.Unauthenticated, "The token is not valid or has expired")
	errTokenRequired = status.Error(codes.Unauthenticated, "Authentication is required")
)

// authenticator finds out who calls.
type authenticator struct {
	required bool
	database scheme.Path
	tokens   *tokenFile // nil without one
	hasher   *passwordHasher
}

func newAuthenticator(config Config) (*authenticator, error) {
	tokens, err := openTokenFile(config.TokenFile)
	if err != nil {
		return nil, &ConfigError{err}
	}
	return &authenticator{
		required: config.Auth == AuthRequired, database: scheme.SplitLoose(config.Database), tokens: tokens, hasher: newPasswordHasher(),
	}, nil
}

func (c Config) validateAuth() error {
	switch {
	case c.Auth != "" && c.Auth != AuthOff && c.Auth != AuthRequired:
		return fmt.Errorf("auth %q: want %s or %s", c.Auth, AuthOff, AuthRequired)
	case (c.InitialAdmin == "") != (c.InitialAdminPassword == ""):
		return errors.New("initial administrator: want a name and a password, or neither")
	}
	return nil
}

// ticket is the token of a request. Some SDKs always send the header, empty where they have none.
func ticket(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, "x-ydb-auth-ticket"); len(values) > 0 {
		return values[0]
	}
	return ""
}

// identify returns who calls, or a gRPC error (coordination.md §2.2). A token counts before a client certificate. Where
// authentication is not required a bad token is let through as anonymous.
func (a *authenticator) identify(ctx context.Context, known *accounts.Accounts) (*identity, error) {
	token := ticket(ctx)
	if token != "" || a.required {
		if name, sent := database(ctx); sent && name != "" && !slices.Equal(scheme.SplitLoose(name), a.database) {
			return nil, status.Error(codes.Unauthenticated, "Unknown database: "+strings.ToValidUTF8(name, "\uFFFD"))
		}
	}
	if token == "" {
		return orAnonymous(certificateIdentity(ctx)), nil
	}
	if id := a.resolve(token, known); id != nil {
		return id, nil
	}
	if a.required {
		return nil, errInvalidToken
	}
	return anonymous, nil
}

func orAnonymous(id *identity) *identity {
	if id == nil {
		return anonymous
	}
	return id
}

// resolve returns whose token it is, nil if nobody's.
func (a *authenticator) resolve(token string, known *accounts.Accounts) *identity {
	if len(token) > maxTicketBytes {
		return nil
	}
	if id := a.tokens.resolve(token); id != nil {
		return id
	}
	return resolveLogin(token, a.database.String(), known, time.Now())
}

// stillValid tells whether what an identity was proved by has not been revoked. A login token that has only expired
// stays good for a stream that began before (surface.md §5).
func (a *authenticator) stillValid(id *identity, known *accounts.Accounts) bool {
	switch {
	case !a.required:
		return true
	case id.source == fromTokenFile:
		return a.tokens.has(id)
	case id.source == fromLogin:
		return id.login.stillValid(id.name, known, time.Now())
	}
	return true
}

type identityKey struct{}

// identityOf is the identity that the interceptors found.
func identityOf(ctx context.Context) *identity {
	if id, ok := ctx.Value(identityKey{}).(*identity); ok {
		return id
	}
	return anonymous
}

func withIdentity(ctx context.Context, id *identity) context.Context {
	if id == anonymous {
		return ctx
	}
	return context.WithValue(ctx, identityKey{}, id)
}

// The services that anonymous callers reach even where authentication is required: the login itself, the health check of
// container platforms, and the management of users, which knows its own rules.
const (
	loginMethod   = "/Ydb.Auth.V1.AuthService/Login"
	healthService = "/grpc.health.v1.Health/"
)

// authenticate is what both interceptors do.
func (s *Server) authenticate(ctx context.Context, method string) (context.Context, error) {
	if method == loginMethod || strings.HasPrefix(method, healthService) {
		return ctx, s.awaitStart(ctx, method)
	}
	if err := s.awaitStart(ctx, method); err != nil {
		return nil, err
	}
	id, err := s.auth.identify(ctx, s.group.Accounts())
	switch {
	case err != nil:
		return nil, err
	case id == anonymous && s.auth.required && !strings.HasPrefix(method, "/"+adminpb.Users_ServiceDesc.ServiceName+"/"):
		return nil, errTokenRequired
	}
	return withIdentity(ctx, id), nil
}

// heldBack are the services whose answers depend on users and their rights.
var heldBack = []string{"/Ydb.Coordination.", "/Ydb.Scheme.", "/Ydb.Auth."}

// awaitStart holds a call back until the server has started: before that a user who was removed may still seem to be
// there, and the first administrator may be missing, so that a stranger could become it. Where rights do not count, this
// is about the management of users and of the cluster only.
func (s *Server) awaitStart(ctx context.Context, method string) error {
	select {
	case <-s.opened:
		return nil
	default:
	}
	waits := strings.HasPrefix(method, "/"+adminpb.Users_ServiceDesc.ServiceName+"/") ||
		strings.HasPrefix(method, "/"+adminpb.Cluster_ServiceDesc.ServiceName+"/") && !strings.HasSuffix(method, "/Status") ||
		s.auth.required && slices.ContainsFunc(heldBack, func(service string) bool { return strings.HasPrefix(method, service) })
	if !waits {
		return nil
	}
	patience := time.NewTimer(s.patience())
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

func (s *Server) authenticateUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	ctx, err := s.authenticate(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	return handler(ctx, request)
}

func (s *Server) authenticateStream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, err := s.authenticate(stream.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	if ctx != stream.Context() {
		stream = identifiedStream{stream, ctx}
	}
	return handler(service, stream)
}

// identifiedStream is a stream whose context knows who opened it.
type identifiedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s identifiedStream) Context() context.Context { return s.ctx }

// caller is who asks, for a command or a read of the machine.
func (s *Server) caller(ctx context.Context) coordination.Caller {
	return coordination.Caller{Subject: identityOf(ctx).name, Enforced: s.auth.required}
}

// ownerFor is who owns what a caller creates.
func ownerFor(ctx context.Context) string {
	if name := identityOf(ctx).name; name != "" {
		return name
	}
	return scheme.RootOwner
}

// fromLoopback tells whether the caller is on this machine.
func fromLoopback(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	address, ok := p.Addr.(*net.TCPAddr)
	return ok && address.IP.IsLoopback()
}
