package server

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/listen"
)

// manage calls a method of the users' service with a token.
func (g *guarded) manage(token, method string, request, response proto.Message) codes.Code {
	g.t.Helper()
	return status.Code(g.conn.Invoke(g.as(token), "/"+adminpb.Users_ServiceDesc.ServiceName+"/"+method,
		request, response))
}

// TestWhoMayManageUsers is the whole table, for callers of the same machine.
func TestWhoMayManageUsers(t *testing.T) {
	g := startGuarded(t, nil)
	g.addUser("alice", "x", false)
	for _, test := range []struct {
		token, method     string
		request, response proto.Message
		want              codes.Code
	}{
		{"", "Add", &adminpb.AddRequest{Name: "eve", Password: "x"}, new(adminpb.AddResponse),
			codes.PermissionDenied},
		{"", "SetPassword", &adminpb.SetPasswordRequest{Name: "root", Password: "x"},
			new(adminpb.SetPasswordResponse), codes.PermissionDenied},
		{"", "Remove", &adminpb.RemoveRequest{Name: "root"}, new(adminpb.RemoveResponse),
			codes.PermissionDenied}, {"", "List", &adminpb.ListRequest{}, new(adminpb.ListResponse),
			codes.PermissionDenied},
		{"", "RotateKey", &adminpb.RotateKeyRequest{}, new(adminpb.RotateKeyResponse),
			codes.PermissionDenied}, {"token-of-nobody", "List", &adminpb.ListRequest{},
			new(adminpb.ListResponse), codes.Unauthenticated},
		{"token-of-alice", "Add", &adminpb.AddRequest{Name: "eve", Password: "x"}, new(adminpb.AddResponse),
			codes.PermissionDenied}, {"token-of-alice", "SetPassword",
			&adminpb.SetPasswordRequest{Name: "root", Password: "x"}, new(adminpb.SetPasswordResponse),
			codes.PermissionDenied},
		{"token-of-alice", "SetPassword", &adminpb.SetPasswordRequest{Name: "alice", Password: "own",
			OwnPassword: "x"}, new(adminpb.SetPasswordResponse), codes.OK},
		{"token-of-alice", "Remove", &adminpb.RemoveRequest{Name: "alice"}, new(adminpb.RemoveResponse),
			codes.PermissionDenied}, {"token-of-alice", "RotateKey", &adminpb.RotateKeyRequest{},
			new(adminpb.RotateKeyResponse), codes.PermissionDenied}, {"token-of-root", "Add",
			&adminpb.AddRequest{Name: "alice", Password: "x"}, new(adminpb.AddResponse), codes.AlreadyExists},
		{"token-of-root", "Add", &adminpb.AddRequest{Name: "a b", Password: "x"}, new(adminpb.AddResponse),
			codes.InvalidArgument}, {"token-of-root", "Add", &adminpb.AddRequest{Name: "bob"},
			new(adminpb.AddResponse), codes.InvalidArgument},
		{"token-of-root", "SetPassword", &adminpb.SetPasswordRequest{Name: "eve", Password: "x"},
			new(adminpb.SetPasswordResponse), codes.NotFound},
		{"token-of-root", "Remove", &adminpb.RemoveRequest{Name: "root"}, new(adminpb.RemoveResponse),
			codes.FailedPrecondition}, {"token-of-root", "Add",
			&adminpb.AddRequest{Name: "bob", Password: "x", Administrator: true}, new(adminpb.AddResponse),
			codes.OK},
	} {
		if got := g.manage(test.token, test.method, test.request, test.response); got != test.want {
			t.Errorf("%s %v by %q: got %s, want %s", test.method, test.request, test.token, got, test.want)
		}
	}
	var list adminpb.ListResponse
	if got := g.manage("token-of-bob", "List", &adminpb.ListRequest{}, &list); got != codes.OK ||
		len(list.GetUsers()) != 3 {
		t.Errorf("got %s, %v", got, &list)
	}
}

// TestWithoutRequirementLoopbackManages: by the older rule the data is everybody's then.
func TestWithoutRequirementLoopbackManages(t *testing.T) {
	g := startGuarded(t, func(c *Config) { c.Auth, c.LoopbackAdmin = AuthOff, true })
	if got := g.manage("", "Add", &adminpb.AddRequest{Name: "alice", Password: "x"},
		new(adminpb.AddResponse)); got != codes.OK {
		t.Errorf("got %s", got)
	}
	if token, _ := g.login("alice", "x"); token == "" {
		t.Error("no login without requirement")
	}
}

