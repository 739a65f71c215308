package auth

import (
	"testing"
	"time"

	"github.com/coordd/coordd/coordination/accounts"
)

// TestLoginProofOutlivesItsKey: what ended by itself does not end streams, what was thrown away does.
func TestLoginProofOutlivesItsKey(t *testing.T) {
	a, err := New(true, "/local", "")
	if err != nil {
		t.Fatal(err)
	}
	user, key := accounts.User{Name: "root", Version: accounts.Position{Index: 7}}, accounts.SigningKey{ID: accounts.Position{Index: 3}, Secret: make([]byte, signingKeyBytes)}
	token, err := a.SignLogin(user, key, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	known := accounts.Restored([]accounts.User{user}, []accounts.SigningKey{key})
	id := a.resolve(token, known)
	if id == nil || id.Name != "root" {
		t.Fatalf("got %+v", id)
	}
	expires := id.login.expires
	if !id.login.stillValid("root", known, expires.Add(-1)) || !id.login.stillValid("root", known, expires.Add(1)) {
		t.Error("a good token, and one that has expired, both keep their streams")
	}
	if id.login.stillValid("root", accounts.Restored([]accounts.User{user}, nil), expires.Add(-1)) {
		t.Error("a key that was thrown away keeps a stream")
	}
	if id.login.stillValid("root", new(accounts.Accounts), expires.Add(1)) {
		t.Error("a user who is gone keeps a stream")
	}
}
