package compat_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
	"github.com/ydb-platform/ydb-go-sdk/v3/credentials"
	"github.com/ydb-platform/ydb-go-sdk/v3/scheme"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coordd/coordd/compat/go/internal/testserver"
)

// secured is a server that requires authentication, with the user root (password 1234, as in the SDK's own
// tests) and the access tokens alice-token and bob-token.
type secured struct {
	*testserver.Server
	directory string
}

func startSecured(t *testing.T, args ...string) *secured {
	t.Helper()
	s := &secured{directory: t.TempDir()}
	s.Server = startServer(t, append([]string{"--in-memory", "--auth=required",
		"--token-file", s.file(t, "tokens", "alice-token alice\nbob-token bob\n"),
		"--initial-admin=root", "--initial-admin-password-file", s.file(t, "password", "1234\n")},
		args...)...)
	return s
}

func (s *secured) file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(s.directory, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// user runs `coordd user` as root.
func (s *secured) user(t *testing.T, stdin string, args ...string) {
	t.Helper()
	args = append(append([]string{"user"}, args...), "--endpoint", s.Endpoint(), "--user=root", "--password-file",
		filepath.Join(s.directory, "password"))
	command := exec.Command(s.Config.Program, args...)
	command.Stdin = strings.NewReader(stdin)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("coordd %v: %v\n%s", args, err, output)
	}
}

func asRoot() ydb.Option { return ydb.WithStaticCredentials("root", "1234") }

func asAlice() ydb.Option { return ydb.WithAccessTokenCredentials("alice-token") }

// grant gives a permission on a path.
func (c *client) grant(path, subject string, names ...string) {
	c.t.Helper()
	err := c.Scheme().ModifyPermissions(testContext(c.t), path,
		scheme.WithGrantPermissions(scheme.Permissions{Subject: subject, PermissionNames: names}))
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) revoke(path, subject string, names ...string) {
	c.t.Helper()
	err := c.Scheme().ModifyPermissions(testContext(c.t), path,
		scheme.WithRevokePermissions(scheme.Permissions{Subject: subject, PermissionNames: names}))
	if err != nil {
		c.t.Fatal(err)
	}
}

// wantUser asks the server who the driver is.
func (c *client) wantUser(want string) {
	c.t.Helper()
	who, err := c.Discovery().WhoAmI(testContext(c.t))
	if err != nil || who.User != want {
		c.t.Errorf("who am I: %v, %v; want %s", who, err, want)
	}
}

