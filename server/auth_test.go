package server

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"

	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
)

// guarded is a server that requires authentication, with an administrator root, a node, and access tokens:
// those of the file, each of the user that it names.
type guarded struct {
	*Server
	t      *testing.T
	conn   *grpc.ClientConn
	tokens string // the file
}

const rootPassword = "the password of root"

func startGuarded(t *testing.T, change func(*Config)) *guarded {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, tokens, "# of the tests\ntoken-of-alice alice\ntoken-of-bob  bob\ntoken-of-root root\n\n")
	config := Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true, Auth: AuthRequired,
		TokenFile: tokens, InitialAdmin: "root", InitialAdminPassword: rootPassword,
		HoldStartFailureMillis: new(uint64), passwords: auth.NewCheapHasher(64)}
	if change != nil {
		change(&config)
	}
	s, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitMax)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient(s.Addr().String(),
		append(ending(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	g := &guarded{s, t, conn, tokens}
	if got := g.createNode("token-of-root", testNode); got != Ydb.StatusIds_SUCCESS {
		t.Fatalf("create: %v", got)
	}
	return g
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// as is a context with a token; an empty one is sent as such.
func (g *guarded) as(token string) context.Context {
	return metadata.AppendToOutgoingContext(g.t.Context(), "x-ydb-auth-ticket", token, "x-ydb-database",
		"/local")
}

func (g *guarded) createNode(token, path string) Ydb.StatusIds_StatusCode {
	g.t.Helper()
	answer, err := Ydb_Coordination_V1.NewCoordinationServiceClient(g.conn).CreateNode(g.as(token),
		&Ydb_Coordination.CreateNodeRequest{Path: path})
	if err != nil {
		g.t.Fatal(err)
	}
	return answer.GetOperation().GetStatus()
}

func (g *guarded) permit(path string, action *Ydb_Scheme.PermissionsAction) {
	g.t.Helper()
	answer, err := Ydb_Scheme_V1.NewSchemeServiceClient(g.conn).ModifyPermissions(g.as("token-of-root"),
		&Ydb_Scheme.ModifyPermissionsRequest{Path: path, Actions: []*Ydb_Scheme.PermissionsAction{action}})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		g.t.Fatalf("got %v, %v", answer, err)
	}
}

func granting(subject string, names ...string) *Ydb_Scheme.PermissionsAction {
	return &Ydb_Scheme.PermissionsAction{Action: &Ydb_Scheme.PermissionsAction_Grant{
		Grant: &Ydb_Scheme.Permissions{Subject: subject, PermissionNames: names}}}
}

func revoking(subject string, names ...string) *Ydb_Scheme.PermissionsAction {
	return &Ydb_Scheme.PermissionsAction{Action: &Ydb_Scheme.PermissionsAction_Revoke{
		Revoke: &Ydb_Scheme.Permissions{Subject: subject, PermissionNames: names}}}
}

func (g *guarded) login(name, password string) (string, *Ydb_Auth.LoginResponse) {
	g.t.Helper()
	answer, err := Ydb_Auth_V1.NewAuthServiceClient(g.conn).Login(g.t.Context(),
		&Ydb_Auth.LoginRequest{User: name, Password: password})
	if err != nil {
		g.t.Fatal(err)
	}
	var result Ydb_Auth.LoginResult
	if answer.GetOperation().GetStatus() == Ydb.StatusIds_SUCCESS {
		if err := answer.GetOperation().GetResult().UnmarshalTo(&result); err != nil {
			g.t.Fatal(err)
		}
	}
	return result.GetToken(), answer
}

func (g *guarded) addUser(name, password string, administrator bool) {
	g.t.Helper()
	err := g.conn.Invoke(g.as("token-of-root"), "/"+adminpb.Users_ServiceDesc.ServiceName+"/Add",
		&adminpb.AddRequest{Name: name, Password: password, Administrator: administrator},
		new(adminpb.AddResponse))
	if err != nil {
		g.t.Fatal(err)
	}
}

// whoAmI returns the user of a token, or the gRPC error.
func (g *guarded) whoAmI(ctx context.Context) (*Ydb_Discovery.WhoAmIResult, error) {
	g.t.Helper()
	answer, err := Ydb_Discovery_V1.NewDiscoveryServiceClient(g.conn).WhoAmI(ctx,
		&Ydb_Discovery.WhoAmIRequest{IncludeGroups: true})
	if err != nil {
		return nil, err
	}
	var result Ydb_Discovery.WhoAmIResult
	if answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		return &result, nil
	}
	return &result, answer.GetOperation().GetResult().UnmarshalTo(&result)
}

// session opens a stream with a token and returns it behind its SessionStarted, or with its Failure.
func (g *guarded) session(token string) (sessionClient, *Ydb_Coordination.SessionResponse) {
	g.t.Helper()
	stream := openTest(g.t, g.as(token), g.conn, start(1000*60))
	return stream, receive(g.t, stream)
}

// answerPing answers a message if it is a ping. The stream may have ended meanwhile, which the next message
// tells.
func answerPing(stream sessionClient, m *Ydb_Coordination.SessionResponse) {
	if ping := m.GetPing(); ping != nil {
		_ = stream.Send(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Pong{
			Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: ping.GetOpaque()}}})
	}
}

