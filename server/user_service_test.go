package server

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/server/adminpb"
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
	for _, auth := range []string{AuthOff, AuthRequired} {
		s := &Server{auth: &authenticator{required: auth == AuthRequired}}
		if _, err := (userService{Server: s}).manager(context.Background()); !errors.Is(err, errNotAdministrator) {
			t.Errorf("auth %s: got %v", auth, err)
		}
		by, err := (userService{Server: s}).manager(withIdentity(context.Background(), &identity{name: "alice"}))
		if err != nil || !by.Enforced {
			t.Errorf("auth %s, with a name: got %+v, %v", auth, by, err)
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

func TestPasswordHashes(t *testing.T) {
	h := newPasswordHasher()
	stored, err := h.hash(t.Context(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := h.hash(t.Context(), "secret"); again == stored || !strings.HasPrefix(stored, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("got %q and %q", stored, again)
	}
	for password, want := range map[string]bool{"secret": true, "Secret": false, "": false, "secret ": false} {
		if got, err := h.verify(t.Context(), password, stored); got != want || err != nil {
			t.Errorf("%q: got %v, %v", password, got, err)
		}
	}
	if got, err := h.verify(t.Context(), "", ""); got || err != nil {
		t.Errorf("a user who is not there: got %v, %v", got, err)
	}
	for _, broken := range []string{"x", "$argon2i$v=19$m=1,t=1,p=1$AA$AA", "$argon2id$v=18$m=1,t=1,p=1$AA$AA", "$argon2id$v=19$m=1,t=0,p=1$AA$AA",
		"$argon2id$v=19$m=1,t=1,p=1$!$AA", "$argon2id$v=19$m=1,t=1,p=1$AA$"} {
		if got, err := h.verify(t.Context(), "secret", broken); got || !errors.Is(err, errStoredHash) {
			t.Errorf("%q: got %v, %v", broken, got, err)
		}
	}
	if _, err := h.hash(t.Context(), strings.Repeat("x", maxPasswordBytes)); err != nil {
		t.Errorf("the longest password: %v", err)
	}
	for _, password := range []string{"", strings.Repeat("x", maxPasswordBytes+1)} {
		if _, err := h.hash(t.Context(), password); !errors.Is(err, errPasswordLength) {
			t.Errorf("%d bytes: got %v", len(password), err)
		}
	}
}

// TestHashingIsBounded: with all turns taken, hashes wait up to a number, and only as long as their callers do.
func TestHashingIsBounded(t *testing.T) {
	h := newPasswordHasher()
	for range maxHashesAtOnce {
		if _, err := h.turn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, maxHashesWaiting)
	for range maxHashesWaiting {
		go func() {
			_, err := h.hash(ctx, "x")
			ended <- err
		}()
	}
	for h.waiting.Load() < maxHashesWaiting {
		if err := ctx.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.hash(t.Context(), "x"); !errors.Is(err, errHashingOverloaded) {
		t.Errorf("one more: got %v", err)
	}
	cancel()
	for range maxHashesWaiting {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

// TestTokenFile covers the form of the file and its changes.
func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if _, err := openTokenFile(path); err == nil {
		t.Error("a file that is not there is opened")
	}
	for _, content := range []string{"token\n", "token user more\n", "a x\na y\n", strings.Repeat("x", maxTicketBytes+1) + " user\n"} {
		writeFile(t, path, content)
		if _, err := openTokenFile(path); err == nil || strings.Contains(err.Error(), "token user") || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%.20q: got %v", content, err)
		}
	}
	writeFile(t, path, "\n # a remark\n\ta\tx \nb y")
	f, err := openTokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.resolve("a").name != "x" || f.resolve("b").name != "y" || f.resolve("x") != nil || f.resolve("") != nil || f.resolve("#") != nil {
		t.Error("not what is in the file")
	}
	a := f.resolve("a")
	if changed, err := f.reload(); changed || err != nil {
		t.Errorf("nothing has changed: got %v, %v", changed, err)
	}
	writeFile(t, path, "broken\n")
	if changed, err := f.reload(); changed || err == nil || !f.has(a) {
		t.Errorf("a broken file: got %v, %v, the token is there: %v", changed, err, f.has(a))
	}
	writeFile(t, path, "a somebody-else\n")
	if changed, err := f.reload(); !changed || err != nil || f.has(a) {
		t.Errorf("of another user: got %v, %v, has %v", changed, err, f.has(a))
	}
	removeFile(t, path)
	if changed, err := f.reload(); !changed || err != nil || f.resolve("a") != nil {
		t.Errorf("a file that is gone: got %v, %v", changed, err)
	}
}

// TestLoginProofOutlivesItsKey: what ended by itself does not end streams, what was thrown away does.
func TestLoginProofOutlivesItsKey(t *testing.T) {
	g := startGuarded(t, nil)
	token, _ := g.login("root", rootPassword)
	known := g.group.Accounts()
	id := g.auth.resolve(token, known)
	without := new(accounts.Accounts)
	expires := id.login.expires
	if !id.login.stillValid("root", known, expires.Add(-1)) || !id.login.stillValid("root", known, expires.Add(1)) {
		t.Error("a good token, and one that has expired, both keep their streams")
	}
	if id.login.stillValid("root", without, expires.Add(1)) {
		t.Error("a user who is gone keeps a stream")
	}
}
