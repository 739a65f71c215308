package coordination_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

var userNames = []string{"root", "alice", "bob"}

func (h *history) userName() string { return userNames[h.random.IntN(len(userNames))] }

func (h *history) caller() coordination.Caller {
	return coordination.Caller{Subject: h.userName(), Enforced: h.random.IntN(2) == 0}
}

func (h *history) addUser(coordination.NodeID) coordination.Command {
	return &coordination.AddUser{CallID: h.call(), Caller: h.caller(), Name: h.userName(),
		PasswordHash: "hash", Administrator: h.random.IntN(2) == 0, OnlyFirst: h.random.IntN(4) == 0}
}

func (h *history) setPassword(coordination.NodeID) coordination.Command {
	return &coordination.SetPassword{CallID: h.call(), Caller: h.caller(), Name: h.userName(),
		PasswordHash: fmt.Sprint("hash ", h.random.IntN(9))}
}

func (h *history) removeUser(coordination.NodeID) coordination.Command {
	return &coordination.RemoveUser{CallID: h.call(), Caller: h.caller(), Name: h.userName()}
}

func (h *history) rotateSigningKey(coordination.NodeID) coordination.Command {
	millis := h.random.Uint64N(100)
	return &coordination.RotateSigningKey{CallID: h.call(), Secret: []byte{byte(millis), 1},
		StampMillis: millis, DropBeforeMillis: millis / 2, After: h.newestKey}
}

// users runs commands about users against a machine, one after another.
type users struct {
	t       *testing.T
	machine *coordination.Machine
}

func newUsers(t *testing.T) users { return users{t, newMachine(t)} }

// want applies a command and checks the status that it is answered with.
func (u users) want(status outcome.Status, c coordination.Command) {
	u.t.Helper()
	effects := u.machine.Apply(u.machine.Index()+1, 1, c)
	if len(effects) == 0 || effects[len(effects)-1].Outcome.Status != status {
		u.t.Errorf("%T: got %+v, want %s", c, effects, status)
	}
	if err := u.machine.Check(); err != nil {
		u.t.Error(err)
	}
}

func enforced(subject string) coordination.Caller {
	return coordination.Caller{Subject: subject, Enforced: true}
}

func TestFirstUserIsAdministrator(t *testing.T) {
	u := newUsers(t)
	u.want(outcome.Success, &coordination.AddUser{Caller: enforced(""), Name: "root", PasswordHash: "h"})
	u.want(outcome.Unauthorized, &coordination.AddUser{Caller: enforced(""), Name: "eve", PasswordHash: "h"})
	u.want(outcome.Unauthorized, &coordination.AddUser{Caller: enforced("eve"), Name: "eve",
		PasswordHash: "h"})
	u.want(outcome.Success, &coordination.AddUser{Caller: enforced("root"), Name: "alice", PasswordHash: "h"})
	u.want(outcome.AlreadyExists, &coordination.AddUser{Caller: enforced("root"), Name: "alice",
		PasswordHash: "h"})
	u.want(outcome.Success, &coordination.AddUser{Name: "bob", PasswordHash: "h", OnlyFirst: true})
	accounts := u.machine.Accounts()
	if len(accounts.Users()) != 2 || !accounts.IsAdministrator("root") || accounts.IsAdministrator("alice") {
		t.Errorf("got %v", accounts.Users())
	}
}

func TestUserNames(t *testing.T) {
	u := newUsers(t)
	for _, name := range []string{"", "a b", "a\n", "ä", "\x7f",
		strings.Repeat("a", accounts.MaxUserNameBytes+1)} {
		u.want(outcome.BadRequest, &coordination.AddUser{Name: name, PasswordHash: "h"})
	}
	u.want(outcome.BadRequest, &coordination.AddUser{Name: "a"})
	u.want(outcome.BadRequest, &coordination.AddUser{Name: "a",
		PasswordHash: strings.Repeat("h", accounts.MaxPasswordHashBytes+1)})
	u.want(outcome.Success, &coordination.AddUser{Name: strings.Repeat("a", accounts.MaxUserNameBytes),
		PasswordHash: "h"})
	u.want(outcome.Success, &coordination.AddUser{Name: "ops@cert",
		PasswordHash: strings.Repeat("h", accounts.MaxPasswordHashBytes)})
}