// failureOf reads a stream, answering pings, until it fails, and checks that it ends with status OK.
func failureOf(t *testing.T, stream sessionClient) *Ydb_Coordination.SessionResponse_Failure {
	t.Helper()
	for {
		m := receive(t, stream)
		answerPing(stream, m)
		if failure := m.GetFailure(); failure != nil {
			if s := endOf(stream); s.Code() != codes.OK {
				t.Errorf("ended with %v", s)
			}
			return failure
		}
	}
}

func wantNoAccess(t *testing.T, failure *Ydb_Coordination.SessionResponse_Failure) {
	t.Helper()
	if failure.GetStatus() != Ydb.StatusIds_UNAUTHORIZED ||
		failure.GetIssues()[0].GetMessage() != "User has no access to the coordination node" {
		t.Errorf("got %v", failure)
	}
}

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

// TestBadTokenIsAnonymousWithoutRequirement: as the reference, which lets it through.
func TestBadTokenIsAnonymousWithoutRequirement(t *testing.T) {
	g := startGuarded(t, func(c *Config) { c.Auth = AuthOff })
	if who, err := g.whoAmI(g.as("token-of-nobody")); err != nil || who.GetUser() != "" {
		t.Errorf("got %v, %v", who, err)
	}
	if who, err := g.whoAmI(g.as("token-of-alice")); err != nil || who.GetUser() != "alice" {
		t.Errorf("got %v, %v", who, err)
	}
	if got := g.createNode("token-of-nobody", "/local/free"); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("got %v", got)
	}
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
	g := startGuarded(t, func(c *Config) { c.passwords = nil })
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

// TestRights covers a denied and a granted session, and reads.
func TestRights(t *testing.T) {
	g := startGuarded(t, nil)
	stream, first := g.session("token-of-alice")
	wantNoAccess(t, first.GetFailure())
	if s := endOf(stream); s.Code() != codes.OK {
		t.Errorf("ended with %v", s)
	}
	coordinationClient, schemeClient := Ydb_Coordination_V1.NewCoordinationServiceClient(g.conn),
		Ydb_Scheme_V1.NewSchemeServiceClient(g.conn)
	describe := func() []Ydb.StatusIds_StatusCode {
		node, err := coordinationClient.DescribeNode(g.as("token-of-alice"),
			&Ydb_Coordination.DescribeNodeRequest{Path: testNode})
		if err != nil {
			t.Fatal(err)
		}
		path, err := schemeClient.DescribePath(g.as("token-of-alice"),
			&Ydb_Scheme.DescribePathRequest{Path: testNode})
		if err != nil {
			t.Fatal(err)
		}
		list, err := schemeClient.ListDirectory(g.as("token-of-alice"),
			&Ydb_Scheme.ListDirectoryRequest{Path: "/local/dir"})
		if err != nil {
			t.Fatal(err)
		}
		return []Ydb.StatusIds_StatusCode{node.GetOperation().GetStatus(), path.GetOperation().GetStatus(),
			list.GetOperation().GetStatus()}
	}
	for _, got := range describe() {
		if got != Ydb.StatusIds_UNAUTHORIZED {
			t.Errorf("got %v", got)
		}
	}
	if got := g.createNode("token-of-alice", "/local/dir/hers"); got != Ydb.StatusIds_UNAUTHORIZED {
		t.Errorf("got %v", got)
	}
	g.permit("/local/dir", granting("alice", "ydb.generic.read", "ydb.granular.create_table"))
	for _, got := range describe() {
		if got != Ydb.StatusIds_SUCCESS {
			t.Errorf("got %v", got)
		}
	}
	if got := g.createNode("token-of-alice", "/local/dir/hers"); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("got %v", got)
	}
	stream, first = g.session("token-of-alice")
	if first.GetSessionStarted() == nil {
		t.Fatalf("got %v", first)
	}
	receive(t, stream) // the ping
	send(t, stream, acquire(7, "lock", nil))
	if got := receive(t, stream).GetAcquireSemaphoreResult(); got.GetStatus() != Ydb.StatusIds_UNAUTHORIZED ||
		got.GetIssues()[0].GetMessage() != "Write permission denied" {
		t.Errorf("got %v", got)
	}
}

