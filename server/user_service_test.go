package server

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
)

// manage calls a method of the users' service with a token.
func (g *guarded) manage(token, method string, request, response proto.Message) codes.Code {
	g.t.Helper()
	return status.Code(g.conn.Invoke(g.as(token), "/"+adminpb.Users_ServiceDesc.ServiceName+"/"+method, request, response))
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
		{"", "Add", &adminpb.AddRequest{Name: "eve", Password: "x"}, new(adminpb.AddResponse), codes.PermissionDenied},
		{"", "SetPassword", &adminpb.SetPasswordRequest{Name: "root", Password: "x"}, new(adminpb.SetPasswordResponse), codes.PermissionDenied},
		{"", "Remove", &adminpb.RemoveRequest{Name: "root"}, new(adminpb.RemoveResponse), codes.PermissionDenied},
		{"", "List", &adminpb.ListRequest{}, new(adminpb.ListResponse), codes.PermissionDenied},
		{"", "RotateKey", &adminpb.RotateKeyRequest{}, new(adminpb.RotateKeyResponse), codes.PermissionDenied},
		{"token-of-nobody", "List", &adminpb.ListRequest{}, new(adminpb.ListResponse), codes.Unauthenticated},
		{"token-of-alice", "Add", &adminpb.AddRequest{Name: "eve", Password: "x"}, new(adminpb.AddResponse), codes.PermissionDenied},
		{"token-of-alice", "SetPassword", &adminpb.SetPasswordRequest{Name: "root", Password: "x"}, new(adminpb.SetPasswordResponse), codes.PermissionDenied},
		{"token-of-alice", "SetPassword", &adminpb.SetPasswordRequest{Name: "alice", Password: "own"}, new(adminpb.SetPasswordResponse), codes.OK},
		{"token-of-alice", "Remove", &adminpb.RemoveRequest{Name: "alice"}, new(adminpb.RemoveResponse), codes.PermissionDenied},
		{"token-of-alice", "RotateKey", &adminpb.RotateKeyRequest{}, new(adminpb.RotateKeyResponse), codes.PermissionDenied},
		{"token-of-root", "Add", &adminpb.AddRequest{Name: "alice", Password: "x"}, new(adminpb.AddResponse), codes.AlreadyExists},
		{"token-of-root", "Add", &adminpb.AddRequest{Name: "a b", Password: "x"}, new(adminpb.AddResponse), codes.InvalidArgument},
		{"token-of-root", "Add", &adminpb.AddRequest{Name: "bob"}, new(adminpb.AddResponse), codes.InvalidArgument},
		{"token-of-root", "SetPassword", &adminpb.SetPasswordRequest{Name: "eve", Password: "x"}, new(adminpb.SetPasswordResponse), codes.NotFound},
		{"token-of-root", "Remove", &adminpb.RemoveRequest{Name: "root"}, new(adminpb.RemoveResponse), codes.FailedPrecondition},
		{"token-of-root", "Add", &adminpb.AddRequest{Name: "bob", Password: "x", Administrator: true}, new(adminpb.AddResponse), codes.OK},
	} {
		if got := g.manage(test.token, test.method, test.request, test.response); got != test.want {
			t.Errorf("%s %v by %q: got %s, want %s", test.method, test.request, test.token, got, test.want)
		}
	}
	var list adminpb.ListResponse
	if got := g.manage("token-of-bob", "List", &adminpb.ListRequest{}, &list); got != codes.OK || len(list.GetUsers()) != 3 {
		t.Errorf("got %s, %v", got, &list)
	}
}

// TestRemoteCallers are from elsewhere: what loopback callers may do without a name, they may not.
func TestRemoteCallers(t *testing.T) {
	for _, mode := range []string{AuthOff, AuthRequired} {
		s := &Server{auth: &auth.Authenticator{Required: mode == AuthRequired}}
		if _, err := (userService{Server: s}).manager(context.Background()); !errors.Is(err, errNotAdministrator) {
			t.Errorf("auth %s: got %v", mode, err)
		}
		by, err := (userService{Server: s}).manager(auth.With(context.Background(), &auth.Identity{Name: "alice"}))
		if err != nil || !by.Enforced {
			t.Errorf("auth %s, with a name: got %+v, %v", mode, by, err)
		}
	}
}

// TestWithoutRequirementLoopbackManages: the data is everybody's then.
func TestWithoutRequirementLoopbackManages(t *testing.T) {
	g := startGuarded(t, func(c *Config) { c.Auth = AuthOff })
	if got := g.manage("", "Add", &adminpb.AddRequest{Name: "alice", Password: "x"}, new(adminpb.AddResponse)); got != codes.OK {
		t.Errorf("got %s", got)
	}
	if token, _ := g.login("alice", "x"); token == "" {
		t.Error("no login without requirement")
	}
}

// TestUsersSurviveRestart: users, keys and tokens are stored, and the initial administrator is not added twice.
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
