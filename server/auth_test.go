package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/auth"
)

// TestAnonymousIsRefused covers every service: nothing answers without a token but the login and the health
// check.
func TestAnonymousIsRefused(t *testing.T) {
	g := startGuarded(t, nil)
	for name, call := range map[string]func(context.Context) error{
		"coordination": func(ctx context.Context) error {
			_, err := Ydb_Coordination_V1.NewCoordinationServiceClient(g.conn).DescribeNode(ctx,
				&Ydb_Coordination.DescribeNodeRequest{Path: testNode})
			return err
		},
		"scheme": func(ctx context.Context) error {
			_, err := Ydb_Scheme_V1.NewSchemeServiceClient(g.conn).ListDirectory(ctx,
				&Ydb_Scheme.ListDirectoryRequest{Path: "/local"})
			return err
		},
		"discovery": func(ctx context.Context) error {
			_, err := Ydb_Discovery_V1.NewDiscoveryServiceClient(g.conn).ListEndpoints(ctx,
				&Ydb_Discovery.ListEndpointsRequest{Database: "/local"})
			return err
		},
		"session": func(ctx context.Context) error {
			stream, err := Ydb_Coordination_V1.NewCoordinationServiceClient(g.conn).Session(ctx)
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		},
	} {
		for what, ctx := range map[string]context.Context{
			"without a token":     t.Context(),
			"with an empty token": g.as(""),
			"with a bad token":    g.as("token-of-nobody"),
			"with a broken token": g.as("a.b.c"),
			"with a long token":   g.as(strings.Repeat("x", 16<<10+1)),
		} {
			if err := call(ctx); status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s %s: got %v", name, what, err)
			}
		}
	}
	if _, err := grpc_health_v1.NewHealthClient(g.conn).Check(t.Context(),
		&grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
}

// Where authentication is not required, a caller with a token is judged by the rights of its user nevertheless, in
// calls and on streams, and a token of nobody is refused; only a caller without a token may do everything.
func TestRightsOfATokenAlwaysCount(t *testing.T) {
	g := startGuarded(t, func(c *Config) { c.Auth = AuthOff })
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(g.conn).CreateNode(g.as("token-of-bob"),
		&Ydb_Coordination.CreateNodeRequest{Path: "/local/of-bob"})
	if issues := answer.GetOperation().GetIssues(); err != nil ||
		answer.GetOperation().GetStatus() != Ydb.StatusIds_UNAUTHORIZED || len(issues) != 1 ||
		issues[0].GetIssueCode() != 200000 {
		t.Errorf("with the token of a user without rights: %v, %v", answer, err)
	}
	stream := openTest(t, g.as("token-of-bob"), g.conn, start(10_000))
	if m := receive(t, stream); m.GetFailure().GetStatus() != Ydb.StatusIds_UNAUTHORIZED {
		t.Errorf("a stream of the same: %v", m)
	}
	if got := g.createNode("token-of-root", "/local/of-root"); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("with the administrator's token: %v", got)
	}
	if got := g.createNode("", "/local/of-nobody"); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("without a token: %v", got)
	}
	for _, token := range []string{"token-of-nobody", "a.b.c", strings.Repeat("x", 16<<10+1)} {
		if _, err := g.whoAmI(g.as(token)); status.Code(err) != codes.Unauthenticated {
			t.Errorf("with a token of nobody: %v", err)
		}
	}

	// What a token loses takes effect on streams, too.
	g.permit(testNode, granting("alice", "ydb.generic.full"))
	stream = openTest(t, g.as("token-of-alice"), g.conn, start(10_000))
	receiveStarted(t, stream)
	writeFile(t, g.tokens, "token-of-root root\n")
	for m := receive(t, stream); m.GetFailure() == nil; m = receive(t, stream) {
	}
}