// socket is a connection to the administrator's socket of a server.
func socket(t *testing.T, s *Server) *grpc.ClientConn {
	t.Helper()
	path := filepath.Join(s.config.DataDir, listen.SocketName)
	conn, err := grpc.NewClient("passthrough:///socket",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn,
			error) {
			return listen.DialSocket(ctx, path)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestAdministratorsSocket: its caller may do everything, in any mode; with a token the caller is the token's user. By
// TCP, a client is no administrator for being on the machine.
func TestAdministratorsSocket(t *testing.T) {
	for _, mode := range []string{AuthOff, AuthRequired} {
		t.Run(mode, func(t *testing.T) {
			// longer than a socket's path may be
			deep := filepath.Join(t.TempDir(), strings.Repeat("a long name/", 20), "data")
			g := startGuarded(t, func(c *Config) { c.Auth, c.InMemory, c.DataDir = mode, false, deep })
			tcp := g.conn
			add := &adminpb.AddRequest{Name: "eve", Password: "x"}
			if got := g.manage("", "Add", add, new(adminpb.AddResponse)); got != codes.PermissionDenied {
				t.Errorf("a user, by TCP: %s", got)
			}
			g.conn = socket(t, g.Server)
			if got := g.manage("", "Add", add, new(adminpb.AddResponse)); got != codes.OK {
				t.Errorf("a user: %s", got)
			}
			if got := g.manage("", "Add", &adminpb.AddRequest{Name: "ann", Password: "x"},
				new(adminpb.AddResponse)); got != codes.OK {
				t.Errorf("another user: %s", got)
			}
			if got := g.manage("token-of-alice", "Remove", &adminpb.RemoveRequest{Name: "ann"},
				new(adminpb.RemoveResponse)); got != codes.PermissionDenied {
				t.Errorf("as somebody else: %s", got)
			}
			status := "/" + adminpb.Cluster_ServiceDesc.ServiceName + "/Status"
			if err := g.conn.Invoke(t.Context(), status, &adminpb.ClusterStatusRequest{},
				new(adminpb.ClusterStatus)); err != nil {
				t.Errorf("status: %v", err)
			}
			if err := tcp.Invoke(t.Context(), status, &adminpb.ClusterStatusRequest{},
				new(adminpb.ClusterStatus)); err == nil {
				t.Error("status by TCP is answered")
			}
			if got := g.createNode("", "/local/by-socket"); got != Ydb.StatusIds_SUCCESS {
				t.Errorf("create a node: %s", got)
			}
			if _, first := g.session(""); first.GetSessionStarted() == nil {
				t.Errorf("a session: %v", first)
			}
		})
	}
}

// TestOwnPassword: a token is not enough to change the password of its user, and guessing is no use.
func TestOwnPassword(t *testing.T) {
	g := startGuarded(t, nil)
	g.addUser("ann", "first", false)
	set := func(token, name, own string) codes.Code {
		t.Helper()
		return g.manage(token, "SetPassword",
			&adminpb.SetPasswordRequest{Name: name, Password: "second", OwnPassword: own},
			new(adminpb.SetPasswordResponse))
	}
	ann, _ := g.login("ann", "first")
	root, _ := g.login("root", rootPassword)
	for _, own := range []string{"", "second", rootPassword} {
		if got := set(ann, "ann", own); got != codes.PermissionDenied {
			t.Errorf("with %q: %s", own, got)
		}
	}
	if got := set(root, "root", ""); got != codes.PermissionDenied {
		t.Errorf("an administrator: %s", got)
	}
	if token, _ := g.login("ann", "first"); token == "" {
		t.Error("the password has changed")
	}
	if got := set(ann, "ann", "first"); got != codes.OK {
		t.Errorf("with the present one: %s", got)
	}
	if token, _ := g.login("ann", "second"); token == "" {
		t.Error("the password has not changed")
	}
	if got := set(root, "ann", ""); got != codes.OK {
		t.Errorf("an administrator, another's: %s", got)
	}
}

// TestUsersSurviveRestart: users, keys and tokens are stored, and the initial administrator is not added
// twice.
func TestUsersSurviveRestart(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "data")
	onDisk := func(c *Config) { c.InMemory, c.DataDir = false, directory }
	g := startGuarded(t, onDisk)
	g.addUser("alice", "x", false)
	token, _ := g.login("alice", "x")
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	g = startGuarded(t, func(c *Config) { onDisk(c); c.InitialAdmin = "another" })
	if who, err := g.whoAmI(g.as(token)); err != nil || who.GetUser() != "alice" {
		t.Errorf("got %v, %v", who, err)
	}
	if users := g.group.Accounts().Users(); len(users) != 2 {
		t.Errorf("got %d users", len(users))
	}
}

// TestNewUserNames: a name with an @ would be a subject of another kind, and have its rights.
func TestNewUserNames(t *testing.T) {
	g := startGuarded(t, nil)
	for _, name := range []string{"reporter@cert", "all-users@well-known", "root@builtin", "", "a b",
		strings.Repeat("n", 257)} {
		if got := g.manage("token-of-root", "Add", &adminpb.AddRequest{Name: name, Password: "x"},
			new(adminpb.AddResponse)); got != codes.InvalidArgument {
			t.Errorf("%q: got %v", name, got)
		}
	}
	config := Config{InitialAdmin: "root@builtin", InitialAdminPassword: "x"}
	if err := config.validateAuth(); err == nil || !strings.Contains(err.Error(), "without spaces and @") {
		t.Errorf("initial administrator: got %v", err)
	}
}
