package auth

import (
	"crypto/rand"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/coordd/coordd/coordination/accounts"
)

const (
	// LoginLifetime is how long a login token is good.
	LoginLifetime = 12 * time.Hour
	// SigningKeyLifetime is how long a key signs before the next login makes a new one.
	SigningKeyLifetime = 24 * time.Hour
	// signingKeyBytes is the length of a key.
	signingKeyBytes = 32
	// ClockSkew is how far the servers' clocks may be apart.
	ClockSkew = time.Minute
)

// loginClaims is the content of a login token. Its subject is the user, its audience the database.
type loginClaims struct {
	jwt.RegisteredClaims
	// Version is that of the user's password: another password, or another user of the same name, has another. It is a
	// position; Place is 0 for most.
	Version uint64 `json:"ver"`
	Place   uint32 `json:"place,omitempty"`
}

func (c *loginClaims) version() accounts.Position {
	return accounts.Position{Index: c.Version, Place: c.Place}
}

// loginProof is what an identity keeps of its token.
type loginProof struct {
	user    accounts.Position // its id
	version accounts.Position
	key     accounts.Position
	expires time.Time
}

// stillValid tells whether the user is still there with the same password, and whether the key has not been thrown
// away while the token was good.
func (p *loginProof) stillValid(name string, known *accounts.Accounts, now time.Time) bool {
	user, found := known.User(name)
	if !found || user.Version != p.version {
		return false
	}
	return now.After(p.expires) || slices.ContainsFunc(known.SigningKeys(), func(k accounts.SigningKey) bool { return k.ID == p.key })
}

// SignLogin makes a login token for a user.
func (a *Authenticator) SignLogin(user accounts.User, key accounts.SigningKey, now time.Time) (string, error) {
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, loginClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: user.Name, Audience: jwt.ClaimStrings{a.database.String()},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(LoginLifetime)),
		},
		Version: user.Version.Index, Place: user.Version.Place,
	})
	token.Header["kid"] = key.ID.String()
	return token.SignedString(key.Secret)
}

// resolveLogin returns whose login token it is, nil if it is none, or none that is good now.
func resolveLogin(token, database string, known *accounts.Accounts, now time.Time) *Identity {
	if len(known.SigningKeys()) == 0 {
		return nil
	}
	var claims loginClaims
	var key accounts.SigningKey
	_, err := jwt.ParseWithClaims(token, &claims, func(t *jwt.Token) (any, error) {
		kid, _ := t.Header["kid"].(string)
		for _, key = range known.SigningKeys() {
			if key.ID.String() == kid {
				return key.Secret, nil
			}
		}
		return nil, jwt.ErrTokenUnverifiable
	}, jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithAudience(database), jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(), jwt.WithLeeway(ClockSkew), jwt.WithTimeFunc(func() time.Time { return now }))
	if err != nil || claims.Subject == "" {
		return nil
	}
	user, found := known.User(claims.Subject)
	if !found || user.Version != claims.version() {
		return nil
	}
	return &Identity{Name: user.Name, source: fromLogin,
		login: loginProof{user: user.ID, version: user.Version, key: key.ID, expires: claims.ExpiresAt.Time}}
}

// NewestKey is the key that signs, if there is one.
func NewestKey(known *accounts.Accounts) (accounts.SigningKey, bool) {
	keys := known.SigningKeys()
	if len(keys) == 0 {
		return accounts.SigningKey{}, false
	}
	return keys[len(keys)-1], true
}

// NewSigningKey is the secret of a new key.
func NewSigningKey() ([]byte, error) {
	secret := make([]byte, signingKeyBytes)
	_, err := rand.Read(secret)
	return secret, err
}
