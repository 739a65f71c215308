package auth

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/scheme"
)

var (
	ErrInvalidToken = status.Error(codes.Unauthenticated, "The token is not valid or has expired")
	// ErrTokenRequired is for a caller who shows nothing.
	ErrTokenRequired = status.Error(codes.Unauthenticated, "Authentication is required")
)

// Authenticator finds out who calls.
type Authenticator struct {
	// Required says that anonymous callers are refused. The rights of a caller with a token always count.
	Required bool
	// LoopbackAdmin is an older rule: everybody on the server's machine may do what otherwise needs the
	// administrator's socket.
	LoopbackAdmin bool
	// LoginLifetime is how long a login token is good.
	LoginLifetime time.Duration
	// Passwords are hashed and verified by it.
	Passwords *Hasher

	attempts *attempts
	database scheme.Path
	tokens   *tokenFile // nil without one
	refusals lograte.ByKey
}

// New is an authenticator for a database, an absolute path. tokenFile names a file of access tokens; empty:
// none. Errors: those of reading it.
func New(required bool, database, tokenFile string) (*Authenticator, error) {
	tokens, err := openTokenFile(tokenFile)
	if err != nil {
		return nil, err
	}
	return &Authenticator{Required: required, LoginLifetime: DefaultLoginLifetime, Passwords: NewHasher(),
		attempts: newAttempts(), database: scheme.SplitLoose(database), tokens: tokens}, nil
}

// AsAdministrator ends a refusal with the ways to be an administrator.
const AsAdministrator = "log in as one (--user), or use the socket in the server's data directory, as its owner " +
	"(--data-dir)"

// IsLocal reports whether LoopbackAdmin lets a caller act as an administrator.
func (a *Authenticator) IsLocal(ctx context.Context) bool {
	return a.LoopbackAdmin && FromLoopback(ctx)
}

// Serves reports whether name is that of the database.
func (a *Authenticator) Serves(name string) bool {
	return slices.Equal(scheme.SplitLoose(name), a.database)
}

// TokensText reports whether two servers take the same access tokens. It is much too short to guess one by
// it.
func (a *Authenticator) TokensText() string {
	if a.tokens == nil {
		return "none"
	}
	return a.tokens.text()
}

// ReloadTokens reads the token file again if it has changed, and reports whether it had. It tells what it
// did, an error once.
func (a *Authenticator) ReloadTokens(logger *slog.Logger) bool {
	if a.tokens == nil {
		return false
	}
	changed, err := a.tokens.reload()
	if err != nil && err.Error() != a.tokens.told {
		logger.Error("the token file cannot be read, its former tokens go on", "error", err)
		a.tokens.told = err.Error()
	}
	if changed {
		logger.Info("token file read again", "file", a.tokens.path)
	}
	return changed
}

// ticket is the token of a request. Some SDKs always send the header, empty where they have none.
func ticket(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, "x-ydb-auth-ticket"); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Identify returns who calls, or a gRPC error (coordination.md §2.2). database is the one that the call
// names; empty: none. A token counts before a client certificate. An unknown or expired token is refused also
// where a call without one would be served.
func (a *Authenticator) Identify(ctx context.Context, database string, known *accounts.Accounts) (*Identity, error) {
	token := ticket(ctx)
	if (token != "" || a.Required) && database != "" && !a.Serves(database) {
		return nil, status.Error(codes.Unauthenticated, "Unknown database: "+database)
	}
	if token == "" {
		if id := certificateIdentity(ctx); id != nil {
			return id, nil
		}
		return Anonymous, nil
	}
	if id := a.resolve(token, known); id != nil {
		return id, nil
	}
	return nil, ErrInvalidToken
}

// ShowsToken reports whether a call comes with a token, good or not.
func ShowsToken(ctx context.Context) bool { return ticket(ctx) != "" }

// resolve returns whose token it is, nil if nobody's.
func (a *Authenticator) resolve(token string, known *accounts.Accounts) *Identity {
	if len(token) > maxTicketBytes {
		return nil
	}
	if id := a.tokens.resolve(token); id != nil {
		return id
	}
	return resolveLogin(token, a.database.String(), a.LoginLifetime, known, time.Now())
}

// StillValid reports whether what an identity was proved by has not been revoked. A login token that has only
// expired stays good for a stream that began before (surface.md §5).
func (a *Authenticator) StillValid(id *Identity, known *accounts.Accounts) bool {
	switch id.source {
	case fromTokenFile:
		return a.tokens.has(id)
	case fromLogin:
		return id.login.stillValid(id.Name, known)
	}
	return true
}
