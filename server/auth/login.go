package auth

import (
	"crypto/rand"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/coordd/coordd/coordination/accounts"
)

const (
	// DefaultLoginLifetime is how long a login token is good where nobody says otherwise. MinLoginLifetime
	// and MaxLoginLifetime bound what may be said.
	DefaultLoginLifetime = 12 * time.Hour
	MinLoginLifetime     = time.Minute
	MaxLoginLifetime     = 30 * 24 * time.Hour
	// SigningKeyLifetime is how long a key signs before the next login makes a new one. A token that says
	// that the key has signed it later than that is forged.
	SigningKeyLifetime = 24 * time.Hour
	// signingKeysKept is how many keys there may be before a login that makes a new one forgets the oldest.
	// Their number is that of the days for which a stream may live on one token, and more than
	// MaxLoginLifetime has days. It leaves room below accounts.MaxSigningKeys, for keys that cannot be
	// forgotten because a clock that was fast has stamped them.
	signingKeysKept = 60
	// signingKeyBytes is the length of a key.
	signingKeyBytes = 32
	// consoleLifetime bounds the time for which a token of the console is good.
	consoleLifetime = 12 * time.Hour
	// ClockSkew is how far the servers' clocks may be apart.
	ClockSkew = time.Minute
)

// loginClaims is the content of a login token. Its subject is the user, its audience the database or the console.
type loginClaims struct {
	jwt.RegisteredClaims
	// Version is that of the user's password: another password, or another user of the same name, has
	// another. It is a position; Place is 0 for most.
	Version uint64 `json:"ver"`
	Place   uint32 `json:"place,omitempty"`
}

func (c *loginClaims) version() accounts.Position {
	return accounts.Position{Index: c.Version, Place: c.Place}
}

// stillValid reports whether the user is still there with the same password, and whether the key is not older
// than all that are known: a rotation forgets everything before it, and whatever an older key has signed ends
// with that, also where it has expired meanwhile.
func (p *loginProof) stillValid(name string, known *accounts.Accounts) bool {
	user, found := known.User(name)
	keys := known.SigningKeys()
	return found && user.Version == p.version && len(keys) > 0 && p.key.Compare(keys[0].ID) >= 0
}

// SignLogin makes a login token for a user.
func (a *Authenticator) SignLogin(user accounts.User, key accounts.SigningKey, now time.Time) (string, error) {
	return sign(user, key, a.database.String(), now, a.LoginLifetime)
}

// SignConsole makes a token with which a user may use the console, and nothing else.
func (a *Authenticator) SignConsole(user accounts.User, key accounts.SigningKey, now time.Time) (string, error) {
	return sign(user, key, a.consoleAudience(), now, a.ConsoleLifetime())
}

// ConsoleLifetime returns the time for which a token of the console is good.
func (a *Authenticator) ConsoleLifetime() time.Duration { return min(consoleLifetime, a.LoginLifetime) }

// ResolveConsole returns the identity of a token that SignConsole has made, nil if the token is not one or has ended.
func (a *Authenticator) ResolveConsole(token string, known *accounts.Accounts) *Identity {
	if len(token) > maxTicketBytes {
		return nil
	}
	return resolveLogin(token, a.consoleAudience(), a.ConsoleLifetime(), known, time.Now())
}

// consoleAudience differs from every database, which begins with a slash.
func (a *Authenticator) consoleAudience() string { return "console" + a.database.String() }

func sign(user accounts.User, key accounts.SigningKey, audience string, now time.Time,
	lifetime time.Duration) (string, error) {
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, loginClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: user.Name, Audience: jwt.ClaimStrings{audience},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(lifetime)),
		},
		Version: user.Version.Index, Place: user.Version.Place,
	})
	token.Header["kid"] = key.ID.String()
	return token.SignedString(key.Secret)
}

// resolveLogin returns whose login token it is, nil if it is none, or none that is good now. Whatever the
// token says, it is good for lifetime at most, and was signed while its key did so.
func resolveLogin(token, audience string, lifetime time.Duration, known *accounts.Accounts, now time.Time) *Identity {
	if len(known.SigningKeys()) == 0 {
		return nil
	}
	var claims loginClaims
	var key accounts.SigningKey
	_, err := jwt.ParseWithClaims(token, &claims, func(t *jwt.Token) (any, error) {
		kid, _ := t.Header["kid"].(string)
		for _, key = range slices.Backward(known.SigningKeys()) { // most were signed lately
			if key.ID.String() == kid {
				return key.Secret, nil
			}
		}
		return nil, jwt.ErrTokenUnverifiable
	}, jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithAudience(audience),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(ClockSkew),
		jwt.WithTimeFunc(func() time.Time { return now }), jwt.WithStrictDecoding())
	if err != nil || claims.Subject == "" || claims.IssuedAt == nil {
		return nil
	}
	lastSigned := time.UnixMilli(int64(key.CreatedMillis)).Add(SigningKeyLifetime + 2*ClockSkew)
	if issued := claims.IssuedAt.Time; now.After(issued.Add(lifetime+ClockSkew)) || issued.After(lastSigned) {
		return nil
	}
	user, found := known.User(claims.Subject)
	if !found || user.Version != claims.version() {
		return nil
	}
	return &Identity{Name: user.Name, source: fromLogin,
		login: loginProof{user: user.ID, version: user.Version, key: key.ID, until: claims.ExpiresAt.Time}}
}

// NewestKey is the key that signs, if there is one.
func NewestKey(known *accounts.Accounts) (accounts.SigningKey, bool) {
	keys := known.SigningKeys()
	if len(keys) == 0 {
		return accounts.SigningKey{}, false
	}
	return keys[len(keys)-1], true
}

// OutdatedKeys is the time in milliseconds before which keys were made that a login which makes a new one is
// to forget, 0 for none. What is forgotten has not been able to sign or prove anything for long: it was kept
// so that a stream that began with its token is not taken for one whose key was thrown away.
func OutdatedKeys(known *accounts.Accounts) (beforeMillis uint64) {
	keys := known.SigningKeys()
	if len(keys) < signingKeysKept {
		return 0
	}
	created := make([]uint64, len(keys))
	for i, k := range keys {
		created[i] = k.CreatedMillis
	}
	slices.Sort(created)
	return created[len(keys)-signingKeysKept+1]
}

// NewSigningKey is the secret of a new key.
func NewSigningKey() ([]byte, error) {
	secret := make([]byte, signingKeyBytes)
	_, err := rand.Read(secret)
	return secret, err
}