func TestPasswords(t *testing.T) {
	u := newUsers(t)
	u.want(outcome.Success, &coordination.AddUser{Name: "root", PasswordHash: "h"})
	u.want(outcome.Success, &coordination.AddUser{Name: "alice", PasswordHash: "h"})
	before, _ := u.machine.Accounts().User("alice")
	held := u.machine.Accounts()
	u.want(outcome.Unauthorized, &coordination.SetPassword{Caller: enforced("alice"), Name: "root",
		PasswordHash: "x"})
	u.want(outcome.Unauthorized, &coordination.SetPassword{Caller: enforced(""), Name: "", PasswordHash: "x"})
	u.want(outcome.NotFound, &coordination.SetPassword{Caller: enforced("root"), Name: "eve",
		PasswordHash: "x"})
	u.want(outcome.BadRequest, &coordination.SetPassword{Caller: enforced("root"), Name: "alice"})
	u.want(outcome.Success, &coordination.SetPassword{Caller: enforced("alice"), Name: "alice",
		PasswordHash: "own"})
	after, _ := u.machine.Accounts().User("alice")
	if after.PasswordHash != "own" || after.Version.Compare(before.Version) <= 0 || after.ID != before.ID {
		t.Errorf("before %v, after %v", before, after)
	}
	if kept, _ := held.User("alice"); kept != before {
		t.Errorf("an older version of the accounts has changed: %v", kept)
	}
}

func TestRemoveUser(t *testing.T) {
	u := newUsers(t)
	u.want(outcome.Success, &coordination.AddUser{Name: "root", PasswordHash: "h"})
	u.want(outcome.Success, &coordination.AddUser{Name: "alice", PasswordHash: "h"})
	u.want(outcome.Unauthorized, &coordination.RemoveUser{Caller: enforced("alice"), Name: "alice"})
	u.want(outcome.NotFound, &coordination.RemoveUser{Caller: enforced("root"), Name: "eve"})
	u.want(outcome.PreconditionFailed, &coordination.RemoveUser{Caller: enforced("root"), Name: "root"})
	u.want(outcome.Success, &coordination.RemoveUser{Caller: enforced("root"), Name: "alice"})
	u.want(outcome.Success, &coordination.RemoveUser{Caller: enforced("root"), Name: "root"})
	if users := u.machine.Accounts().Users(); len(users) != 0 {
		t.Errorf("got %v", users)
	}
}

func TestSigningKeys(t *testing.T) {
	u := newUsers(t)
	rotate := func(stamp, dropBefore uint64, after accounts.Position) *coordination.RotateSigningKey {
		return &coordination.RotateSigningKey{Secret: []byte("secret"), StampMillis: stamp,
			DropBeforeMillis: dropBefore, After: after}
	}
	newest := func() accounts.Position {
		keys := u.machine.Accounts().SigningKeys()
		return keys[len(keys)-1].ID
	}
	u.want(outcome.BadRequest, &coordination.RotateSigningKey{})
	u.want(outcome.BadRequest, &coordination.RotateSigningKey{Secret: make([]byte,
		accounts.MaxSigningKeyBytes+1)})
	u.want(outcome.Success, rotate(10, 0, accounts.Position{}))
	// two servers at once: the second is void
	u.want(outcome.PreconditionFailed, rotate(10, 0, accounts.Position{}))
	u.want(outcome.Unauthorized, &coordination.RotateSigningKey{Caller: enforced(""), Secret: []byte("s"),
		After: newest()})
	u.want(outcome.Success, rotate(20, 5, newest()))
	if keys := u.machine.Accounts().SigningKeys(); len(keys) != 2 {
		t.Errorf("the key before the new one must go on verifying: %d keys", len(keys))
	}
	u.want(outcome.Success, rotate(30, 15, newest()))
	if keys := u.machine.Accounts().SigningKeys(); len(keys) != 2 || keys[0].CreatedMillis != 20 {
		t.Errorf("got %v", keys)
	}
	for len(u.machine.Accounts().SigningKeys()) < accounts.MaxSigningKeys {
		u.want(outcome.Success, rotate(40, 0, newest()))
	}
	u.want(outcome.PreconditionFailed, rotate(40, 0, newest()))
	u.want(outcome.Success, rotate(50, 50, newest()))
}