// TestUnknownDatabase is the rule of coordination.md §2.2.
func TestUnknownDatabase(t *testing.T) {
	g := startGuarded(t, nil)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-ydb-auth-ticket", "token-of-alice",
		"x-ydb-database", "/other")
	if _, err := g.whoAmI(ctx); status.Code(err) != codes.Unauthenticated ||
		!strings.Contains(err.Error(), "Unknown database") {
		t.Errorf("got %v", err)
	}
	answer, err := Ydb_Auth_V1.NewAuthServiceClient(
		g.conn).Login(metadata.AppendToOutgoingContext(t.Context(), "x-ydb-database", "/other"),
		&Ydb_Auth.LoginRequest{User: "root", Password: rootPassword})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SCHEME_ERROR ||
		answer.GetOperation().GetIssues()[0].GetMessage() != "No database found" {
		t.Errorf("got %v, %v", answer, err)
	}
	_, open := startTest(t, nil)
	who := Ydb_Discovery_V1.NewDiscoveryServiceClient(open)
	if _, err := who.WhoAmI(metadata.AppendToOutgoingContext(t.Context(), "x-ydb-database", "/other"),
		&Ydb_Discovery.WhoAmIRequest{}); err != nil {
		t.Errorf("without token and requirement the header is not checked: %v", err)
	}
	if _, err := who.WhoAmI(ctx, &Ydb_Discovery.WhoAmIRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("with a token it is: %v", err)
	}
}

// A token names its user also where none is required.
func TestTokenIsKnownWithoutRequirement(t *testing.T) {
	g := startGuarded(t, func(c *Config) { c.Auth = AuthOff })
	if who, err := g.whoAmI(g.as("token-of-alice")); err != nil || who.GetUser() != "alice" {
		t.Errorf("got %v, %v", who, err)
	}
	g.permit("/local", granting("alice", "ydb.generic.full"))
	if got := g.createNode("token-of-alice", "/local/hers"); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("got %v", got)
	}
	answer, err := Ydb_Scheme_V1.NewSchemeServiceClient(g.conn).DescribePath(t.Context(),
		&Ydb_Scheme.DescribePathRequest{Path: "/local/hers"})
	var result Ydb_Scheme.DescribePathResult
	if err != nil || answer.GetOperation().GetResult().UnmarshalTo(&result) != nil ||
		result.GetSelf().GetOwner() != "alice" {
		t.Errorf("got %v, %v", answer, err)
	}
}

// TestLogin covers the token and the refusals.
func TestLogin(t *testing.T) {
	g := startGuarded(t, nil)
	token, _ := g.login("root", rootPassword)
	who, err := g.whoAmI(g.as(token))
	if err != nil || who.GetUser() != "root" || len(who.GetGroups()) != 1 ||
		who.GetGroups()[0] != scheme.AllUsers {
		t.Fatalf("got %v, %v", who, err)
	}
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil {
		t.Fatal(err)
	}
	if claims.Subject != "root" || claims.Audience[0] != "/local" ||
		claims.ExpiresAt.Sub(claims.IssuedAt.Time) != auth.DefaultLoginLifetime {
		t.Errorf("got %+v", claims)
	}
	if again, _ := g.login("root", rootPassword); again == "" || len(g.group.Accounts().SigningKeys()) != 1 {
		t.Errorf("a second login: %q, %d keys", again, len(g.group.Accounts().SigningKeys()))
	}
	for what, pair := range map[string][2]string{
		"wrong password": {"root", "x"}, "no password": {"root", ""}, "unknown user": {"eve", rootPassword},
		"nobody":        {"", ""},
		"long password": {"root", strings.Repeat("x", 1024+1)}, "the stored hash": {"root", g.hashOf("root")},
	} {
		_, answer := g.login(pair[0], pair[1])
		op := answer.GetOperation()
		if op.GetStatus() != Ydb.StatusIds_UNAUTHORIZED ||
			op.GetIssues()[0].GetIssueCode() != uint32(Ydb.StatusIds_UNAUTHORIZED) || op.GetResult() != nil {
			t.Errorf("%s: got %v", what, answer)
		}
	}
}