// TestExistenceIsNoSecret is what somebody without any right learns of paths; YDB tells the same.
func TestExistenceIsNoSecret(t *testing.T) {
	g := startGuarded(t, nil)
	client := Ydb_Coordination_V1.NewCoordinationServiceClient(g.conn)
	for path, want := range map[string]Ydb.StatusIds_StatusCode{
		testNode: Ydb.StatusIds_UNAUTHORIZED, "/local/dir": Ydb.StatusIds_UNAUTHORIZED,
		"/local/dir/none": Ydb.StatusIds_SCHEME_ERROR,
	} {
		answer, err := client.DescribeNode(g.as("token-of-alice"),
			&Ydb_Coordination.DescribeNodeRequest{Path: path})
		if err != nil || answer.GetOperation().GetStatus() != want {
			t.Errorf("describe %s: got %v, %v, want %s", path, answer, err, want)
		}
	}
	answer, err := client.CreateNode(g.as("token-of-alice"),
		&Ydb_Coordination.CreateNodeRequest{Path: "/local/dir/a/b"})
	if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_UNAUTHORIZED ||
		!strings.Contains(answer.String(), "/local/dir") ||
		strings.Contains(answer.String(), "/local/dir/a") {
		t.Errorf("create: got %v, %v", answer, err)
	}
}

// TestRevocationEndsStreams takes away, one after another, everything that a stream may live on. Only the
// stream that lives on it ends.
func TestRevocationEndsStreams(t *testing.T) {
	g := startGuarded(t, nil)
	g.addUser("carol", "first", false)
	g.addUser("dave", "first", false)
	g.permit(testNode, granting(scheme.AllUsers, "ydb.generic.use"))
	g.permit(testNode, granting("bob", "ydb.generic.use"))
	open := func(token string) sessionClient {
		t.Helper()
		stream, first := g.session(token)
		if first.GetSessionStarted() == nil {
			t.Fatalf("got %v", first)
		}
		return stream
	}
	users := func(method string, request, response any) {
		t.Helper()
		if err := g.conn.Invoke(g.as("token-of-root"), "/"+adminpb.Users_ServiceDesc.ServiceName+"/"+method,
			request, response); err != nil {
			t.Fatal(err)
		}
	}
	token := func(name string) string {
		t.Helper()
		token, _ := g.login(name, "first")
		return token
	}
	untouched := open("token-of-bob")
	var sending sync.Mutex
	over := make(chan *Ydb_Coordination.SessionResponse, 1) // its Failure or SessionStopped
	go func() {
		for {
			m, err := untouched.Recv()
			if err != nil || m.GetFailure() != nil || m.GetSessionStopped() != nil {
				over <- m
				return
			}
			sending.Lock()
			answerPing(untouched, m)
			sending.Unlock()
		}
	}()

	alice := open("token-of-alice")
	writeFile(t, g.tokens, "token-of-bob bob\ntoken-of-root root\n")
	wantNoAccess(t, failureOf(t, alice))
	if _, err := g.whoAmI(g.as("token-of-alice")); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v", err)
	}

	carol := open(token("carol"))
	users("SetPassword", &adminpb.SetPasswordRequest{Name: "carol", Password: "second"},
		new(adminpb.SetPasswordResponse))
	wantNoAccess(t, failureOf(t, carol))

	dave := open(token("dave"))
	users("Remove", &adminpb.RemoveRequest{Name: "dave"}, new(adminpb.RemoveResponse))
	wantNoAccess(t, failureOf(t, dave))

	g.addUser("erin", "first", false)
	erin := open(token("erin"))
	users("RotateKey", &adminpb.RotateKeyRequest{}, new(adminpb.RotateKeyResponse))
	wantNoAccess(t, failureOf(t, erin))
	erin = open(token("erin"))
	g.permit(testNode, revoking(scheme.AllUsers, "ydb.generic.use"))
	wantNoAccess(t, failureOf(t, erin))

	sending.Lock()
	send(t, untouched,
		&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStop_{
			SessionStop: &Ydb_Coordination.SessionRequest_SessionStop{}}})
	sending.Unlock()
	if m := <-over; m.GetSessionStopped() == nil {
		t.Errorf("the stream that kept its right: got %v", m)
	}
}