// Every command about the path tree is refused before anything happens, unless the rights are there.
func TestTreeCommandsAreAuthorized(t *testing.T) {
	u := newUsers(t)
	path := scheme.SplitLoose
	u.want(outcome.Success, &coordination.AddUser{Name: "root", PasswordHash: "h"})
	u.want(outcome.Success, &coordination.CreateNode{Path: path("/local/dir/node"), Owner: "maker"})
	u.want(outcome.Success, &coordination.MakeDirectory{Path: path("/local/empty"), Owner: "maker"})
	commands := func(c coordination.Caller) []coordination.Command {
		return []coordination.Command{
			&coordination.CreateNode{Caller: c, Path: path("/local/dir/more"), SetsPath: true},
			&coordination.CreateNode{Caller: c, Path: path("/local/dir/more")},
			&coordination.AlterNode{Caller: c, Path: path("/local/dir/node")},
			&coordination.MakeDirectory{Caller: c, Path: path("/local/dir/sub")},
			&coordination.ModifyPermissions{Caller: c, Path: path("/local/dir/node")},
			&coordination.RemoveDirectory{Caller: c, Path: path("/local/empty")},
			&coordination.DropNode{Caller: c, Path: path("/local/dir/node")},
		}
	}
	before := u.machine.Digest()
	for _, subject := range []string{"", "eve"} {
		for _, c := range commands(enforced(subject)) {
			u.want(outcome.Unauthorized, c)
		}
	}
	if u.machine.Digest() != before {
		t.Error("a refused command changed something")
	}
	u.want(outcome.SchemeError, &coordination.AlterNode{Caller: enforced("eve"),
		Path: path("/local/missing")})
	for i, c := range commands(enforced("root")) {
		want := outcome.Success
		if i == 0 {
			want = outcome.BadRequest // it comes behind the access check
		}
		u.want(want, c)
	}
}

func TestCreatorOwns(t *testing.T) {
	u := newUsers(t)
	u.want(outcome.Success, &coordination.ModifyPermissions{Path: scheme.SplitLoose("/local"),
		Change: scheme.PermissionsChange{
			Actions: []scheme.Action{{Kind: scheme.Grant, Subject: "alice",
				Names: []string{"ydb.granular.create_table"}}}}})
	u.want(outcome.Success, &coordination.CreateNode{Caller: enforced("alice"),
		Path: scheme.SplitLoose("/local/n"), Owner: "alice"})
	u.want(outcome.Success, &coordination.AlterNode{Caller: enforced("alice"),
		Path: scheme.SplitLoose("/local/n")})
	u.want(outcome.Unauthorized, &coordination.AlterNode{Caller: enforced("bob"),
		Path: scheme.SplitLoose("/local/n")})
}

func TestAccessVersion(t *testing.T) {
	u := newUsers(t)
	version := u.machine.AccessVersion()
	changes := func(c coordination.Command, want bool) {
		t.Helper()
		u.want(outcome.Success, c)
		if got := u.machine.AccessVersion() != version; got != want {
			t.Errorf("%T: changed is %v, want %v", c, got, want)
		}
		version = u.machine.AccessVersion()
	}
	changes(&coordination.CreateNode{Path: scheme.SplitLoose("/local/n")}, false)
	changes(&coordination.AddUser{Name: "root", PasswordHash: "h"}, true)
	changes(&coordination.ModifyPermissions{Path: scheme.SplitLoose("/local/n")}, false) // nothing to change
	changes(&coordination.ModifyPermissions{Path: scheme.SplitLoose("/local/n"),
		Change: scheme.PermissionsChange{Actions: []scheme.Action{{Kind: scheme.ChangeOwner,
			Subject: "root"}}}}, true)
	changes(&coordination.RemoveUser{Name: "root"}, true)
}