// TestPasswordsAreDear: what a server stores takes as much to guess as package auth has it, unless a test
// says otherwise.
func TestPasswordsAreDear(t *testing.T) {
	g := startGuarded(t, func(c *Config) { c.replaced.passwords = nil })
	if stored := g.hashOf("root"); !strings.HasPrefix(stored, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("stored: %s", stored)
	}
}

func (g *guarded) hashOf(name string) string {
	user, _ := g.group.Accounts().User(name)
	return user.PasswordHash
}

// loginClaims is the content of a login token.
type loginClaims struct {
	jwt.RegisteredClaims
	Version uint64 `json:"ver"`
}

// TestForgedTokens are tokens that look right and are not.
func TestForgedTokens(t *testing.T) {
	g := startGuarded(t, nil)
	good, _ := g.login("root", rootPassword)
	known := g.group.Accounts()
	key, root := known.SigningKeys()[0], known.Users()[0]
	sign := func(user accounts.User, database string, key accounts.SigningKey, now time.Time) string {
		signer, err := auth.New(true, database, "")
		if err != nil {
			t.Fatal(err)
		}
		token, err := signer.SignLogin(user, key, now)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	now := time.Now()
	if _, err := g.whoAmI(g.as(sign(root, "/local", key, now))); err != nil {
		t.Fatalf("the right one: %v", err)
	}
	stranger, older, otherKey, otherID := root, root, key, key
	stranger.Name, older.Version.Index, otherKey.Secret, otherID.ID.Index = "eve", root.Version.Index-1,
		[]byte("another secret of thirty-two byte"), key.ID.Index+1
	parts := strings.Split(good, ".")
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone,
		loginClaims{RegisteredClaims: jwt.RegisteredClaims{Subject: "root",
			Audience: jwt.ClaimStrings{"/local"}, ExpiresAt: jwt.NewNumericDate(now.Add(time.Hour))},
			Version: root.Version.Index}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	endless := jwt.NewWithClaims(jwt.SigningMethodHS256,
		loginClaims{RegisteredClaims: jwt.RegisteredClaims{Subject: "root",
			Audience: jwt.ClaimStrings{"/local"}}, Version: root.Version.Index})
	endless.Header["kid"] = key.ID.String()
	century := jwt.NewWithClaims(jwt.SigningMethodHS256,
		loginClaims{RegisteredClaims: jwt.RegisteredClaims{Subject: "root",
			Audience:  jwt.ClaimStrings{"/local"},
			IssuedAt:  jwt.NewNumericDate(now.Add(-auth.DefaultLoginLifetime - 2*auth.ClockSkew)),
			ExpiresAt: jwt.NewNumericDate(now.AddDate(100, 0, 0))}, Version: root.Version.Index})
	century.Header["kid"] = key.ID.String()
	forever, err := century.SignedString(key.Secret)
	if err != nil {
		t.Fatal(err)
	}
	withoutEnd, err := endless.SignedString(key.Secret)
	if err != nil {
		t.Fatal(err)
	}
	for what, token := range map[string]string{
		"expired": sign(root, "/local", key,
			now.Add(-auth.DefaultLoginLifetime-2*auth.ClockSkew)),
		"from the future":     sign(root, "/local", key, now.Add(2*auth.ClockSkew)),
		"of another database": sign(root, "/other", key, now),
		"of an unknown user":  sign(stranger, "/local", key, now),
		"of an old password":  sign(older, "/local", key, now),
		"with another secret": sign(root, "/local", otherKey, now),
		"with an unknown key": sign(root, "/local", otherID, now),
		"without a signature": parts[0] + "." + parts[1] + ".",
		"with the signature of another": parts[0] + "." +
			strings.Split(sign(root, "/local", key, now.Add(-time.Hour)), ".")[1] + "." + parts[2],
		"of algorithm none":                   none,
		"without an end":                      withoutEnd,
		"for a hundred years, at its own end": forever,
	} {
		if _, err := g.whoAmI(g.as(token)); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: got %v", what, err)
		}
	}
}
