package accounts

import (
	"fmt"
	"testing"

	"github.com/coordd/coordd/scheme/outcome"
)

var exempt = By{Exempt: true}

// at is the position of a command that is the only one of its entry.
func at(index uint64) Position { return Position{Index: index} }

// take checks a change's outcome and returns the accounts after it.
func take(t *testing.T, change Change, want outcome.Status) *Accounts {
	t.Helper()
	if change.Outcome.Status != want {
		t.Fatalf("got %s, want %s", change.Outcome, want)
	}
	return change.After
}

// A holder of accounts goes on seeing them as they were.
func TestAccountsNeverChange(t *testing.T) {
	before := take(t, new(Accounts).Add(By{}, at(1), User{Name: "root", PasswordHash: "h"}, false),
		outcome.Success)
	before = take(t, before.Rotate(exempt, at(2), SigningKey{Secret: []byte("s")}, Position{}, 0),
		outcome.Success)
	users, keys := len(before.Users()), len(before.SigningKeys())
	for name, change := range map[string]Change{
		"add":      before.Add(exempt, at(3), User{Name: "alice", PasswordHash: "h"}, false),
		"password": before.SetPassword(exempt, at(3), "root", "other"),
		"remove":   before.Remove(exempt, "root"),
		"rotate":   before.Rotate(exempt, at(3), SigningKey{Secret: []byte("t")}, at(2), 1),
	} {
		after := take(t, change, outcome.Success)
		if after == before || len(change.Users)+len(change.Keys) == 0 {
			t.Errorf("%s: nothing has changed", name)
		}
		if err := after.Check(at(3)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if root, _ := before.User("root"); root.PasswordHash != "h" || len(before.Users()) != users ||
			len(before.SigningKeys()) != keys {
			t.Errorf("%s: the accounts before it have changed: %v", name, before)
		}
	}
}

// A refusal leaves everything as it is, and names nothing that a checkpoint would have to store.
func TestRefusedChange(t *testing.T) {
	root := take(t, new(Accounts).Add(By{}, at(1), User{Name: "root", PasswordHash: "h"}, false),
		outcome.Success)
	for name, change := range map[string]Change{
		"add":      root.Add(By{Subject: "eve"}, at(2), User{Name: "eve", PasswordHash: "h"}, false),
		"password": root.SetPassword(By{Subject: "eve"}, at(2), "root", "mine"),
		"remove":   root.Remove(By{Subject: "eve"}, "root"),
		"rotate":   root.Rotate(By{}, at(2), SigningKey{Secret: []byte("s")}, Position{}, 0),
	} {
		if after := take(t, change, outcome.Unauthorized); after != root ||
			len(change.Users)+len(change.Keys) != 0 {
			t.Errorf("%s: changed %v, %v", name, change.Users, change.Keys)
		}
	}
}

func TestUserLimit(t *testing.T) {
	users := make([]User, MaxUsers-1)
	for i := range users {
		users[i] = User{ID: at(uint64(i + 1)), Name: fmt.Sprintf("user%05d", i), PasswordHash: "h",
			Administrator: i == 0, Version: at(uint64(i + 1))}
	}
	full := take(t, Restored(users, nil).Add(exempt, at(MaxUsers), User{Name: "last", PasswordHash: "h"},
		false), outcome.Success)
	if err := full.Check(at(MaxUsers)); err != nil || len(full.Users()) != MaxUsers {
		t.Fatalf("%d users: %v", len(full.Users()), err)
	}
	take(t, full.Add(exempt, at(MaxUsers+1), User{Name: "more", PasswordHash: "h"}, false),
		outcome.PreconditionFailed)
}