// TestRotationEndsStreamsOfExpiredTokens: whoever has a key that leaked makes a token that expires at once,
// opens a stream and waits. A rotation ends that stream, and one that is opened afterwards stays.
func TestRotationEndsStreamsOfExpiredTokens(t *testing.T) {
	g := startGuarded(t, nil)
	g.login("root", rootPassword) // makes the key
	known := g.group.Accounts()
	forged, err := g.auth.SignLogin(known.Users()[0], known.SigningKeys()[0],
		time.Now().Add(-auth.DefaultLoginLifetime-auth.ClockSkew/2))
	if err != nil {
		t.Fatal(err)
	}
	stream, first := g.session(forged)
	if first.GetSessionStarted() == nil {
		t.Fatalf("got %v", first)
	}
	rotate := func() {
		t.Helper()
		if got := g.manage("token-of-root", "RotateKey", &adminpb.RotateKeyRequest{},
			new(adminpb.RotateKeyResponse)); got != codes.OK {
			t.Fatalf("rotate: %s", got)
		}
	}
	rotate()
	wantNoAccess(t, failureOf(t, stream))
	if _, err := g.whoAmI(g.as(forged)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("got %v", err)
	}
	token, _ := g.login("root", rootPassword)
	stream, first = g.session(token)
	if first.GetSessionStarted() == nil {
		t.Fatalf("got %v", first)
	}
	rotate()
	wantNoAccess(t, failureOf(t, stream))
}

// TestEndsAreSpread wants few streams ended at once, and many in parts over a second, each of them once.
func TestEndsAreSpread(t *testing.T) {
	for _, n := range []int{0, 1, endsAtOnce, endsAtOnce + 1, 12_345} {
		var paused time.Duration
		ended, part, largest := 0, 0, 0
		spread(n, func(pause time.Duration) bool { paused, part = paused+pause, 0; return true },
			func(i int) {
				if i != ended {
					t.Fatalf("%d of %d comes at %d", i, n, ended)
				}
				ended, part = ended+1, part+1
				largest = max(largest, part)
			})
		if ended != n {
			t.Errorf("%d of %d are ended", ended, n)
		}
		if many := n > endsAtOnce; many != (paused > 0) || paused >= spreadTime || many &&
			largest > n/spreadParts+1 {
			t.Errorf("%d: up to %d at a time over %s", n, largest, paused)
		}
	}
	ended := 0
	spread(1000, func(time.Duration) bool { return false }, func(int) { ended++ })
	if ended != 1000/spreadParts {
		t.Errorf("%d are ended although the server stops", ended)
	}
}

// TestSessionOfAnother attaches sessions of users who have logged in and of those who show tokens of the
// file, as others who may only read, and as those who are new under the name.
func TestSessionOfAnother(t *testing.T) {
	g := startGuarded(t, nil)
	for _, name := range []string{"alice", "bob", "carol"} {
		g.permit(testNode, granting(name, "ydb.generic.read"))
	}
	g.addUser("carol", "first", false)
	g.addUser("alice", "first", false)
	login := func(name string) string {
		t.Helper()
		token, _ := g.login(name, "first")
		return token
	}
	attach := func(token string, session uint64) (sessionClient, *Ydb_Coordination.SessionResponse) {
		t.Helper()
		request := start(1000 * 60)
		request.SessionId, request.SeqNo = session, session // higher than the first
		stream := openTest(t, g.as(token), g.conn, request)
		return stream, receive(t, stream)
	}
	begin := func(token string) uint64 {
		t.Helper()
		_, first := g.session(token)
		if first.GetSessionStarted() == nil {
			t.Fatalf("got %v", first)
		}
		return first.GetSessionStarted().GetSessionId()
	}
	refused := func(token string, session uint64) {
		t.Helper()
		stream, first := attach(token, session)
		wantNoAccess(t, first.GetFailure())
		endOf(stream)
	}
	accepted := func(token string, session uint64) {
		t.Helper()
		if _, first := attach(token, session); first.GetSessionStarted().GetSessionId() != session {
			t.Errorf("got %v", first)
		}
	}

	ofToken := begin("token-of-alice")
	refused("token-of-bob", ofToken)
	refused(login("alice"), ofToken)
	accepted("token-of-alice", ofToken)

	carol := login("carol")
	ofLogin := begin(carol)
	refused("token-of-bob", ofLogin)
	accepted(login("carol"), ofLogin) // another token of the same user
	err := g.conn.Invoke(g.as("token-of-root"), "/"+adminpb.Users_ServiceDesc.ServiceName+"/Remove",
		&adminpb.RemoveRequest{Name: "carol"}, new(adminpb.RemoveResponse))
	if err != nil {
		t.Fatal(err)
	}
	g.addUser("carol", "first", false)
	refused(login("carol"), ofLogin)
	accepted("token-of-root", ofLogin)
}
