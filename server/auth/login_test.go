package auth

import (
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/coordd/coordd/coordination/accounts"
)

// signed is a user's token of the first of some keys, and what is known then.
type signed struct {
	*Authenticator
	t    *testing.T
	user accounts.User
	key  accounts.SigningKey
	now  time.Time // when the key was made
}

func newSigned(t *testing.T) *signed {
	t.Helper()
	a, err := New(true, "/local", "")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Second)
	return &signed{a, t, accounts.User{Name: "root", Version: position(7)}, signingKey(3, now), now}
}

func position(index uint64) accounts.Position { return accounts.Position{Index: index} }

func signingKey(index uint64, made time.Time) accounts.SigningKey {
	return accounts.SigningKey{ID: position(index), Secret: make([]byte, signingKeyBytes),
		CreatedMillis: uint64(made.UnixMilli())}
}

// known is the user and the keys.
func (s *signed) known(keys ...accounts.SigningKey) *accounts.Accounts {
	return accounts.Restored([]accounts.User{s.user}, keys)
}

// token is what the key has signed at a time, changed by change unless that is nil.
func (s *signed) token(at time.Time, change func(*loginClaims)) string {
	s.t.Helper()
	claims := loginClaims{RegisteredClaims: jwt.RegisteredClaims{Subject: "root",
		Audience: jwt.ClaimStrings{"/local"}, IssuedAt: jwt.NewNumericDate(at),
		ExpiresAt: jwt.NewNumericDate(at.Add(s.LoginLifetime))}, Version: s.user.Version.Index}
	if change != nil {
		change(&claims)
	}
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
	token.Header["kid"] = s.key.ID.String()
	text, err := token.SignedString(s.key.Secret)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// at resolves a token at a time, with the first key known.
func (s *signed) at(token string, now time.Time) *Identity {
	return resolveLogin(token, "/local", s.LoginLifetime, s.known(s.key), now)
}

// TestLoginProofOutlivesItsKey: what ended by itself does not end streams, what was thrown away does.
func TestLoginProofOutlivesItsKey(t *testing.T) {
	s := newSigned(t)
	id := s.at(s.token(s.now, nil), s.now)
	if id == nil || id.Name != "root" {
		t.Fatalf("got %+v", id)
	}
	day := 24 * time.Hour
	for what, test := range map[string]struct {
		known *accounts.Accounts
		want  bool
	}{
		"the key that signs": {s.known(s.key), true},
		"one of many keys": {s.known(signingKey(2, s.now.Add(-day)), s.key,
			signingKey(4, s.now.Add(day))), true},
		"forgotten by age, with others before": {s.known(signingKey(2, s.now.Add(day)),
			signingKey(5, s.now.Add(day))), true},
		"thrown away":                           {s.known(), false},
		"older than all, so it was thrown away": {s.known(signingKey(4, s.now.Add(day))), false},
		"older, thrown away and then came others": {s.known(signingKey(4, s.now.Add(-day)),
			signingKey(5, s.now)), false},
		"no user": {accounts.Restored(nil, []accounts.SigningKey{s.key}),
			false},
	} {
		if got := id.login.stillValid("root", test.known); got != test.want {
			t.Errorf("%s: still valid is %v", what, got)
		}
	}
}

// TestOldKeysProveNothing: who finds a key after its time cannot make a token that is good now.
func TestOldKeysProveNothing(t *testing.T) {
	s := newSigned(t)
	last := s.now.Add(SigningKeyLifetime)
	if s.at(s.token(last, nil), last) == nil {
		t.Error("a token of the key's last moment is refused")
	}
	if id := s.at(s.token(last, nil), last.Add(s.LoginLifetime)); id == nil {
		t.Error("the same is refused before its end")
	}
	if id := s.at(s.token(last, nil), last.Add(s.LoginLifetime+2*ClockSkew)); id != nil {
		t.Error("the same is good for ever")
	}
	late := last.Add(2*ClockSkew + time.Second)
	if id := s.at(s.token(late, nil), late); id != nil {
		t.Error("a token that was signed after the key's time is good")
	}
}

// TestLifetimeIsOurs: what a token says of its end cannot make it good for longer.
func TestLifetimeIsOurs(t *testing.T) {
	s := newSigned(t)
	century := s.token(s.now, func(c *loginClaims) {
		c.ExpiresAt = jwt.NewNumericDate(s.now.AddDate(100, 0, 0))
	})
	if s.at(century, s.now.Add(s.LoginLifetime)) == nil {
		t.Error("refused within its lifetime")
	}
	if s.at(century, s.now.Add(s.LoginLifetime+ClockSkew+time.Second)) != nil {
		t.Error("good for longer than the lifetime")
	}
	if s.at(s.token(s.now, func(c *loginClaims) { c.IssuedAt = nil }), s.now) != nil {
		t.Error("good without a beginning")
	}
	token := s.token(s.now, nil)
	s.LoginLifetime = MinLoginLifetime
	if s.at(token, s.now.Add(MinLoginLifetime)) == nil ||
		s.at(token, s.now.Add(MinLoginLifetime+ClockSkew+time.Second)) != nil {
		t.Error("a shorter lifetime does not count for a token from before")
	}
	// 43 characters of base64 hold 256 bits and two more, which nobody looked at.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	end := len(token) - 1
	changed := token[:end] + alphabet[strings.IndexByte(alphabet, token[end])|1:][:1]
	if changed == token || s.at(changed, s.now) != nil {
		t.Error("a token with other bits is as good")
	}
}

// TestKeysAreKept wants a key to be remembered for longer than any token is good, and not for ever.
func TestKeysAreKept(t *testing.T) {
	if time.Duration(signingKeysKept)*SigningKeyLifetime < MaxLoginLifetime+SigningKeyLifetime {
		t.Error("a key is forgotten while its tokens are good")
	}
	s := newSigned(t)
	known := s.known()
	for day := range 3 * signingKeysKept {
		made := s.now.Add(time.Duration(day) * SigningKeyLifetime)
		var newest accounts.Position
		if key, found := NewestKey(known); found {
			newest = key.ID
		}
		change := known.Rotate(accounts.By{Exempt: true}, position(uint64(day+1)), signingKey(0, made),
			newest, OutdatedKeys(known))
		if !change.Outcome.OK() {
			t.Fatal(change.Outcome)
		}
		known = change.After
		if got, want := len(known.SigningKeys()), min(day+1, signingKeysKept); got != want {
			t.Fatalf("%d keys after %d days, want %d", got, day+1, want)
		}
		if oldest := known.SigningKeys()[0].ID.Index; oldest != uint64(max(1, day+2-signingKeysKept)) {
			t.Fatalf("the oldest key after %d days is %d", day+1, oldest)
		}
	}
}
