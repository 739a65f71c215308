package server

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/protobuf/proto"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

const (
	// loginLifetime is how long a login token is good.
	loginLifetime = 12 * time.Hour
	// signingKeyLifetime is how long a key signs before the next login makes a new one.
	signingKeyLifetime = 24 * time.Hour
	// signingKeyBytes is the length of a key.
	signingKeyBytes = 32
	// clockSkew is how far the servers' clocks may be apart.
	clockSkew = time.Minute
)

// loginClaims is the content of a login token. Its subject is the user, its audience the database.
type loginClaims struct {
	jwt.RegisteredClaims
	// Version is that of the user's password: another password, or another user of the same name, has another.
	Version uint64 `json:"ver"`
}

// loginProof is what an identity keeps of its token.
type loginProof struct {
	version uint64
	key     uint64
	expires time.Time
}

// stillValid tells whether the user is still there with the same password, and whether the key has not been thrown
// away while the token was good.
func (p *loginProof) stillValid(name string, known *accounts.Accounts, now time.Time) bool {
	user, found := known.User(name)
	if !found || user.Version != p.version {
		return false
	}
	return now.After(p.expires) || slices.ContainsFunc(known.SigningKeys(), func(k accounts.SigningKey) bool { return k.ID == p.key })
}

// signLogin makes a token with the newest key.
func signLogin(user accounts.User, database string, key accounts.SigningKey, now time.Time) (string, error) {
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, loginClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: user.Name, Audience: jwt.ClaimStrings{database},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(loginLifetime)),
		},
		Version: user.Version,
	})
	token.Header["kid"] = strconv.FormatUint(key.ID, 10)
	return token.SignedString(key.Secret)
}

// resolveLogin returns whose login token it is, nil if it is none, or none that is good now.
func resolveLogin(token, database string, known *accounts.Accounts, now time.Time) *identity {
	if len(known.SigningKeys()) == 0 {
		return nil
	}
	var claims loginClaims
	var key accounts.SigningKey
	_, err := jwt.ParseWithClaims(token, &claims, func(t *jwt.Token) (any, error) {
		kid, _ := t.Header["kid"].(string)
		for _, key = range known.SigningKeys() {
			if strconv.FormatUint(key.ID, 10) == kid {
				return key.Secret, nil
			}
		}
		return nil, jwt.ErrTokenUnverifiable
	}, jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithAudience(database), jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(), jwt.WithLeeway(clockSkew), jwt.WithTimeFunc(func() time.Time { return now }))
	if err != nil || claims.Subject == "" {
		return nil
	}
	user, found := known.User(claims.Subject)
	if !found || user.Version != claims.Version {
		return nil
	}
	return &identity{name: user.Name, source: fromLogin,
		login: loginProof{version: claims.Version, key: key.ID, expires: claims.ExpiresAt.Time}}
}

// authService is Ydb.Auth.V1.AuthService (surface.md §5).
type authService struct {
	Ydb_Auth_V1.UnimplementedAuthServiceServer
	*Server
}

// Login gives a token for a user's name and password.
func (s authService) Login(ctx context.Context, r *Ydb_Auth.LoginRequest) (*Ydb_Auth.LoginResponse, error) {
	op, err := s.operate(ctx, r.GetOperationParams(), func(ctx context.Context) (proto.Message, outcome.Outcome, error) {
		token, answer, err := s.login(ctx, r.GetUser(), r.GetPassword())
		return &Ydb_Auth.LoginResult{Token: token}, answer, err
	})
	return &Ydb_Auth.LoginResponse{Operation: op}, err
}

func (s authService) login(ctx context.Context, name, password string) (token string, answer outcome.Outcome, err error) {
	if sent, found := database(ctx); found && sent != "" && !slices.Equal(scheme.SplitLoose(sent), s.auth.database) {
		return "", outcome.Because(outcome.SchemeError, "No database found"), nil
	}
	if err := s.group.CatchUp(ctx); err != nil {
		return "", outcome.Outcome{}, err
	}
	user, _ := s.group.Accounts().User(name)
	right, err := s.auth.hasher.verify(ctx, password, user.PasswordHash)
	switch {
	case errors.Is(err, errHashingOverloaded), err != nil && errors.Is(context.Cause(ctx), errPatience):
		return "", outcome.Because(outcome.Overloaded, "Too many logins at once, try again"), nil
	case errors.Is(err, errStoredHash):
		return "", outcome.Because(outcome.InternalError, err.Error()), nil
	case err != nil:
		return "", outcome.Outcome{}, err
	case !right:
		return "", outcome.Refuse(outcome.Unauthorized, outcome.Issue{Code: uint32(outcome.Unauthorized),
			Severity: outcome.SeverityError, Message: "Invalid user or password"}), nil
	}
	key, answer, err := s.signingKey(ctx)
	if err != nil || !answer.OK() {
		return "", answer, err
	}
	token, err = signLogin(user, s.auth.database.String(), key, time.Now())
	return token, answer, err
}

// signingKey returns the key that signs now. The first login of a cluster, and the first after signingKeyLifetime, makes
// a new one; keys go when nothing that they signed can be good any more.
func (s *Server) signingKey(ctx context.Context) (accounts.SigningKey, outcome.Outcome, error) {
	newest, found := newestKey(s.group.Accounts())
	if found && time.Since(time.UnixMilli(int64(newest.CreatedMillis))) < signingKeyLifetime {
		return newest, outcome.Done(), nil
	}
	outdated := time.Now().Add(-signingKeyLifetime - loginLifetime - 2*clockSkew)
	answer, err := s.rotateSigningKey(ctx, coordination.Caller{}, newest.ID, uint64(max(0, outdated.UnixMilli())))
	if err != nil || !answer.OK() && answer.Status != outcome.PreconditionFailed {
		return newest, answer, err
	}
	// A refusal means that another login was first; its key is as good.
	if newest, found = newestKey(s.group.Accounts()); !found {
		return newest, answer, nil
	}
	return newest, outcome.Done(), nil
}

func newestKey(known *accounts.Accounts) (accounts.SigningKey, bool) {
	keys := known.SigningKeys()
	if len(keys) == 0 {
		return accounts.SigningKey{}, false
	}
	return keys[len(keys)-1], true
}

func (s *Server) rotateSigningKey(ctx context.Context, by coordination.Caller,
	after, dropBeforeMillis uint64) (outcome.Outcome, error) {
	secret := make([]byte, signingKeyBytes)
	if _, err := rand.Read(secret); err != nil {
		return outcome.Outcome{}, err
	}
	return s.execute(ctx, func(call coordination.Call) coordination.Command {
		return &coordination.RotateSigningKey{Call: call, Caller: by, Secret: secret, After: after,
			StampMillis: s.group.Clock().WallMillis(), DropBeforeMillis: dropBeforeMillis}
	})
}