// The SDK logs in with name and password, given as an option, in the connection string, or by hand.
func TestPasswordLogin(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	open(t, s.Endpoint(), asRoot()).wantUser("root")
	open(t, strings.Replace(s.Endpoint(), "grpc://", "grpc://root:1234@", 1)).wantUser("root")
	plain := credentials.WithGrpcDialOptions(grpc.WithTransportCredentials(insecure.NewCredentials()))
	token, err := credentials.NewStaticCredentials("root", "1234", s.Address, plain).Token(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	open(t, s.Endpoint(), ydb.WithAccessTokenCredentials(token)).wantUser("root")

	if _, err := credentials.NewStaticCredentials("root", "12345", s.Address,
		plain).Token(testContext(t)); !ydb.IsOperationError(err, Ydb.StatusIds_UNAUTHORIZED) {
		t.Errorf("wrong password: %v, want UNAUTHORIZED", err)
	}
}

// Who has no valid token does not get as far as discovery.
func TestAnonymousIsRefused(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	for what, option := range map[string]ydb.Option{
		"anonymous":    ydb.WithAnonymousCredentials(),
		"empty token":  ydb.WithAccessTokenCredentials(""),
		"wrong token":  ydb.WithAccessTokenCredentials("eve-token"),
		"looks signed": ydb.WithAccessTokenCredentials("eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb290In0."),
	} {
		db, err := ydb.Open(testContext(t), s.Endpoint(), option)
		if err == nil {
			_ = db.Close(testContext(t))
		}
		if !ydb.IsTransportError(err, codes.Unauthenticated) {
			t.Errorf("%s: %v, want UNAUTHENTICATED", what, err)
		}
	}
}

// A user sees and does nothing without a permission, and exactly what a permission allows with it.
func TestPermissions(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	root, alice := open(t, s.Endpoint(), asRoot()), open(t, s.Endpoint(), asAlice())
	alice.wantUser("alice")
	root.createNode()
	unauthorized := func(what string, err error) {
		t.Helper()
		if !ydb.IsOperationError(err, Ydb.StatusIds_UNAUTHORIZED) {
			t.Errorf("%s: %v, want UNAUTHORIZED", what, err)
		}
	}
	ctx := testContext(t)
	_, _, err := alice.Coordination().DescribeNode(ctx, testNode)
	unauthorized("describe node", err)
	_, err = alice.Scheme().ListDirectory(ctx, "/local")
	unauthorized("list", err)
	unauthorized("create node", alice.Coordination().CreateNode(ctx, "/local/alice/node",
		coordination.NodeConfig{}))
	unauthorized("alter node", alice.Coordination().AlterNode(ctx, testNode, coordination.NodeConfig{}))
	unauthorized("drop node", alice.Coordination().DropNode(ctx, testNode))
	unauthorized("make directory", alice.Scheme().MakeDirectory(ctx, "/local/alice"))
	unauthorized("permit herself", alice.Scheme().ModifyPermissions(ctx, testNode,
		scheme.WithGrantPermissions(scheme.Permissions{Subject: "alice",
			PermissionNames: []string{"ydb.generic.full"}})))

	root.grant("/local", "alice", "ydb.generic.use")
	if _, _, err := alice.Coordination().DescribeNode(ctx, testNode); err != nil {
		t.Error(err)
	}
	lease, err := alice.session().AcquireSemaphore(ctx, "lock", coordination.Exclusive,
		options.WithEphemeral(true))
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
	// What she makes is hers.
	if err := alice.Coordination().CreateNode(ctx, "/local/alice/node",
		coordination.NodeConfig{}); err != nil {
		t.Fatal(err)
	}
	entry, err := root.Scheme().DescribePath(ctx, "/local/alice/node")
	if err != nil || entry.Owner != "alice" {
		t.Errorf("got %+v, %v", entry, err)
	}
}

// The SDK retries for ever where a start is refused, so the test looks at the stream's end.
func TestPermissionTakenAway(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	root, alice := open(t, s.Endpoint(), asRoot()), open(t, s.Endpoint(), asAlice())
	root.createNode()
	root.grant(testNode, "alice", "ydb.generic.use")
	session := alice.session()
	root.revoke(testNode, "alice", "ydb.generic.use")
	const text = "User has no access to the coordination node"
	eventually(t, "the stream of a user without permission ends", func() bool {
		return alice.seen.failure(Ydb.StatusIds_UNAUTHORIZED, text)
	})
	root.grant(testNode, "alice", "ydb.generic.use")
	if _, err := session.AcquireSemaphore(testContext(t), "lock", coordination.Exclusive,
		options.WithEphemeral(true)); err != nil {
		t.Errorf("with the permission back: %v", err)
	}
}

// Users come and go while the server runs.
func TestUserCommands(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	s.user(t, "carols-password\n", "add", "carol")
	carol := open(t, s.Endpoint(), ydb.WithStaticCredentials("carol", "carols-password"))
	carol.wantUser("carol")
	root := open(t, s.Endpoint(), asRoot())
	root.createNode()
	root.grant(testNode, "carol", "ydb.generic.use")
	carol.session()
	s.user(t, "", "remove", "carol")
	eventually(t, "the stream of a user who was removed ends", func() bool {
		return carol.seen.failure(Ydb.StatusIds_UNAUTHORIZED, "User has no access to the coordination node")
	})
	if _, err := carol.Discovery().WhoAmI(testContext(t)); !ydb.IsTransportError(err, codes.Unauthenticated) {
		t.Errorf("the token of a user who was removed: %v", err)
	}
}

// The server speaks TLS with a certificate of its own making; discovery gives TLS endpoints to who came by
// TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	certificates := t.TempDir()
	testserver.Run(t, "cert", "--dir", certificates)
	testserver.Run(t, "cert", "--dir", certificates, "--client", "ops")
	in := func(name string) string { return filepath.Join(certificates, name) }
	s := startSecured(t, "--listen-tls=127.0.0.1:0", "--tls-cert", in("cert.pem"), "--tls-key", in("key.pem"),
		"--tls-client-ca", in("ca.pem"))
	address := s.TLSAddress()
	trusting := ydb.WithCertificatesFromFile(in("ca.pem"))
	root := open(t, "grpcs://"+address+"/local", trusting, asRoot())
	root.wantUser("root")
	endpoints, err := root.Discovery().Discover(testContext(t))
	if err != nil || len(endpoints) != 1 || endpoints[0].Address() != address {
		t.Errorf("endpoints %v, %v, want %s", endpoints, err, address)
	}
	root.createNode()
	lease, err := root.session().AcquireSemaphore(testContext(t), "lock", coordination.Exclusive,
		options.WithEphemeral(true))
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
	open(t, s.Endpoint(), asRoot()).wantUser("root")
}
